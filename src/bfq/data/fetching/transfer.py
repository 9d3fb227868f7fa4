"""Bytes from one address into a part file: continued where they broke off, bounded, never of two versions.

    .FILE.part       what has come so far
    .FILE.part.json  of which version of which address it is a piece

A piece is continued only if the server confirms, by If-Range and its own validator, that the file is still
the same one; otherwise it is begun anew.
"""

import contextlib
import http.client
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO, NamedTuple

from bfq.data.fetching.web import Interrupted, Manners, Refused, patiently, taken, visit
from bfq.errors import DiskTrouble
from bfq.files import write_json

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
