"""Download published files with pooch: checksums, retries, mirrors, and no half-written files.

    FILE              complete and checked
    FILE.ledger.json  its sha256, source and date; a later file of the same name must match it
    .FILE.part        an incomplete download; the next attempt continues it if a checksum is known
    .FILE.lock        held during a download; other processes wait and then find the file

A file without a published checksum is trusted on first use.
"""

import contextlib
import datetime
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from filelock import FileLock
from msgspec import Meta

from bfq.data import store
from bfq.errors import BadInput, DiskTrouble
from bfq.files import make_folder, write_json, writing
from bfq.records import decode, read_text

OFFLINE = "BFQ_OFFLINE"  # the environment variable that forbids downloads
TEMPORARY = (408, 425, 429, *range(500, 600))  # status codes worth another attempt
BLOCK = 1 << 16
SLOWEST, PATIENCE = 1024, 60.0  # bytes per second, after so many seconds
SIGNATURES = {".hdf5": b"\x89HDF\r\n\x1a\n", ".npz": b"PK\x03\x04"}

Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Progress = Callable[[int, int | None], None]
Say = Callable[[str], None]


class Refused(Exception):
    """The server does not have what is wanted; another one may. It is not asked again."""


@dataclass(frozen=True)
class Remote:
    """A file and where to download it."""

    name: str  # the dataset it belongs to
    file: str  # its name on disk
    mirrors: tuple[str, ...]  # addresses, tried in order
    sha256: str | None = None  # None if nobody publishes it
    size: int | None = None  # in bytes
    plain_http: bool = False  # whether unencrypted addresses are allowed


@dataclass(frozen=True)
class LedgerEntry:
    """What is recorded about a downloaded file."""

    sha256: Sha256
    published: bool
    source: str
    when: str


def fetch(
    remote: Remote,
    folder: Path | None = None,
    *,
    progress: Progress = lambda done, total: None,
    say: Say = lambda sentence: None,
    retries: int = 3,
    timeout: float = 20.0,
) -> Path:
    """Return the path of the file in `folder` (or the download folder), downloaded if necessary."""
    target = (folder or store.downloads()) / remote.file
    if target.name != remote.file or remote.file.startswith("."):
        raise BadInput(f"{remote.file!r} cannot name a file.")
    if target.exists():
        return _check_present(remote, target, say)
    check_online(remote.file, f"put it at {target} (it is published at {remote.mirrors[0]})")
    make_folder(target.parent)
    with writing(target), FileLock(target.with_name(f".{target.name}.lock")):
        if target.exists():  # another process was faster
            return _check_present(remote, target, say)
        transfer = _Transfer(remote, target, progress, timeout)
        return _try_mirrors(transfer, say, retries)


def check_online(missing: str, remedy: str) -> None:
    """Refuse a download if $BFQ_OFFLINE forbids it."""
    if os.environ.get(OFFLINE, "") not in ("", "0"):
        raise BadInput(
            f"{missing} is not on this machine and downloads are disabled: {remedy}, or unset {OFFLINE}."
        )


def _check_present(remote: Remote, target: Path, say: Say) -> Path:
    """Check a file that is already here; one that was put here by hand is added to the ledger."""
    signature = SIGNATURES.get(target.suffix, b"")
    try:
        with target.open("rb") as file:
            head = file.read(len(signature))
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadInput(f"cannot read {target}: {error.strerror or error}.") from error
    expected, source = _expected(remote, target)
    if head != signature:
        raise BadInput(f"{target} is not the expected file: it begins with {head!r}; remove it.")
    if digest != (expected or digest):
        raise BadInput(
            f"{target} is not the expected file: its sha256 is {digest} and not {expected}, {source};"
            " remove it to download it again."
        )
    if expected is None:
        with contextlib.suppress(DiskTrouble):  # a shared folder may be read-only
            _record(remote, target, digest, "put there by hand", say)
    return target


def _expected(remote: Remote, target: Path) -> tuple[str | None, str]:
    """The sha256 the file must have, if known, and where it comes from."""
    ledger = _ledger(target)
    if remote.sha256 or not ledger.exists():
        return remote.sha256, "the published one"
    entry = decode(read_text(ledger), LedgerEntry, str(ledger))
    return entry.sha256, f"as on {entry.when} (remove {ledger.name} too, to accept another)"


def _record(remote: Remote, target: Path, digest: str, source: str, say: Say) -> None:
    when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    entry = LedgerEntry(digest, remote.sha256 is not None, source, when)
    write_json(_ledger(target), vars(entry))
    if remote.sha256 is None:
        say(
            f"no checksum of {remote.file} is published: this file is trusted, and later ones must have"
            f" the sha256 {digest} ({_ledger(target)})."
        )


def _ledger(target: Path) -> Path:
    return target.with_name(f"{target.name}.ledger.json")


def import_pooch() -> Any:
    """The package that downloads, or a sentence that names the extra."""
    try:
        import pooch
    except ImportError as error:
        raise BadInput("downloads need pooch: pip install 'bfq-rl[download]'.") from error
    pooch.get_logger().setLevel("ERROR")
    return pooch


def _try_mirrors(transfer: "_Transfer", say: Say, retries: int) -> Path:
    pooch = import_pooch()
    remote, target = transfer.remote, transfer.target
    expected, answers = _expected(remote, target)[0], []
    for url in remote.mirrors:
        settings = {"registry": {remote.file: expected}, "urls": {remote.file: url}}
        registry = pooch.Pooch(target.parent, "", **settings, retry_if_failed=retries)
        try:
            registry.fetch(remote.file, downloader=transfer)
        except (Refused, ValueError, OSError) as error:
            if isinstance(error, OSError) and not hasattr(error, "response"):
                raise  # not from requests, so from the disk
            answers.append(f"{url}: {reason(error)}")
        else:
            _record(remote, target, pooch.file_hash(str(target)), url, say)
            return target
    raise BadInput(
        f"{remote.file} could not be downloaded: {'; '.join(answers)}."
        f" Try again later, or get it another way and run: bfq data import FILE --as {remote.name}"
    )


@dataclass(frozen=True)
class _Transfer:
    """A downloader for pooch that checks the size and continues a part with a known checksum."""

    remote: Remote
    target: Path
    progress: Progress
    timeout: float

    @property
    def part(self) -> Path:
        """The incomplete file."""
        return self.target.with_name(f".{self.target.name}.part")

    def __call__(self, url: str, output: str, _pooch: Any) -> None:
        # Parts of two versions can only be distinguished by the checksum of the whole file.
        begin = self.part.stat().st_size if self.remote.sha256 and self.part.exists() else 0
        if not begin or begin != self.remote.size:
            self._receive(url, begin)
        os.replace(self.part, output)

    def _receive(self, url: str, begin: int) -> None:
        import requests

        signature = SIGNATURES.get(Path(self.remote.file).suffix, b"")
        headers = {"Range": f"bytes={begin}-"} if begin else {}
        with (
            open_session(self.remote.plain_http) as session,
            session.get(url, headers=headers, timeout=self.timeout, stream=True) as response,
        ):
            if response.status_code == requests.codes.requested_range_not_satisfiable:
                self.part.unlink()
            if not response.ok and response.status_code not in TEMPORARY:
                raise Refused(f"{response.status_code} {response.reason}")
            response.raise_for_status()
            end = begin if response.status_code == requests.codes.partial_content else 0
            length = response.headers.get("Content-Length")
            total = end + int(length) if length else self.remote.size
            if total is None or total != (self.remote.size or total):
                raise Refused(f"its size is {total}, not {self.remote.size or 'given'}")
            if total - end > shutil.disk_usage(self.part.parent).free:
                raise DiskTrouble(f"{self.part.parent} has no room for {total - end:,} more bytes.")
            with self.part.open("ab" if end else "wb") as file:
                for block in _blocks(response.raw):
                    if not end and not block.startswith(signature):
                        raise Refused(f"it sends something other than {self.remote.file}")
                    end += len(block)
                    if end > total:
                        raise Refused(f"it sends more than {total:,} bytes")
                    file.write(block)
                    self.progress(end, total)
        if end < total:
            raise requests.ConnectionError(f"it ended after {end:,} of {total:,} bytes")


def _blocks(stream: Any) -> Iterator[bytes]:
    """What arrives, as it arrives, from a server that is not too slow."""
    import requests
    import urllib3

    start, received = time.monotonic(), 0
    try:
        while block := stream.read1(BLOCK):
            yield block
            received, seconds = received + len(block), time.monotonic() - start
            if seconds > PATIENCE and received < SLOWEST * seconds:
                raise requests.ConnectionError(f"it sends less than {SLOWEST:,} bytes per second")
    except urllib3.exceptions.HTTPError as error:
        raise requests.ConnectionError(str(error)) from error


def open_session(plain_http: bool) -> Any:
    """A session of requests: HTTPS only, redirects included, unless plain HTTP is allowed."""
    import requests

    session = requests.Session()
    session.headers.update({"User-Agent": "bfq-rl", "Accept-Encoding": "identity"})
    session.max_redirects = 5
    if not plain_http:
        session.adapters.pop("http://")
    return session


def reason(error: Exception) -> str:
    """What went wrong at an address, in a few words."""
    response = getattr(error, "response", None)
    if response is not None and not response.is_redirect:
        return f"{response.status_code} {response.reason}"
    return " ".join(str(error).rpartition(": ")[2].split()).strip("'\".()")
