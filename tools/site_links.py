"""MkDocs hook: links from a page to files outside docs/ are checked and shown as plain text.

On a code host these links open the file. The site contains the pages and the pictures in results/.
"""

import logging
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)#\s]+)(#[^)]*)?\)")
PICTURE = re.compile(r"(!\[[^\]]*\]\()\.\./((?:\.\./)*results/[^)\s]+\.png\))")
log = logging.getLogger("mkdocs.plugins.site_links")


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Add the pictures in results/ to the site."""
    root = Path(config["docs_dir"]).resolve().parent
    for path in sorted((root / "results").rglob("*.png")):
        name = path.relative_to(root).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Replace links that leave docs/ by their text; find pictures where the site has them."""
    docs = Path(config["docs_dir"]).resolve()
    here = (docs / page.file.src_path).parent

    def shown(link: re.Match[str]) -> str:
        target = (here / link[2]).resolve()
        if target.is_relative_to(docs):
            return link[0]
        if not target.exists():
            log.warning("%s links to %s, which does not exist", page.file.src_path, link[2])
        return link[1]

    return PICTURE.sub(r"\1\2", LINK.sub(shown, markdown))
