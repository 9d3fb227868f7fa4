"""Fetching files, against a server on this machine that misbehaves in every way one can think of."""

import contextlib
import functools
import hashlib
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

from bfq.cli.main import main
from bfq.data import download as transfer
from bfq.data import published as remotes
from bfq.data.download import Manners, Remote, fetch
from bfq.data.published import REMOTES, fetch_minari, remotes_for
from bfq.errors import BadInput, DiskTrouble
from bfq.tasks.sources import load_dataset

HDF5 = b"\x89HDF\r\n\x1a\n"
BODY = HDF5 + bytes(range(256)) * 400  # 102,408 bytes
OTHER = HDF5 + bytes(reversed(range(256))) * 500
HALF = len(BODY) // 2
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def sha(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


# The server: each path has one answer, a function of the request and of how many came before it.


class Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 5
    server: "Server"

    def do_GET(self) -> None:  # noqa: N802 - the name http.server calls
        path = self.path.partition("?")[0]
        with self.server.lock:
            before = sum(asked == path for asked, _ in self.server.asked)
            self.server.asked.append((path, dict(self.headers)))
        self.close_connection = True
        with contextlib.suppress(ConnectionError):  # the client may hang up
            self.server.answers[path](self, before)

    def log_message(self, *args: object) -> None:
        pass

    def reply(self, status: int, headers: dict[str, object], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.lock = threading.Lock()
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.answers: dict[str, Callable[[Request, int], None]] = {}

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def ranges(self) -> list[str | None]:
        return [headers.get("Range") for _, headers in self.asked]


@dataclass(frozen=True)
class Gives:
    """Hands out a file as a good server does, but for what is said otherwise."""

    body: bytes = BODY
    tag: str | None = '"one"'
    upto: int | None = None  # hangs up after so many bytes of the answer
    times: int = 1000  # how often it does so
    ranges: bool = True
    heeds_if_range: bool = True
    headers: dict[str, object] = field(default_factory=dict)

    def __call__(self, request: Request, before: int) -> None:
        asked = (
            re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", "")) if self.ranges else None
        )
        if asked and self.heeds_if_range and request.headers.get("If-Range") != self.tag:
            asked = None
        begin = int(asked[1]) if asked else 0
        if begin >= len(self.body):
            request.reply(416, {"Content-Length": 0})
            return
        headers: dict[str, object] = {"Content-Length": len(self.body) - begin, **self.headers}
        if self.tag:
            headers["ETag"] = self.tag
        if asked:
            headers["Content-Range"] = f"bytes {begin}-{len(self.body) - 1}/{len(self.body)}"
        end = begin + self.upto if self.upto is not None and before < self.times else None
        request.reply(206 if asked else 200, headers, self.body[begin:end])


def refuses(status: int, times: int = 1000, then: Callable[[Request, int], None] | None = None):
    def answer(request: Request, before: int) -> None:
        if before < times or then is None:
            request.reply(status, {"Content-Length": 0})
        else:
            then(request, before)

    return answer


def points_to(place: str):
    return lambda request, before: request.reply(302, {"Location": place, "Content-Length": 0})


def in_turn(*answers: Callable[[Request, int], None]):
    return lambda request, before: answers[min(before, len(answers) - 1)](request, before)


@pytest.fixture(scope="module")
def running():
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def server(running, monkeypatch):
    running.asked, running.answers = [], {}
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("BFQ_OFFLINE", raising=False)
    return running


@pytest.fixture
def naps() -> list[float]:
    return []


@pytest.fixture
def manners(naps) -> Manners:
    return Manners(timeout=3.0, worth=1000, sleep=naps.append)


@pytest.fixture
def remote(server) -> Remote:
    server.answers["/a.hdf5"] = Gives()
    return Remote(
        "some-task", "a.hdf5", (f"{server.root}/a.hdf5",), sha(BODY), len(BODY), plain_http=True
    )


@pytest.fixture
def unknown_sum(remote) -> Remote:
    return replace(remote, sha256=None, size=None)


def mirrored(remote: Remote, server: Server, *answers: Callable[[Request, int], None]) -> Remote:
    for number, answer in enumerate(answers):
        server.answers[f"/{number}/a.hdf5"] = answer
    return replace(
        remote, mirrors=tuple(f"{server.root}/{number}/a.hdf5" for number in range(len(answers)))
    )


def visible(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def parts(folder: Path) -> list[Path]:
    return list(folder.glob(".*.part*"))


# When all goes well.


def test_a_file_is_fetched_checked_and_entered_in_the_ledger(remote, server, tmp_path, manners):
    seen = []
    path = fetch(
        remote, tmp_path / "new", progress=lambda *step: seen.append(step), manners=manners
    )
    assert path.read_bytes() == BODY
    ledger = json.loads((tmp_path / "new" / "a.hdf5.ledger.json").read_text())
    assert (ledger["sha256"], ledger["source"], ledger["published"]) == (
        sha(BODY),
        remote.mirrors[0],
        True,
    )
    assert seen == sorted(seen)
    assert seen[-1] == (len(BODY), len(BODY))
    assert visible(tmp_path / "new") == {"a.hdf5", "a.hdf5.ledger.json"}
    assert not parts(tmp_path / "new")
    assert server.asked[0][1]["User-Agent"].startswith("bfq-rl/")


def test_a_file_that_is_here_is_not_asked_for_again(remote, server, tmp_path, manners):
    fetch(remote, tmp_path, manners=manners)
    fetch(remote, tmp_path, manners=manners)
    fetch(remote, tmp_path, offline=True)
    assert len(server.asked) == 1


def test_the_folder_for_downloads_is_the_default(remote, tmp_path, monkeypatch, manners):
    monkeypatch.setenv("BFQ_HOME", str(tmp_path / "home"))
    assert fetch(remote, manners=manners) == tmp_path / "home" / "downloads" / "a.hdf5"


def test_a_redirect_is_followed_and_carries_the_range(remote, server, tmp_path, manners):
    server.answers["/moved"] = points_to("/a.hdf5")
    server.answers["/a.hdf5"] = Gives(upto=HALF, times=1)
    fetch(replace(remote, mirrors=(f"{server.root}/moved",)), tmp_path, manners=manners)
    assert (tmp_path / "a.hdf5").read_bytes() == BODY
    assert [(path, headers.get("Range")) for path, headers in server.asked][2:] == [
        ("/moved", f"bytes={HALF}-"),
        ("/a.hdf5", f"bytes={HALF}-"),
    ]


# When the connection breaks.


def test_a_broken_connection_is_resumed_and_only_the_rest_asked_for(
    remote, server, tmp_path, manners, naps
):
    server.answers["/a.hdf5"] = Gives(upto=HALF, times=1)
    assert fetch(remote, tmp_path, manners=manners).read_bytes() == BODY
    assert server.ranges() == [None, f"bytes={HALF}-"]
    assert server.asked[1][1]["If-Range"] == '"one"'
    assert naps == [1.0]


def test_a_connection_that_breaks_again_and_again_is_resumed_while_it_gets_on(
    remote, server, tmp_path, manners
):
    server.answers["/a.hdf5"] = Gives(upto=10_000)
    assert fetch(remote, tmp_path, manners=manners).read_bytes() == BODY
    assert server.ranges()[-1] == "bytes=100000-"
    assert len(server.asked) == 11


def test_a_server_that_never_gets_further_is_given_up(remote, server, tmp_path, manners, naps):
    server.answers["/a.hdf5"] = Gives(upto=HALF, ranges=False)
    with pytest.raises(
        BadInput, match=rf"a\.hdf5 broke off after {HALF:,} of {len(BODY):,} bytes.*--as some-task"
    ):
        fetch(remote, tmp_path, manners=manners)
    assert len(server.asked) == 4
    assert naps == [1.0, 2.0, 4.0]
    assert not visible(tmp_path)


def test_a_transfer_given_up_is_continued_by_the_next_call(remote, server, tmp_path, manners):
    server.answers["/a.hdf5"] = in_turn(
        Gives(upto=HALF), refuses(503, 4), refuses(503), refuses(503), Gives()
    )
    with pytest.raises(BadInput, match="answers 503 Service Unavailable"):
        fetch(remote, tmp_path, manners=manners)
    assert fetch(remote, tmp_path, manners=manners).read_bytes() == BODY
    assert server.ranges() == [None] + [f"bytes={HALF}-"] * 4


def test_a_chunked_body_that_breaks_off_is_noticed(unknown_sum, server, tmp_path, manners):
    def answer(request, before):
        piece = BODY if before else BODY[:HALF]
        end = b"0\r\n\r\n" if before else b""
        body = f"{len(piece):x}\r\n".encode() + piece + b"\r\n" + end
        request.reply(200, {"Transfer-Encoding": "chunked"}, body)

    server.answers["/a.hdf5"] = answer
    assert fetch(unknown_sum, tmp_path, manners=manners).read_bytes() == BODY
    assert len(server.asked) == 2


def test_a_server_that_ignores_ranges_is_begun_anew(remote, server, tmp_path, manners):
    server.answers["/a.hdf5"] = Gives(upto=HALF, times=1, ranges=False)
    assert fetch(remote, tmp_path, manners=manners).read_bytes() == BODY
    assert server.ranges() == [None, f"bytes={HALF}-"]


@pytest.mark.parametrize("heeds", [True, False])
def test_a_file_that_changes_between_two_tries_is_not_spliced(
    unknown_sum, server, tmp_path, manners, heeds
):
    changed = Gives(OTHER, tag='"two"', heeds_if_range=heeds)
    server.answers["/a.hdf5"] = in_turn(Gives(upto=HALF), changed)
    assert fetch(unknown_sum, tmp_path, manners=manners).read_bytes() == OTHER


@pytest.mark.parametrize("whole", [str(len(BODY)), "*"])
def test_a_range_that_stops_short_is_not_taken_for_the_end(
    unknown_sum, server, tmp_path, manners, whole
):
    def sparing(request, before):
        begin = int(request.headers["Range"][6:-1])
        piece = BODY[begin : begin + 20_000]
        span = f"bytes {begin}-{begin + len(piece) - 1}/{whole}"
        request.reply(
            206, {"Content-Length": len(piece), "Content-Range": span, "ETag": '"one"'}, piece
        )

    server.answers["/a.hdf5"] = in_turn(Gives(upto=HALF), sparing)
    assert fetch(unknown_sum, tmp_path, manners=manners).read_bytes() == BODY
    assert server.ranges()[1:] == [f"bytes={begin}-" for begin in range(HALF, len(BODY), 20_000)]


def test_a_file_that_became_shorter_is_begun_anew(unknown_sum, server, tmp_path, manners):
    short = HDF5 + b"short"
    server.answers["/a.hdf5"] = in_turn(Gives(upto=HALF), Gives(short, heeds_if_range=False))
    assert fetch(unknown_sum, tmp_path, manners=manners).read_bytes() == short


@pytest.mark.parametrize("tag", [None, 'W/"one"'])
def test_a_version_without_a_sure_name_is_not_continued(
    unknown_sum, server, tmp_path, manners, tag
):
    server.answers["/a.hdf5"] = Gives(tag=tag, upto=HALF, times=1)
    assert fetch(unknown_sum, tmp_path, manners=manners).read_bytes() == BODY
    assert server.ranges() == [None, None]


def test_a_part_of_another_address_is_not_continued(remote, server, tmp_path, manners):
    both = mirrored(remote, server, Gives(upto=HALF, ranges=False), Gives())
    assert fetch(both, tmp_path, manners=manners).read_bytes() == BODY
    assert server.asked[-1][0] == "/1/a.hdf5"
    assert server.ranges()[-1] is None


SCRIPT = """
import sys
from pathlib import Path
from bfq.data.download import Remote, fetch
url, folder, digest = sys.argv[1:]
fetch(Remote("some-task", "a.hdf5", (url,), digest, plain_http=True), Path(folder))
print("done")
"""


def start(remote: Remote, folder: Path, before: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", before + SCRIPT, remote.mirrors[0], str(folder), sha(BODY)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_killed_process_loses_nothing_that_had_come(remote, server, tmp_path, manners):
    def hangs(request, before):
        Gives(upto=HALF)(request, 0)
        request.wfile.flush()
        time.sleep(3)  # killed long before

    server.answers["/a.hdf5"] = in_turn(hangs, Gives())
    process = start(remote, tmp_path)
    deadline = time.monotonic() + 10
    part = tmp_path / ".a.hdf5.part"
    while not (part.exists() and part.stat().st_size > 8192) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    kept = part.stat().st_size
    assert 8192 < kept <= HALF
    assert not visible(tmp_path)
    assert fetch(remote, tmp_path, manners=manners).read_bytes() == BODY
    assert server.ranges() == [None, f"bytes={kept}-"]


def test_a_part_that_is_complete_needs_no_server(remote, server, tmp_path, manners):
    def interrupt(done, total):
        if done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(remote, tmp_path, progress=interrupt, manners=manners)
    assert not visible(tmp_path)
    assert fetch(remote, tmp_path, manners=manners).read_bytes() == BODY
    assert len(server.asked) == 1


def test_two_processes_fetch_a_file_once_and_both_have_it(remote, server, tmp_path):
    def slow(request, before):
        time.sleep(0.7)
        Gives()(request, before)

    server.answers["/a.hdf5"] = slow
    pair = [start(remote, tmp_path) for _ in range(2)]
    assert [process.communicate(timeout=20) for process in pair] == [("done\n", "")] * 2
    assert (tmp_path / "a.hdf5").read_bytes() == BODY
    assert len(server.asked) == 1


# When the server sends the wrong thing.


def test_a_damaged_body_is_thrown_away_and_the_next_address_asked(
    remote, server, tmp_path, manners
):
    damaged = BODY[:HALF] + b"?" + BODY[HALF + 1 :]
    both = mirrored(remote, server, Gives(damaged), Gives())
    assert fetch(both, tmp_path, manners=manners).read_bytes() == BODY
    assert [path for path, _ in server.asked] == ["/0/a.hdf5", "/1/a.hdf5"]


def test_a_damaged_body_leaves_nothing_behind(remote, server, tmp_path, manners):
    server.answers["/a.hdf5"] = Gives(BODY[:-1] + b"?")
    with pytest.raises(
        BadInput, match=f"its sha256 is [0-9a-f]{{64}} and not {sha(BODY)}, the published one"
    ):
        fetch(remote, tmp_path, manners=manners)
    assert not visible(tmp_path)
    assert not parts(tmp_path)


def test_refusals_are_passed_over_and_passing_ones_tried_again(
    remote, server, tmp_path, manners, naps
):
    three = mirrored(remote, server, refuses(404), refuses(403), refuses(500, 2, Gives()))
    assert fetch(three, tmp_path, manners=manners).read_bytes() == BODY
    assert [path[1] for path, _ in server.asked] == ["0", "1", "2", "2", "2"]
    assert naps == [1.0, 2.0]


def test_when_all_fail_the_sentence_names_each_address_and_its_answer(
    remote, server, tmp_path, manners
):
    three = mirrored(remote, server, refuses(404), refuses(403), refuses(502))
    gone = replace(three, mirrors=(*three.mirrors, "http://127.0.0.1:1/a.hdf5"))
    with pytest.raises(BadInput) as trouble:
        fetch(gone, tmp_path, manners=manners)
    sentence = str(trouble.value)
    for url, answer in zip(
        gone.mirrors, ("404 Not Found", "403 Forbidden", "502 Bad Gateway"), strict=False
    ):
        assert f"{url} answers {answer}" in sentence
    assert "http://127.0.0.1:1/a.hdf5 does not answer (Connection refused)" in sentence
    assert sentence.endswith("bfq data import FILE --as some-task")
    assert "\n" not in sentence


@pytest.mark.parametrize("name", ["a.hdf5", "a.npz", "a.json"])
def test_a_web_page_in_place_of_the_file_is_noticed(unknown_sum, server, tmp_path, manners, name):
    server.answers["/a.hdf5"] = Gives(
        b"<!DOCTYPE html><html>please log in</html>", headers={"Content-Type": "text/html"}
    )
    with pytest.raises(
        BadInput, match=f"answers with something else than {name}: it begins with b'<!DOCTYP'"
    ):
        fetch(replace(unknown_sum, file=name), tmp_path, manners=manners)
    assert not visible(tmp_path)
    assert not parts(tmp_path)


def test_a_file_of_another_size_is_refused_before_it_is_taken(remote, server, tmp_path, manners):
    server.answers["/a.hdf5"] = Gives(OTHER)
    with pytest.raises(
        BadInput, match=f"has a file of {len(OTHER):,} bytes where {len(BODY):,} are expected"
    ):
        fetch(remote, tmp_path, manners=manners)
    assert not parts(tmp_path)


def endless(request: Request, before: int) -> None:
    request.reply(200, {"Transfer-Encoding": "chunked", "ETag": '"one"'})
    for _ in range(2000):  # 32 MB, were it all taken
        request.wfile.write(b"4000\r\n" + HDF5 * 0x800 + b"\r\n")


@pytest.mark.parametrize("known", [True, False])
def test_an_endless_stream_is_cut_off(remote, unknown_sum, server, tmp_path, naps, known):
    server.answers["/a.hdf5"] = endless
    most = len(BODY) if known else 300_000
    taken = []
    with pytest.raises(BadInput, match=f"sends more than the {most:,} bytes expected"):
        fetch(
            remote if known else unknown_sum,
            tmp_path,
            progress=lambda done, total: taken.append(done),
            manners=Manners(most=300_000, sleep=naps.append),
        )
    assert max(taken) <= most
    assert not parts(tmp_path)


def test_a_file_above_the_limit_is_not_begun(unknown_sum, server, tmp_path):
    with pytest.raises(
        BadInput, match=f"has a file of {len(BODY):,} bytes where at most 1,000 are expected"
    ):
        fetch(unknown_sum, tmp_path, manners=Manners(most=1000))


def test_a_part_cannot_pass_for_the_whole_where_no_length_is_told(
    unknown_sum, remote, server, tmp_path, manners
):
    server.answers["/a.hdf5"] = lambda request, before: request.reply(
        200, {"Connection": "close"}, BODY
    )
    with pytest.raises(BadInput, match="does not tell how long the file is"):
        fetch(unknown_sum, tmp_path, manners=manners)
    assert (
        fetch(remote, tmp_path, manners=manners).read_bytes() == BODY
    )  # its size and checksum are known


def test_a_body_encoded_anew_is_refused(remote, server, tmp_path, manners):
    server.answers["/a.hdf5"] = Gives(headers={"Content-Encoding": "gzip"})
    with pytest.raises(BadInput, match="sends the file encoded anew"):
        fetch(remote, tmp_path, manners=manners)


@pytest.mark.parametrize(
    "place",
    ["file:///etc/passwd", "ftp://127.0.0.1/a.hdf5", "data:,x", "http://[::1/a", "http://x:y/"],
)
def test_a_redirect_leads_nowhere_but_to_the_web(remote, server, tmp_path, manners, place):
    server.answers["/a.hdf5"] = points_to(place)
    with pytest.raises(BadInput, match=rf"leads to '{re.escape(place)}', which is no"):
        fetch(remote, tmp_path, manners=manners)
    assert not visible(tmp_path)
    assert len(server.asked) == 1


def test_a_redirect_in_a_circle_ends(remote, server, tmp_path, manners):
    server.answers["/a.hdf5"] = points_to("/a.hdf5")
    with pytest.raises(BadInput, match="redirects without end"):
        fetch(remote, tmp_path, manners=manners)
    assert len(server.asked) == 6


def test_plain_http_is_used_only_where_the_table_allows_it(remote, server, tmp_path, manners):
    with pytest.raises(
        BadInput, match=r"leads to 'http://127\.0\.0\.1:\d+/a\.hdf5', which is not https"
    ):
        fetch(replace(remote, plain_http=False), tmp_path, manners=manners)
    assert not server.asked


def test_a_server_that_trickles_is_given_up(remote, server, tmp_path, naps):
    def trickles(request, before):
        request.reply(200, {"Content-Length": len(BODY), "ETag": '"one"'}, BODY[:8])
        for byte in BODY[8:108]:  # two seconds at most
            request.wfile.write(bytes([byte]))
            time.sleep(0.02)

    server.answers["/a.hdf5"] = trickles
    manners = Manners(timeout=5.0, window=0.15, slowest=1000.0, attempts=2, sleep=naps.append)
    began = time.monotonic()
    with pytest.raises(BadInput, match="sends less than 1,000 bytes a second"):
        fetch(remote, tmp_path, manners=manners)
    assert time.monotonic() - began < 1.5
    assert BODY.startswith((tmp_path / ".a.hdf5.part").read_bytes())


def test_a_silent_server_is_given_up_after_the_time_out(remote, server, tmp_path, naps):
    server.answers["/a.hdf5"] = lambda request, before: time.sleep(1)
    with pytest.raises(BadInput, match="does not answer \\(timed out\\)"):
        fetch(remote, tmp_path, manners=Manners(timeout=0.1, attempts=2, sleep=naps.append))
    assert naps == [1.0]


# When nobody publishes a checksum.


def test_the_first_download_is_trusted_and_says_so(unknown_sum, tmp_path, manners):
    said = []
    fetch(unknown_sum, tmp_path, say=said.append, manners=manners)
    assert len(said) == 1
    assert (
        f"no checksum of a.hdf5 is published: it is trusted as it is, and sha256 {sha(BODY)}"
        in said[0]
    )
    fetch(unknown_sum, tmp_path, say=said.append, manners=manners)
    assert len(said) == 1


def test_a_file_that_changed_on_disk_is_refused(unknown_sum, server, tmp_path, manners):
    path = fetch(unknown_sum, tmp_path, manners=manners)
    path.write_bytes(OTHER)
    with pytest.raises(
        BadInput, match=f"its sha256 is {sha(OTHER)} and not {sha(BODY)}, as on 2.*remove it"
    ):
        fetch(unknown_sum, tmp_path, manners=manners)
    assert path.read_bytes() == OTHER
    assert len(server.asked) == 1


def test_another_file_under_the_same_name_is_refused_until_the_ledger_is_removed(
    unknown_sum, server, tmp_path, manners
):
    path = fetch(unknown_sum, tmp_path, manners=manners)
    path.unlink()
    server.answers["/a.hdf5"] = Gives(OTHER)
    with pytest.raises(BadInput, match=r"remove a\.hdf5\.ledger\.json too, to accept another"):
        fetch(unknown_sum, tmp_path, manners=manners)
    assert not path.exists()
    (tmp_path / "a.hdf5.ledger.json").unlink()
    assert fetch(unknown_sum, tmp_path, manners=manners).read_bytes() == OTHER


def test_a_broken_ledger_is_a_sentence(unknown_sum, tmp_path, manners):
    fetch(unknown_sum, tmp_path, manners=manners)
    for content in ("[]", "{", '{"sha256": 3}'):
        (tmp_path / "a.hdf5.ledger.json").write_text(content)
        with pytest.raises(BadInput, match="ledger.json"):
            fetch(unknown_sum, tmp_path, manners=manners)


def test_a_file_put_there_by_hand_is_taken(unknown_sum, remote, server, tmp_path):
    (tmp_path / "a.hdf5").write_bytes(OTHER)
    fetch(unknown_sum, tmp_path, offline=True)
    assert json.loads((tmp_path / "a.hdf5.ledger.json").read_text())["sha256"] == sha(OTHER)
    with pytest.raises(
        BadInput, match=f"it has {len(OTHER):,} bytes and not {len(BODY):,}; remove it"
    ):
        fetch(remote, tmp_path, offline=True)
    (tmp_path / "a.hdf5").write_bytes(b"<html>" + BODY)
    with pytest.raises(BadInput, match="of another kind"):
        fetch(unknown_sum, tmp_path, offline=True)
    assert not server.asked


# When this machine does not go along.


def test_offline_says_where_to_put_the_file(remote, server, tmp_path, monkeypatch):
    for offline, value in ((True, ""), (None, "1")):
        monkeypatch.setenv("BFQ_OFFLINE", value)
        with pytest.raises(
            BadInput, match=f"put it at {tmp_path}/a.hdf5 by hand .*{remote.mirrors[0]}"
        ):
            fetch(remote, tmp_path, offline=offline)
    assert not server.asked
    assert not list(tmp_path.iterdir())


def test_a_disk_that_refuses_in_the_middle_is_a_sentence_and_the_rest_comes_later(
    remote, server, tmp_path, manners
):
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({HALF}, {HALF}))"
    process = start(remote, tmp_path, limit)
    assert "DiskTrouble: cannot write" in process.communicate(timeout=20)[1]
    assert 0 < (tmp_path / ".a.hdf5.part").stat().st_size <= HALF
    assert not visible(tmp_path)
    assert fetch(remote, tmp_path, manners=manners).read_bytes() == BODY
    assert server.ranges()[1] is not None


def test_a_file_that_does_not_fit_is_not_begun(remote, tmp_path, manners, monkeypatch):
    monkeypatch.setattr(transfer.shutil, "disk_usage", lambda path: SimpleNamespace(free=10))
    with pytest.raises(
        DiskTrouble, match=f"there is no room in .*: {len(BODY):,} bytes are to come"
    ):
        fetch(remote, tmp_path, manners=manners)
    assert not visible(tmp_path)


@pytest.mark.parametrize("name", ["../a.hdf5", "/tmp/a.hdf5", ".hidden", "", "b/a.hdf5"])
def test_a_file_stays_in_its_folder(remote, server, tmp_path, name):
    with pytest.raises(BadInput, match="cannot name a file"):
        fetch(replace(remote, file=name), tmp_path)
    assert not server.asked


# Minari: a folder of files.

ID = "D4RL/pen/human-v9"
META = b'{"data_format": "hdf5", "total_steps": 3}'


def shelve(server: Server, files: dict[str, bytes], **changed: object) -> None:
    """A repository of the hub: files on its shelves, and a listing in pages of one."""
    listing = "/api/datasets/farama-minari/D4RL/tree/main/pen%2Fhuman-v9%2Fdata"
    entries = [{"type": "directory", "path": "pen/human-v9/data"}]
    for path, body in files.items():
        large = {"lfs": {"oid": sha(body), "size": len(body)}} if path.endswith(".hdf5") else {}
        entries.append(
            {"type": "file", "path": path, "size": len(body), "oid": "0", **large, **changed}
        )
        server.answers[f"/datasets/farama-minari/D4RL/resolve/main/{path}"] = Gives(body)

    def answer(request: Request, before: int) -> None:
        number = int(request.path.partition("cursor=")[2] or 0)
        body = json.dumps(entries[number : number + 1]).encode()
        headers: dict[str, object] = {"Content-Length": len(body)}
        if number + 1 < len(entries):
            headers["Link"] = (
                f'<{server.root}{listing}?recursive=true&cursor={number + 1}>; rel="next"'
            )
        request.reply(200, headers, body)

    server.answers[listing] = answer


FILES = {
    "pen/human-v9/data/metadata.json": META,
    "pen/human-v9/data/main_data.hdf5": BODY,
    "pen/human-v9/data/more/extra.hdf5": OTHER,
}


def test_a_minari_dataset_is_fetched_whole_with_its_metadata_last(server, tmp_path, manners):
    shelve(server, FILES)
    home = fetch_minari(ID, tmp_path, hub=server.root, manners=manners)
    assert home == tmp_path / "D4RL" / "pen" / "human-v9"
    for path, body in FILES.items():
        assert (tmp_path / "D4RL" / path).read_bytes() == body
    assert server.asked[-1][0].endswith("/metadata.json")
    count = len(server.asked)
    assert fetch_minari(ID, tmp_path, hub=server.root, offline=True) == home
    assert fetch_minari(ID, tmp_path, hub=server.root) == home
    assert len(server.asked) == count


def test_a_minari_dataset_is_checked_against_the_sums_of_its_listing(server, tmp_path, manners):
    shelve(server, FILES)
    server.answers["/datasets/farama-minari/D4RL/resolve/main/pen/human-v9/data/main_data.hdf5"] = (
        Gives(BODY[:-1] + b"?")
    )
    with pytest.raises(BadInput, match=f"and not {sha(BODY)}, the published one"):
        fetch_minari(ID, tmp_path, hub=server.root, manners=manners)
    with pytest.raises(
        BadInput, match=f"{ID} is not here and fetching is switched off.*human-v9/data by hand"
    ):
        fetch_minari(ID, tmp_path, hub=server.root, offline=True)
    shelve(server, FILES)
    home = fetch_minari(ID, tmp_path, hub=server.root, manners=manners)
    (home / "data" / "main_data.hdf5").write_bytes(OTHER)
    with pytest.raises(BadInput, match="is not the file it should be"):
        fetch_minari(ID, tmp_path, hub=server.root, offline=True)


@pytest.mark.parametrize(
    ("files", "changed", "sentence"),
    [
        (
            {"pen/human-v9/data/../../../../../gone.hdf5": BODY},
            {},
            "has an entry that cannot be used",
        ),
        ({"pen/human-v9/data/.hidden": BODY}, {}, "has an entry that cannot be used"),
        ({"door/human-v9/data/main_data.hdf5": BODY}, {}, "has an entry that cannot be used"),
        (FILES, {"size": "many"}, "has an entry that cannot be used"),
        (FILES, {"lfs": {"oid": "short"}}, "has an entry that cannot be used"),
        ({"pen/human-v9/data/main_data.hdf5": BODY}, {}, "no metadata.json among the files"),
    ],
)
def test_a_listing_that_leads_astray_is_refused(
    server, tmp_path, manners, files, changed, sentence
):
    shelve(server, files, **changed)
    with pytest.raises(BadInput, match=sentence):
        fetch_minari(ID, tmp_path, hub=server.root, manners=manners)
    assert not list(tmp_path.rglob("*.hdf5"))


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (refuses(404), "answers 404 Not Found.*bfq data import FOLDER --as D4RL/pen/human-v9"),
        (Gives(b"<html>"), "Expecting value"),
        (Gives(b'{"error": 1}'), "something else than a list"),
        (Gives(b"[" * 100_000), "could not be listed"),
        (Gives(b"[]" + b" " * (9 << 20)), "more than 8,388,608 bytes"),
        (
            Gives(b"[]", headers={"Link": '<https://elsewhere.example/x>; rel="next"'}),
            "another server",
        ),
    ],
)
def test_a_listing_that_cannot_be_read_is_a_sentence(server, tmp_path, manners, answer, sentence):
    shelve(server, FILES)
    listing = next(path for path in server.answers if path.startswith("/api"))
    server.answers[listing] = answer
    with pytest.raises(BadInput, match=sentence):
        fetch_minari(ID, tmp_path, hub=server.root, manners=manners)
    assert not list(tmp_path.rglob("*"))


def test_a_listing_without_end_is_given_up(server, tmp_path, manners):
    shelve(server, FILES)
    listing = next(path for path in server.answers if path.startswith("/api"))
    server.answers[listing] = Gives(b"[]", headers={"Link": f'<{listing}>; rel="next"'})
    with pytest.raises(BadInput, match="has no end"):
        fetch_minari(ID, tmp_path, hub=server.root, manners=manners)


@pytest.mark.parametrize(
    "name", ["../x-v0", "/x-v0", "D4RL/pen/human", "a//b-v0", "D4RL/pen/human-v2/..", ""]
)
def test_a_minari_name_that_is_none_is_a_sentence(tmp_path, name):
    with pytest.raises(BadInput, match="is no Minari dataset: names look like D4RL/pen/human-v2"):
        fetch_minari(name, tmp_path)


def test_a_minari_dataset_is_downloaded_by_its_name(server, tmp_path, manners, monkeypatch, capsys):
    with h5py.File(tmp_path / "main.hdf5", "w") as file:
        file["episode_0/observations"] = np.arange(8.0).reshape(4, 2)
        file["episode_0/actions"] = np.array([[0.5], [-0.5], [0.1]], np.float32)
        file["episode_0/rewards"] = np.arange(3.0)
        file["episode_0/terminations"] = np.zeros(3, bool)
        file["episode_0/truncations"] = np.arange(3) == 2
    body = (tmp_path / "main.hdf5").read_bytes()
    shelve(server, {**FILES, "pen/human-v9/data/main_data.hdf5": body})
    here = functools.partial(fetch_minari, hub=server.root, manners=manners)
    monkeypatch.setattr(remotes, "fetch_minari", here)
    monkeypatch.setenv("BFQ_HOME", str(tmp_path / "home"))
    assert main(["data", "download", ID, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["transitions"] == 3
    assert load_dataset(ID).rewards.tolist() == [0.0, 1.0, 2.0]
    assert (
        tmp_path / "home" / "downloads" / "minari" / "D4RL" / "pen" / "human-v9" / "data"
    ).is_dir()
    assert main(["data", "download", ID]) == 2
    assert "add --replace" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("D4RL/pen/human", "is no Minari dataset: names look like D4RL/pen/human-v2"),
        ("../../x-v0", "is no Minari dataset"),
        (ID, "is not here and fetching is switched off"),
        ("local/hoper-medium", "did you mean 'local/hopper-medium'"),
    ],
)
def test_a_name_that_cannot_be_downloaded_is_a_sentence(
    tmp_path, monkeypatch, capsys, name, sentence
):
    monkeypatch.setenv("BFQ_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("BFQ_OFFLINE", "1")
    assert main(["data", "download", name]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "home").exists()


# The table of addresses.

PAPER = [
    *[
        f"{body}-{kind}-v2"
        for body in ("halfcheetah", "hopper", "walker2d")
        for kind in ("medium", "medium-replay", "medium-expert")
    ],
    *[f"antmaze-{size}-{kind}-v2" for size in ("medium", "large") for kind in ("play", "diverse")],
    *["pen-human-v1", "pen-cloned-v1"],
    *[f"antmaze-{size}-navigate-singletask-v0" for size in ("large", "giant")],
    *[f"humanoidmaze-{size}-navigate-singletask-v0" for size in ("medium", "large")],
    *["cube-single-play-singletask-v0", "scene-play-singletask-v0"],
]


def test_every_task_of_the_paper_has_its_files():
    assert len(PAPER) == 21
    for task in PAPER:
        files = [remote.file for remote in remotes_for(task)]
        if "singletask" in task:
            log = task.replace("-singletask", "")
            assert files == [f"{log}.npz", f"{log}-val.npz"]
        else:
            assert len(files) == 1
            assert files[0].endswith(".hdf5")


def test_the_files_of_d4rl_are_those_its_own_table_names():
    """The rules of D4RL's infos.py: task-with-dashes-v2 is task_with_underscores-v2, pen keeps its name."""
    for remote in REMOTES:
        kind, _, version = remote.name.rpartition("-")
        if version == "v2" and not kind.startswith("antmaze"):
            assert remote.mirrors[0].endswith(f"/gym_mujoco_v2/{kind.replace('-', '_')}-v2.hdf5")
        if version == "v1":
            assert remote.mirrors[0].endswith(f"/hand_dapg_v1/{remote.name}.hdf5")
        if version == "v2" and kind.startswith("antmaze"):
            maze, goals = kind.split("-")[1:]
            word = {"medium": "big", "large": "hardest"}[maze]
            many = {"play": False, "diverse": True}[goals]
            file = f"Ant_maze_{word}-maze_noisy_multistart_True_multigoal_{many}_sparse_fixed.hdf5"
            assert remote.mirrors[0].endswith(f"/ant_maze_v2/{file}")


def test_no_file_is_taken_over_plain_http_without_a_checksum():
    for remote in REMOTES:
        assert remote.sha256 is None or re.fullmatch("[0-9a-f]{64}", remote.sha256)
        assert (remote.sha256 is None) == (remote.size is None)
        plain = [url for url in remote.mirrors if not url.startswith("https://")]
        assert bool(plain) == remote.plain_http
        assert not plain or remote.sha256
        assert all(url.endswith(f"/{remote.file}") for url in remote.mirrors)


def test_no_two_files_share_a_name_or_a_sum():
    assert len({remote.file for remote in REMOTES}) == len(REMOTES)
    sums = [remote.sha256 for remote in REMOTES if remote.sha256]
    assert len(set(sums)) == len(sums)


def test_all_tasks_on_one_log_read_the_same_file():
    assert remotes_for("cube-single-play-singletask-task4-v0") == remotes_for("cube-single-play-v0")
    with pytest.raises(BadInput, match="did you mean 'hopper-medium-v2'"):
        remotes_for("hoper-medium-v2")


def test_the_address_of_ogbench_is_that_of_its_package():
    utils = pytest.importorskip("ogbench.utils")
    for remote in remotes_for("scene-play-singletask-v0"):
        assert remote.mirrors[0] == f"{utils.DATASET_URL}/{remote.file}"


def test_the_home_of_minari_is_that_of_its_package():
    theirs = pytest.importorskip("minari.storage.remotes")
    assert theirs.DEFAULT_REMOTE == "hf://farama-minari"


def test_genuine_d4rl_files_begin_as_expected():
    files = sorted((SHARED / "d4rl_files").glob("*.hdf5"))
    if not files:
        pytest.skip("the genuine D4RL files are not on this machine")
    for path in files:
        with path.open("rb") as file:
            assert transfer.begins_well(path.name, file.read(8))


def test_a_link_in_the_place_of_the_lock_empties_nothing(tmp_path):
    (tmp_path / "precious").write_text("kept")
    (tmp_path / ".file.npz.lock").symlink_to("precious")
    with pytest.raises(BadInput, match="not a plain file"):
        fetch(Remote("data", "file.npz", ("https://nowhere.invalid/file.npz",)), tmp_path)
    assert (tmp_path / "precious").read_text() == "kept"
