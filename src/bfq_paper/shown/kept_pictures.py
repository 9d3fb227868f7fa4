"""Pictures that lie among results: these may be anybody's, and what is called a picture may be any file."""

from contextlib import suppress
from pathlib import Path

PNG = b"\x89PNG\r\n\x1a\n"  # how every one begins


def kept_picture(path: Path) -> bytes | None:
    """The picture at a place; None where there is none, or a link, which may lead anywhere."""
    with suppress(OSError, ValueError):  # a name that no file can have
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            return content if content.startswith(PNG) else None
    return None
