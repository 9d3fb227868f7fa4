"""Asking a server: whom to ask at all, how patiently, and which of its refusals another try may cure.

Bytes from one address into a part file: continued where they broke off, bounded, never of two versions.

    .FILE.part       what has come so far
    .FILE.part.json  of which version of which address it is a piece

A piece is continued only if the server confirms, by If-Range and its own validator, that the file is still
the same one; otherwise it is begun anew.

A file from one of several addresses: resumed, checked, and in its place only when it is whole.

    FILE              complete and checked
    FILE.ledger.json  its sha256, and where and when it was got; expected of FILE from then on
    .FILE.lock        held while one process fetches, so that another waits and then finds the file

A file whose checksum nobody publishes is trusted on first use: another under its name is refused later.
"""

import contextlib
import datetime
import fcntl
import functools
import hashlib
import http.client
import json
import os
import re
import shutil
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar
from urllib.parse import urljoin, urlsplit

from bfq.data import store as places
from bfq.errors import BadInput, DiskTrouble
from bfq.files import make_folder, open_lock, read_json, write_json
from bfq.provenance import versions

T = TypeVar("T")

_HOPS = 5  # redirects followed
_MOVED = (301, 302, 303, 307, 308)
_PASSING = (408, 425, 429)  # refusals that time may cure, as it may all from 500 on


@dataclass(frozen=True)
class Manners:
    """How patient to be with a server, and how much to take from it."""

    timeout: float = 20.0  # seconds without a byte
    attempts: int = 4  # in a row that bring less than `worth`
    pause: float = 1.0  # seconds before the second attempt, doubled before each further one
    worth: int = 1 << 20  # bytes
    slowest: float = 1024.0  # bytes a second, measured over `window` seconds
    window: float = 60.0
    most: int = 16 << 30  # bytes of a file whose size nobody told beforehand
    sleep: Callable[[float], None] = time.sleep


class Refused(Exception):
    """The address will not give what is asked for; another may."""

    def __init__(self, sentence: str, status: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status


class Interrupted(Exception):
    """The answer broke off or did not come; the same address may give it later."""


def patiently(act: Callable[[], T], manners: Manners, length: Callable[[], int] = lambda: 0) -> T:
    """Tries again after an interruption, as long as that makes the length of what has come grow."""
    failures, longest = 0, length()
    while True:
        try:
            return act()
        except Interrupted:
            # Measured from the longest so far: a server that never gets past some point is given up.
            failures = 1 if length() >= longest + manners.worth else failures + 1
            longest = max(longest, length())
            if failures >= manners.attempts:
                raise
            manners.sleep(manners.pause * 2 ** (failures - 1))


def page(url: str, plain_http: bool, most: int, manners: Manners) -> tuple[bytes, str | None]:
    """A short answer, and the address of the page after it where the server names one (RFC 8288)."""
    with visit(url, plain_http, manners.timeout) as response:
        declared = response.length or 0
        body = taken(lambda: response.read(most + 1))
        if len(body) > most or declared > most:
            raise Refused(f"answers with more than {most:,} bytes")
        if len(body) < declared:
            raise Interrupted(f"broke off after {len(body):,} of {declared:,} bytes")
        link = re.search(r'<([^<>]*)>\s*;[^<>]*\brel="?next\b', response.headers.get("Link", ""))
    return body, _joined(url, link[1]) if link else None


def taken(read: Callable[[], bytes]) -> bytes:
    """What a read gives, its failures told apart from those of the disk."""
    try:
        return read()
    except (OSError, http.client.HTTPException) as error:
        raise Interrupted(f"broke off ({_words(error)})") from error


@contextlib.contextmanager
def visit(
    url: str, plain_http: bool, timeout: float, headers: Mapping[str, str] | None = None
) -> Iterator[http.client.HTTPResponse]:
    """The answer of an address after its redirects: over https, or over http too where that is allowed."""
    response, place = None, url
    for _ in range(_HOPS + 1):
        response, place = _ask(
            place, plain_http, timeout, {"User-Agent": _agent(), **(headers or {})}
        )
        if response:
            break
    if response is None:
        raise Refused("redirects without end")
    with response:
        yield response


def _ask(
    url: str, plain_http: bool, timeout: float, headers: dict[str, str]
) -> tuple[http.client.HTTPResponse | None, str]:
    """The answer, or else the address that it points to."""
    try:
        if urlsplit(url).scheme not in (("http", "https") if plain_http else ("https",)):
            raise Refused(
                f"leads to {url[:80]!r}, which is not {'http or ' if plain_http else ''}https"
            )
        return _opener().open(urllib.request.Request(url, headers=headers), timeout=timeout), url
    except urllib.error.HTTPError as error:
        with error:
            if error.code in _MOVED and "Location" in error.headers:
                return None, _joined(url, error.headers["Location"])
        sentence = f"answers {error.code} {http.client.responses.get(error.code, '')}".rstrip()
        if error.code in _PASSING or error.code >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
            raise Interrupted(sentence) from error
        raise Refused(sentence, error.code) from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise Refused("shows a certificate that cannot be trusted") from error
        raise Interrupted(f"does not answer ({_words(reason)})") from error


def _joined(url: str, place: str) -> str:
    """The address that another one points to."""
    try:
        joined = urljoin(url, place)
        urlsplit(joined).port  # noqa: B018 - reading it is what finds a port that is none
    except ValueError as error:
        raise Refused(f"leads to {place[:80]!r}, which is no address") from error
    return joined


def _opener() -> urllib.request.OpenerDirector:
    """Not urlopen's: that would open file: and ftp: too, and follow a redirect without asking."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
    ):
        opener.add_handler(handler)
    return opener


@functools.cache
def _agent() -> str:
    return f"bfq-rl/{versions().get('bfq-rl', '0')} (fetches datasets; Python urllib)"


def _words(reason: object) -> str:
    return str(getattr(reason, "strerror", None) or reason) or type(reason).__name__


Progress = Callable[[int, int | None], None]

_BLOCK = 1 << 18
_HEAD = 8  # bytes that tell the kind of a file
_SIGNATURES = {".hdf5": b"\x89HDF\r\n\x1a\n", ".npz": b"PK\x03\x04"}


class Wanted(NamedTuple):
    """What is known beforehand of the file at an address."""

    url: str
    name: str  # its ending tells the kind
    plain_http: bool  # whether an address without encryption will do
    size: int | None
    checked: bool  # whether a checksum will tell if something is missing


class _Piece(NamedTuple):
    """What a part file is a piece of."""

    url: str
    validator: str | None  # names the version: a strong ETag, or a date
    total: int | None


class _Pace:
    """Notices a server that sends a little now and then, so that no time-out ever strikes."""

    def __init__(self, manners: Manners, end: int) -> None:
        self._manners, self._since, self._mark = manners, time.monotonic(), end

    def check(self, end: int) -> None:
        elapsed = time.monotonic() - self._since
        if elapsed > self._manners.window:
            if end - self._mark < self._manners.slowest * elapsed:
                raise Interrupted(f"sends less than {self._manners.slowest:,.0f} bytes a second")
            self._since, self._mark = time.monotonic(), end


def begins_well(name: str, head: bytes) -> bool:
    """Whether a file of that name may begin like this; a web page in its place does not."""
    if name.endswith(".json"):
        return head.lstrip()[:1] in (b"{", b"[")
    return head.startswith(
        _SIGNATURES.get(Path(name).suffix, b"")
    ) and not head.lstrip().startswith(b"<")


def pull(wanted: Wanted, part: Path, progress: Progress, manners: Manners) -> None:
    """Brings the part file to its full length, in as many attempts as the server is worth."""
    patiently(lambda: _attempt(wanted, part, progress, manners), manners, lambda: _length(part))


def forget(part: Path) -> None:
    """Throws away a part file and then the note beside it: a note alone does no harm."""
    for path in (part, _note(part)):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def disk(path: Path | str) -> Iterator[None]:
    """Turns what the disk refuses into a sentence."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise DiskTrouble(
            f"cannot write {path}: {reason}; what came before is kept for another try."
        ) from error


def _attempt(wanted: Wanted, part: Path, progress: Progress, manners: Manners) -> None:
    piece = _piece(part, wanted.url)
    begin = _length(part) if piece else 0
    if piece and begin == piece.total:
        return
    headers = (
        {"Range": f"bytes={begin}-", "If-Range": str(piece.validator)} if piece and begin else {}
    )
    try:
        with visit(wanted.url, wanted.plain_http, manners.timeout, headers) as response:
            if response.status != HTTPStatus.PARTIAL_CONTENT:
                begin = 0
            elif piece is None or not _continues(response, piece, begin):
                forget(part)
                raise Interrupted("changed the file between two tries")
            total = _total(response, piece)
            room = _room(wanted, response, total, manners.most)
            with _open(part, begin, _Piece(wanted.url, _validator(response), total)) as file:
                end = _copy(
                    wanted.name, response, file, begin, total, room, progress, _Pace(manners, begin)
                )
    except Refused as refused:
        if refused.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            forget(part)
            raise Interrupted("has less of the file than it had") from refused
        raise
    whole = wanted.size if total is None else total
    if whole is not None and end != whole:
        raise Interrupted(f"broke off after {end:,} of {whole:,} bytes")


def _continues(response: http.client.HTTPResponse, piece: _Piece, begin: int) -> bool:
    """A server may send a range of another version in spite of If-Range."""
    span = _span(response)
    if not span or int(span[1]) != begin or _validator(response) not in (None, piece.validator):
        return False
    return piece.total is None or span[2] in ("*", str(piece.total))


def _total(response: http.client.HTTPResponse, piece: _Piece | None) -> int | None:
    """The length of the whole file; an answer to a range may stop short of its end."""
    if response.status != HTTPStatus.PARTIAL_CONTENT:
        return response.length
    span = _span(response)
    return int(span[2]) if span and span[2] != "*" else piece and piece.total


def _span(response: http.client.HTTPResponse) -> re.Match[str] | None:
    return re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))


def _room(wanted: Wanted, response: http.client.HTTPResponse, total: int | None, most: int) -> int:
    """How many bytes to take at most; refuses what cannot be the file before any is taken."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise Refused("sends the file encoded anew")
    if total is None and not (response.chunked or wanted.size or wanted.checked):
        raise Refused("does not tell how long the file is, so that a part could pass for the whole")
    room = most if wanted.size is None else wanted.size
    if total is not None and (total > room or total != (wanted.size or total)):
        raise Refused(
            f"has a file of {total:,} bytes where {'at most ' * (wanted.size is None)}{room:,} are expected"
        )
    return room


@contextlib.contextmanager
def _open(part: Path, begin: int, piece: _Piece) -> Iterator[BinaryIO]:
    """The part file, ready for the bytes from `begin` on; the note of their origin is there before them."""
    with disk(part):
        coming = (piece.total or 0) - begin
        if coming > shutil.disk_usage(part.parent).free:
            raise DiskTrouble(f"there is no room in {part.parent}: {coming:,} bytes are to come.")
        if not begin:
            forget(part)
            write_json(_note(part), piece._asdict())
        file = part.open("ab")
    try:
        yield file
    except Refused:
        forget(part)
        raise
    finally:
        with disk(part):
            file.close()


def _copy(
    name: str,
    response: http.client.HTTPResponse,
    file: BinaryIO,
    end: int,
    total: int | None,
    room: int,
    progress: Progress,
    pace: _Pace,
) -> int:
    """Takes what comes until it ends, and returns the length reached."""
    head = taken(lambda: response.read(_HEAD)) if end == 0 else b""
    if len(head) == _HEAD and not begins_well(name, head):
        raise Refused(f"answers with something else than {name}: it begins with {head!r}")
    block = head or _block(response, end, total)
    while block:
        end += len(block)
        if end > room:
            raise Refused(f"sends more than the {room:,} bytes expected")
        with disk(file.name):
            file.write(block)
        progress(end, total)
        pace.check(end)
        block = _block(response, end, total)
    return end


def _block(response: http.client.HTTPResponse, end: int, total: int | None) -> bytes:
    """The next bytes that are there; none at the end, which a server may fail to mark by hanging up."""
    most = _BLOCK if total is None else min(_BLOCK, total - end)
    return taken(lambda: response.read1(most)) if most else b""


def _note(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _piece(part: Path, url: str) -> _Piece | None:
    """What the part file is a piece of, if it can be continued from this address."""
    try:
        piece = _Piece(**json.loads(_note(part).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return piece if piece.url == url and isinstance(piece.validator, str) else None


def _validator(response: http.client.HTTPResponse) -> str | None:
    """A weak ETag (W/…) names what looks alike, not what has the same bytes."""
    tag = response.headers.get("ETag", "")
    return tag if tag.startswith('"') else response.headers.get("Last-Modified")


def _length(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


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
