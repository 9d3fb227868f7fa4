"""Asking a server: whom to ask at all, how patiently, and which of its refusals another try may cure."""

import contextlib
import functools
import http.client
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urljoin, urlsplit

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
