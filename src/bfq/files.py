"""Files that are whole or absent: written beside their place, flushed, then renamed into it."""

import contextlib
import errno
import fcntl
import glob
import json
import math
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

from bfq.errors import BadInput, Busy, DiskTrouble

DIGITS = 19  # of whole numbers in JSON, a sign among them
STALE_S = 3600.0  # no write takes so long: its process was killed


def write_bytes(path: Path, content: bytes) -> None:
    """Puts `content` at `path` in one step, as far as any reader can tell."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")  # no other writer's
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise DiskTrouble(f"cannot write {path}: {error.strerror or error}.") from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    _sweep(path)


def _sweep(path: Path) -> None:
    """Removes what writers of the same file left when they were killed."""
    for part in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 8}.part"):
        with contextlib.suppress(OSError):  # another may be as quick
            if time.time() - part.stat().st_mtime > STALE_S:
                part.unlink()


def write_json(path: Path, content: Any) -> None:
    """Writes JSON that any reader takes: no NaN, keys in their own order."""
    write_bytes(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """The JSON of a file, or a sentence saying what is wrong with it; NaN is none of JSON's numbers."""
    check_regular(path)
    try:
        return json_of(path.read_text())
    except FileNotFoundError as error:
        raise BadInput(f"there is no file {path}.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"{path} is not readable JSON: {error}.") from error


def json_of(text: str) -> Any:
    """The JSON of a text, or a ValueError: no NaN, and no number that could not be reckoned with."""
    return json.loads(text, parse_constant=_refused, parse_float=_finite, parse_int=_whole)


def _finite(text: str) -> float:
    """A number with a point or an exponent: 1e999 would be infinite."""
    return float(text) if math.isfinite(float(text)) else _refused(text)


def _whole(text: str) -> int:
    """A number without: what has more digits counts nothing, and no float can hold it."""
    return int(text) if len(text) <= DIGITS else _refused(text)


def check_regular(path: Path) -> None:
    """Refuses what is there but no plain file: reading a pipe or a device may never end."""
    if path.exists() and not path.is_file():
        raise BadInput(f"{path} is not a plain file.")


def _refused(number: str) -> NoReturn:
    shown = number if len(number) <= DIGITS else f"{number[:DIGITS]}…"
    raise ValueError(f"{shown} is no number that can be used")


def check_place(folder: Path) -> None:
    """Refuses a folder that could not be made, before any work is done for it."""
    try:
        there = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot write to the folder {folder}: {error}.") from error
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise BadInput(
            f"cannot write to the folder {folder}: {there} is no folder one can write to."
        )


def make_folder(path: Path) -> None:
    """Makes a folder one can write to, or says why not."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".writable"
        probe.touch()
        probe.unlink()
    except (OSError, ValueError) as error:
        raise BadInput(
            f"cannot write to the folder {path}: {getattr(error, 'strerror', error)}."
        ) from error


TRAINING = "another process is training in {folder}: wait for it or choose another --out."


NO_FILE = (errno.ELOOP, errno.EISDIR, errno.ENXIO)  # why links, folders and sockets are not opened
# A link is not followed, a pipe not waited for, and nothing that is there is emptied.
LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextlib.contextmanager
def locked(folder: Path, refusal: str = TRAINING) -> Iterator[None]:
    """Holds a folder for one process; the lock goes with the process, however it ends."""
    path = folder / ".lock"
    with open_lock(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Busy(refusal.format(folder=folder)) from error
        if not in_place(file, path):
            raise Busy(refusal.format(folder=folder))
        yield


def open_lock(path: Path) -> IO[bytes]:
    """The file of a lock, made if there is none; what is there and no plain file is refused untouched."""
    try:
        number = os.open(path, LOCK_FLAGS, 0o666)
    except OSError as error:
        if error.errno in NO_FILE:
            raise BadInput(f"{path} is not a plain file: remove it.") from error
        raise BadInput(
            f"cannot write to the folder {path.parent}: {error.strerror or error}."
        ) from error
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise BadInput(f"{path} is not a plain file: remove it.")
    return os.fdopen(number, "r+b", buffering=0)


def in_place(file: IO[bytes], path: Path) -> bool:
    """Whether a lock's file is still at its path: one that its last holder took away keeps nobody off."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.lstat())
    except FileNotFoundError:
        return False
