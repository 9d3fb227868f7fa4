"""A file from one of several addresses: resumed, checked, and in its place only when it is whole.

    FILE              complete and checked
    FILE.ledger.json  its sha256, and where and when it was got; expected of FILE from then on
    .FILE.lock        held while one process fetches, so that another waits and then finds the file

A file whose checksum nobody publishes is trusted on first use: another under its name is refused later.
"""

import contextlib
import datetime
import fcntl
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bfq.data import places
from bfq.data.fetching.transfer import Progress, Wanted, begins_well, disk, forget, pull
from bfq.data.fetching.web import Interrupted, Manners, Refused
from bfq.errors import BadInput, DiskTrouble
from bfq.files import make_folder, open_lock, read_json, write_json

OFFLINE = "BFQ_OFFLINE"  # the environment variable that forbids fetching

Say = Callable[[str], None]


@dataclass(frozen=True)
class Remote:
    """A file and where it can be had."""

    name: str  # the dataset it belongs to
    file: str  # its name on disk
    mirrors: tuple[str, ...]  # addresses, tried in order
    sha256: str | None = None  # None: nobody publishes it
    size: int | None = None  # in bytes
    plain_http: bool = False  # whether addresses without encryption may be used


def fetch(
    remote: Remote,
    folder: Path | None = None,
    *,
    offline: bool | None = None,
    progress: Progress | None = None,
    say: Say | None = None,
    manners: Manners | None = None,
) -> Path:
    """The path of the file, once it is in the folder (else the one for downloads) and checked."""
    target = (folder or places.downloads()) / remote.file
    if target.name != remote.file or remote.file.startswith("."):
        raise BadInput(f"{remote.file!r} cannot name a file.")
    say = say or (lambda sentence: None)
    if _present(remote, target, say):
        return target
    if is_offline(offline):
        raise BadInput(
            f"{remote.file} is not here and fetching is switched off: put it at {target} by hand"
            f" (it can be had at {remote.mirrors[0]}), or unset {OFFLINE}."
        )
    make_folder(target.parent)
    with _alone(target):
        if not _present(remote, target, say):  # another process may have brought it meanwhile
            _from_mirrors(
                remote, target, progress or (lambda done, total: None), say, manners or Manners()
            )
    return target


def is_offline(offline: bool | None = None) -> bool:
    """Whether fetching is switched off, by the argument or else by $BFQ_OFFLINE."""
    return os.environ.get(OFFLINE, "") not in ("", "0") if offline is None else offline


def _present(remote: Remote, target: Path, say: Say) -> bool:
    """Whether the file is here and the one expected; one put here by hand enters the ledger."""
    if not target.exists():
        return False
    digest, expected, fault = _examined(remote, target, target)
    if fault:
        raise BadInput(
            f"{target} is not the file it should be: {fault}; remove it to fetch it again."
        )
    if expected is None:
        with contextlib.suppress(DiskTrouble):  # a folder that many share may be closed to writing
            _enter(remote, target, digest, "put there by hand", say)
    return True


def _examined(remote: Remote, path: Path, target: Path) -> tuple[str, str | None, str | None]:
    """The sha256 of a file, the one it should have if that is known, and what is wrong with the file."""
    expected, whence = _expected(remote, target)
    try:
        with path.open("rb") as file:
            head = file.read(8)
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.tell()
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror or error}.") from error
    if not begins_well(remote.file, head):
        return digest, expected, f"it is of another kind and begins with {head!r}"
    if size != (remote.size or size):
        return digest, expected, f"it has {size:,} bytes and not {remote.size:,}"
    if digest != (expected or digest):
        return digest, expected, f"its sha256 is {digest} and not {expected}, {whence}"
    return digest, expected, None


def _expected(remote: Remote, target: Path) -> tuple[str | None, str]:
    """The sha256 that the file must have, if it is known, and by whose word."""
    ledger = _ledger(target)
    if remote.sha256 or not ledger.exists():
        return remote.sha256, "the published one"
    entry = read_json(ledger)
    if not (isinstance(entry, dict) and re.fullmatch("[0-9a-f]{64}", str(entry.get("sha256")))):
        raise BadInput(f"{ledger} tells no sha256: remove it to trust the file anew.")
    return str(
        entry["sha256"]
    ), f"as on {entry.get('when')} (remove {ledger.name} too, to accept another)"


def _enter(remote: Remote, target: Path, digest: str, source: str, say: Say) -> None:
    when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    entry = {
        "sha256": digest,
        "published": remote.sha256 is not None,
        "source": source,
        "when": when,
    }
    write_json(_ledger(target), entry)
    if remote.sha256 is None:
        say(
            f"no checksum of {remote.file} is published: it is trusted as it is, and sha256 {digest}"
            f" is expected from now on ({_ledger(target)})."
        )


def _ledger(target: Path) -> Path:
    return target.with_name(f"{target.name}.ledger.json")


@contextlib.contextmanager
def _alone(target: Path) -> Iterator[None]:
    """One process at a time; the lock goes with the process, however it ends."""
    with open_lock(target.with_name(f".{target.name}.lock")) as file:
        with disk(target):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _from_mirrors(
    remote: Remote, target: Path, progress: Progress, say: Say, manners: Manners
) -> None:
    part = target.with_name(f".{target.name}.part")
    answers = []
    for url in remote.mirrors:
        wanted = Wanted(url, remote.file, remote.plain_http, remote.size, remote.sha256 is not None)
        try:
            pull(wanted, part, progress, manners)
            _accept(remote, url, part, target, say)
        except (Refused, Interrupted) as trouble:
            answers.append(f"{url} {trouble}")
        else:
            return
    raise BadInput(
        f"{remote.file} could not be fetched: {'; '.join(answers)}."
        f" Try again later, or get it another way and run: bfq data import FILE --as {remote.name}"
    )


def _accept(remote: Remote, url: str, part: Path, target: Path, say: Say) -> None:
    """Moves a complete part file into its place, unless it is the wrong one."""
    digest, _, fault = _examined(remote, part, target)
    if fault:
        forget(part)
        raise Refused(f"sends a wrong or damaged file: {fault}")
    with disk(target):
        with part.open("rb") as file:
            os.fsync(file.fileno())
        _enter(remote, target, digest, url, say)
        os.replace(part, target)
        forget(part)
