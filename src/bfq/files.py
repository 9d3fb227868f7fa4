"""Atomic writes, JSON, folders and locks.

A file is written under a temporary name, flushed, then renamed: readers see all of it or nothing.
"""

import contextlib
import glob
import json
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bfq.errors import BadInput, Busy, DiskTrouble

STALE_S = 3600.0  # a temporary file this old belongs to a killed process


@contextlib.contextmanager
def writing(place: Path) -> Iterator[None]:
    """Turn errors of the disk into DiskTrouble."""
    try:
        yield
    except OSError as error:
        raise DiskTrouble(f"cannot write to {place}: {error.strerror or error}.") from error


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with writing(path):
            with part.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    _sweep(path)


def _sweep(path: Path) -> None:
    """Remove the temporary files of killed processes."""
    for part in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 8}.part"):
        with contextlib.suppress(OSError):  # another process may remove it first
            if time.time() - part.stat().st_mtime > STALE_S:
                part.unlink()


def write_json(path: Path, content: Any) -> None:
    """Write standard JSON: no NaN, keys in their own order."""
    write_bytes(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())


def check_regular(path: Path) -> None:
    """Refuse a pipe or a device: reading it may never end."""
    if path.exists() and not path.is_file():
        raise BadInput(f"{path} is not a plain file.")


def check_place(folder: Path) -> None:
    """Refuse a folder that cannot be created, before any work is done."""
    try:
        there = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot write to the folder {folder}: {error}.") from error
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise BadInput(f"cannot write to the folder {folder}: {there} is not a writable folder.")


def make_folder(path: Path) -> None:
    """Create a folder; BadInput if it is not writable."""
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


@contextlib.contextmanager
def locked(folder: Path, refusal: str = TRAINING) -> Iterator[None]:
    """Lock a folder; the lock ends with the process, even if it is killed."""
    from filelock import FileLock, Timeout  # slow to import

    path = folder / ".lock"
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise BadInput(f"{path} is not a plain file: remove it.")
    lock = FileLock(path, blocking=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise Busy(refusal.format(folder=folder)) from error
    except OSError as error:
        raise BadInput(
            f"cannot write to the folder {folder}: {error.strerror or error}."
        ) from error
    try:
        yield
    finally:
        lock.release()
