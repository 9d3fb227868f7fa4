"""Downloads, against a server on this machine that misbehaves in many ways."""

import contextlib
import functools
import hashlib
import itertools
import json
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

from bfq.data import download, published
from bfq.data.download import Remote, fetch
from bfq.data.published import REMOTES, fetch_minari, remotes_for
from bfq.errors import BadInput, DiskTrouble
from bfq.tasks.sources import load_dataset

BODY = b"\x89HDF\r\n\x1a\n" + bytes(range(256)) * 1200  # 307,208 bytes
OTHER = b"\x89HDF\r\n\x1a\n" + bytes(reversed(range(256))) * 1300
HALF = 1 << 17


def sha(body):
    return hashlib.sha256(body).hexdigest()


class Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):  # noqa: N802 - the name http.server calls
        path = self.path.partition("?")[0]
        with self.server.lock:
            before = sum(asked == path for asked, _ in self.server.asked)
            self.server.asked.append((path, self.headers.get("Range")))
        self.close_connection = True
        with contextlib.suppress(ConnectionError):  # the client may hang up
            self.server.answers[path](self, before)

    def log_message(self, *args):
        pass

    def reply(self, status, headers, body=b""):
        self.send_response(status)
        for name, value in ({"Connection": "close"} | headers).items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    """Each path has one answer: a function of the request and of the number of earlier ones."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Request)
        self.lock, self.asked, self.answers = threading.Lock(), [], {}
        self.root = f"http://127.0.0.1:{self.server_port}"


@dataclass(frozen=True)
class Gives:
    """Sends a file, as a good server does unless a field says otherwise."""

    body: bytes = BODY
    upto: int | None = None  # hangs up after this many bytes of the answer
    times: int = 1000  # how often it hangs up
    ranges: bool = True
    headers: dict = field(default_factory=dict)

    def __call__(self, request, before):
        asked = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", ""))
        begin = int(asked[1]) if asked and self.ranges else 0
        headers = {"Content-Length": len(self.body) - begin, **self.headers}
        end = begin + self.upto if self.upto is not None and before < self.times else None
        request.reply(206 if begin else 200, headers, self.body[begin:end])


def refuses(status, **headers):
    return lambda request, before: request.reply(status, {"Content-Length": 0, **headers})


def points_to(place):
    return refuses(302, Location=place)


def in_turn(*answers):
    return lambda request, before: answers[min(before, len(answers) - 1)](request, before)


@pytest.fixture(scope="module")
def running():
    with Server() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def server(running, monkeypatch):
    running.asked, running.answers = [], {"/a.hdf5": Gives()}
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("BFQ_OFFLINE", raising=False)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    return running


@pytest.fixture
def remote(server):
    mirrors = (f"{server.root}/a.hdf5",)
    return Remote("some-task", "a.hdf5", mirrors, sha(BODY), len(BODY), plain_http=True)


@pytest.fixture
def unpublished(remote):
    return replace(remote, sha256=None, size=None)


def visible(folder):
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def test_a_file_is_downloaded_once_checked_and_recorded(remote, server, tmp_path, monkeypatch):
    monkeypatch.setenv("BFQ_HOME", str(tmp_path))
    seen = []
    path = fetch(remote, progress=lambda *step: seen.append(step))
    assert path == tmp_path / "downloads" / "a.hdf5"
    assert path.read_bytes() == BODY
    ledger = json.loads(path.with_name("a.hdf5.ledger.json").read_text())
    assert (ledger["sha256"], ledger["source"]) == (sha(BODY), remote.mirrors[0])
    assert seen == sorted(seen)
    assert seen[-1] == (len(BODY), len(BODY))
    assert visible(path.parent) == {"a.hdf5", "a.hdf5.ledger.json"}
    fetch(remote)
    monkeypatch.setenv("BFQ_OFFLINE", "1")
    fetch(remote)
    assert len(server.asked) == 1


def test_a_broken_connection_is_continued(remote, server, tmp_path):
    server.answers["/moved"] = points_to("/a.hdf5")
    server.answers["/a.hdf5"] = Gives(upto=HALF, times=1)
    fetch(replace(remote, mirrors=(f"{server.root}/moved",)), tmp_path)
    assert (tmp_path / "a.hdf5").read_bytes() == BODY
    assert server.asked[2:] == [("/moved", f"bytes={HALF}-"), ("/a.hdf5", f"bytes={HALF}-")]


def test_a_later_call_continues_a_download_that_failed(remote, server, tmp_path):
    server.answers["/a.hdf5"] = in_turn(Gives(upto=HALF), *[refuses(503)] * 3, Gives())
    with pytest.raises(BadInput, match="503 Service Unavailable"):
        fetch(remote, tmp_path)
    assert not visible(tmp_path)
    assert fetch(remote, tmp_path).read_bytes() == BODY
    assert [span for _, span in server.asked] == [None] + [f"bytes={HALF}-"] * 4


@pytest.mark.parametrize("known", [True, False])
def test_without_ranges_or_a_checksum_a_download_starts_over(remote, server, tmp_path, known):
    server.answers["/a.hdf5"] = Gives(upto=HALF, times=1, ranges=False)
    asked = remote if known else replace(remote, sha256=None, size=None)
    assert fetch(asked, tmp_path).read_bytes() == BODY
    assert server.asked[1][1] == (f"bytes={HALF}-" if known else None)


@pytest.mark.parametrize("first", [
    Gives(BODY[:HALF] + b"?" + BODY[HALF + 1 :]), Gives(OTHER), Gives(upto=HALF, ranges=False),
    refuses(404), refuses(503), points_to("/0/a.hdf5"),
])  # fmt: skip
def test_the_next_mirror_is_asked_after_damage_and_refusals(remote, server, tmp_path, first):
    server.answers.update({"/0/a.hdf5": first, "/1/a.hdf5": Gives()})
    mirrors = tuple(f"{server.root}/{k}/a.hdf5" for k in range(2))
    assert fetch(replace(remote, mirrors=mirrors), tmp_path).read_bytes() == BODY


@pytest.mark.parametrize(("answer", "words"), [
    (Gives(BODY[:-1] + b"?"), sha(BODY)),
    (Gives(OTHER), f"{len(OTHER)}"),
    (Gives(b"<html>please log in</html>" * 1000), "size|something other"),
    (refuses(403), "403 Forbidden"),
    (points_to("file:///etc/passwd"), "passwd"),
    (points_to("ftp://127.0.0.1/a.hdf5"), "ftp"),
    (points_to("/a.hdf5"), "redirects"),
    (lambda request, before: request.close_connection, "a.hdf5"),
])  # fmt: skip
def test_a_failure_is_one_sentence_with_the_address(remote, server, tmp_path, answer, words):
    server.answers["/a.hdf5"] = answer
    with pytest.raises(BadInput, match=words) as trouble:
        fetch(remote, tmp_path)
    assert remote.mirrors[0] in str(trouble.value)
    assert str(trouble.value).endswith("bfq data import FILE --as some-task")
    assert "\n" not in str(trouble.value)
    assert not visible(tmp_path)


def test_silence_unknown_sizes_and_plain_http_are_refused(remote, unpublished, server, tmp_path):
    with pytest.raises(BadInput, match="could not be downloaded"):
        fetch(replace(remote, plain_http=False), tmp_path)
    assert not server.asked
    wait = threading.Event().wait
    server.answers["/a.hdf5"] = lambda request, before: wait(0.5)
    with pytest.raises(BadInput, match="timed out"):
        fetch(remote, tmp_path, timeout=0.05, retries=1)
    assert len(server.asked) == 2
    for answer in (
        lambda request, before: request.reply(200, {"Connection": "close"}, BODY),
        Gives(b"<!DOCTYPE html><html>please log in</html>"),
    ):
        server.answers["/a.hdf5"] = answer
        with pytest.raises(BadInput, match="size|something other than a.hdf5"):
            fetch(unpublished, tmp_path)
        assert not visible(tmp_path)


def test_a_server_that_trickles_is_given_up(remote, server, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "PATIENCE", 0.1)

    def trickle(request, before):
        request.reply(200, {"Content-Length": len(BODY)}, BODY[:8])
        for k in range(100):
            threading.Event().wait(0.01)
            request.wfile.write(BODY[8 + k : 9 + k])

    server.answers["/a.hdf5"] = trickle
    with pytest.raises(BadInput, match="less than 1,024 bytes per second"):
        fetch(remote, tmp_path, retries=0)


def test_a_full_disk_is_reported_before_the_download(remote, server, tmp_path, monkeypatch):
    monkeypatch.setattr(download.shutil, "disk_usage", lambda path: SimpleNamespace(free=10))
    with pytest.raises(DiskTrouble, match=f"no room for {len(BODY):,} more bytes"):
        fetch(remote, tmp_path)


def test_a_file_without_checksum_is_trusted_once(unpublished, remote, server, tmp_path):
    said = []
    path = fetch(unpublished, tmp_path, say=said.append)
    fetch(unpublished, tmp_path, say=said.append)
    assert len(said) == 1
    assert sha(BODY) in said[0]
    path.write_bytes(OTHER)
    with pytest.raises(BadInput, match=f"{sha(OTHER)} and not {sha(BODY)}.*remove it"):
        fetch(unpublished, tmp_path)
    path.unlink()
    server.answers["/a.hdf5"] = Gives(OTHER)
    with pytest.raises(BadInput, match="could not be downloaded"):
        fetch(unpublished, tmp_path)
    (tmp_path / "a.hdf5.ledger.json").unlink()
    assert fetch(unpublished, tmp_path).read_bytes() == OTHER
    for content in ("[]", "{", '{"sha256": 3}'):
        (tmp_path / "a.hdf5.ledger.json").write_text(content)
        with pytest.raises(BadInput, match=r"ledger\.json"):
            fetch(unpublished, tmp_path)


def test_a_file_put_there_by_hand_is_checked(unpublished, remote, server, tmp_path, monkeypatch):
    (tmp_path / "a.hdf5").write_bytes(OTHER)
    monkeypatch.setenv("BFQ_OFFLINE", "1")
    assert fetch(unpublished, tmp_path)
    with pytest.raises(BadInput, match="remove it"):
        fetch(remote, tmp_path)
    (tmp_path / "a.hdf5").write_bytes(b"<html>" + BODY)
    with pytest.raises(BadInput, match="begins with"):
        fetch(unpublished, tmp_path)
    assert not server.asked


def test_refusals_before_any_request(remote, server, tmp_path, monkeypatch):
    for name in ("../a.hdf5", "/tmp/a.hdf5", ".hidden", "", "b/a.hdf5"):
        with pytest.raises(BadInput, match="cannot name a file"):
            fetch(replace(remote, file=name), tmp_path)
    with monkeypatch.context() as offline:
        offline.setenv("BFQ_OFFLINE", "1")
        with pytest.raises(BadInput, match=f"put it at {tmp_path}/a.hdf5 .*{remote.mirrors[0]}"):
            fetch(remote, tmp_path)
    assert not list(tmp_path.iterdir())
    (tmp_path / "precious").write_text("kept")
    (tmp_path / ".a.hdf5.lock").symlink_to("precious")
    with pytest.raises(DiskTrouble, match="cannot write"):
        fetch(remote, tmp_path)
    assert (tmp_path / "precious").read_text() == "kept"
    (tmp_path / ".a.hdf5.lock").unlink()
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(BadInput, match=r"pip install 'bfq-rl\[download\]'"):
        fetch(remote, tmp_path)
    assert not server.asked


SCRIPT = """
import sys
from pathlib import Path
from bfq.data.download import Remote, fetch
url, folder, digest = sys.argv[1:]
fetch(Remote("some-task", "a.hdf5", (url,), digest, plain_http=True), Path(folder))
"""


def test_two_processes_download_a_file_once(remote, server, tmp_path):
    wait = threading.Event().wait

    def slow(request, before):
        wait(0.7)
        Gives()(request, before)

    server.answers["/a.hdf5"] = slow
    command = [sys.executable, "-c", SCRIPT, remote.mirrors[0], str(tmp_path), sha(BODY)]
    pair = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
    assert [process.communicate(timeout=30)[1] for process in pair] == [b"", b""]
    assert (tmp_path / "a.hdf5").read_bytes() == BODY
    assert len(server.asked) == 1


# Minari: a folder of files.

ID, HUB = "D4RL/pen/human-v9", "/datasets/farama-minari/D4RL/resolve/main/"
LISTING = "/api/datasets/farama-minari/D4RL/tree/main/pen%2Fhuman-v9%2Fdata"
DATA = "pen/human-v9/data"
FILES = {
    f"{DATA}/metadata.json": b'{"data_format": "hdf5", "total_steps": 3}',
    f"{DATA}/main_data.hdf5": BODY,
    f"{DATA}/more/extra.hdf5": OTHER,
}


def shelve(server, files, **changed):
    """A repository of the Hub: files, and a listing in pages of one entry."""
    entries = [{"type": "directory", "path": DATA, "size": 0}]
    for path, body in files.items():
        large = {"lfs": {"oid": sha(body), "size": len(body)}} if path.endswith(".hdf5") else {}
        entries.append({"type": "file", "path": path, "size": len(body), **large, **changed})
        server.answers[HUB + path] = Gives(body)

    def answer(request, before):
        number = int(request.path.partition("cursor=")[2] or 0)
        body = json.dumps(entries[number : number + 1]).encode()
        headers = {"Content-Length": len(body)}
        if number + 1 < len(entries):
            headers["Link"] = f'<{server.root}{LISTING}?cursor={number + 1}>; rel="next"'
        request.reply(200, headers, body)

    server.answers[LISTING] = answer


def test_a_minari_dataset_is_downloaded_whole_and_checked(server, tmp_path, monkeypatch):
    shelve(server, FILES)
    server.answers[f"{HUB}{DATA}/main_data.hdf5"] = Gives(BODY[:-1] + b"?")
    with pytest.raises(BadInput, match=sha(BODY)):
        fetch_minari(ID, tmp_path, hub=server.root)
    with monkeypatch.context() as offline:
        offline.setenv("BFQ_OFFLINE", "1")
        with pytest.raises(BadInput, match=f"{ID} is not on this machine.*human-v9/data"):
            fetch_minari(ID, tmp_path, hub=server.root)
    shelve(server, FILES)
    home = fetch_minari(ID, tmp_path, hub=server.root)
    assert home == tmp_path / "D4RL" / "pen" / "human-v9"
    for path, body in FILES.items():
        assert (tmp_path / "D4RL" / path).read_bytes() == body
    assert server.asked[-1][0].endswith("/metadata.json")
    count = len(server.asked)
    with monkeypatch.context() as offline:
        offline.setenv("BFQ_OFFLINE", "1")
        assert fetch_minari(ID, tmp_path, hub=server.root) == home
    assert len(server.asked) == count
    (home / "data" / "main_data.hdf5").write_bytes(OTHER)
    with pytest.raises(BadInput, match="is not the expected file"):
        fetch_minari(ID, tmp_path, hub=server.root)


@pytest.mark.parametrize(("files", "changed"), [
    ({f"{DATA}/../../../../../gone.hdf5": BODY}, {}), ({f"{DATA}/.hidden": BODY}, {}),
    ({"door/human-v9/data/main_data.hdf5": BODY}, {}),
    ({f"{DATA}/main_data.hdf5": BODY}, {}),  # no metadata
    (FILES, {"size": "many"}), (FILES, {"lfs": {"oid": "short"}}),
])  # fmt: skip
def test_a_listing_that_leads_astray_is_refused(server, tmp_path, files, changed):
    shelve(server, files, **changed)
    with pytest.raises(BadInput, match=f"listing of {ID}|among the files of {ID}"):
        fetch_minari(ID, tmp_path, hub=server.root)
    assert not list(tmp_path.rglob("*.hdf5"))


@pytest.mark.parametrize("answer", [
    refuses(404), Gives(b"<html>"), Gives(b'{"error": 1}'), Gives(b"[" * 100_000),
    Gives(b"[]" + b" " * (9 << 20)),
    Gives(b"[]", headers={"Link": '<https://elsewhere.example/x>; rel="next"'}),
    Gives(b"[]", headers={"Link": f'<{LISTING}>; rel="next"'}),
])  # fmt: skip
def test_a_listing_that_cannot_be_read_is_refused(server, tmp_path, answer):
    server.answers[LISTING] = answer
    with pytest.raises(BadInput, match=ID):
        fetch_minari(ID, tmp_path, hub=server.root)
    assert not list(tmp_path.rglob("*"))


def test_a_minari_dataset_is_imported_by_its_name(server, tmp_path, monkeypatch, command):
    with h5py.File(tmp_path / "main.hdf5", "w") as file:
        file["episode_0/observations"] = np.arange(8.0).reshape(4, 2)
        file["episode_0/actions"] = np.array([[0.5], [-0.5], [0.1]], np.float32)
        file["episode_0/rewards"] = np.arange(3.0)
        file["episode_0/terminations"] = np.zeros(3, bool)
        file["episode_0/truncations"] = np.arange(3) == 2
    body = (tmp_path / "main.hdf5").read_bytes()
    shelve(server, {**FILES, f"{DATA}/main_data.hdf5": body})
    monkeypatch.setattr(published, "fetch_minari", functools.partial(fetch_minari, hub=server.root))
    monkeypatch.setenv("BFQ_HOME", str(tmp_path / "home"))
    code, out, _ = command("data download --json", ID)
    assert (code, json.loads(out)["transitions"]) == (0, 3)
    assert load_dataset(ID).rewards.tolist() == [0.0, 1.0, 2.0]
    code, _, err = command("data download", ID)
    assert (code, "--replace" in err) == (2, True)
    monkeypatch.setenv("BFQ_HOME", str(tmp_path / "other"))
    monkeypatch.setenv("BFQ_OFFLINE", "1")
    for name in ("D4RL/pen/human", "../../x-v0", "a//b-v0", "<script>", ID, "local/hoper-medium"):
        code, _, err = command("data download", name)
        assert (code, name in err, err.count("\n")) == (2, True, 1)
    assert not (tmp_path / "other").exists()


# The table of addresses.


def test_every_task_has_the_files_of_d4rls_own_table():
    """The rules of D4RL's infos.py: task-with-dashes-v2 is task_with_underscores-v2, pen keeps its name."""
    words = {"medium": "big", "large": "hardest", "play": False, "diverse": True}
    for body in ("halfcheetah", "hopper", "walker2d"):
        for kind in ("medium-v2", "medium-replay-v2", "medium-expert-v2"):
            (remote,) = remotes_for(f"{body}-{kind}")
            file = f"{body}-{kind[:-3]}".replace("-", "_") + "-v2.hdf5"
            assert remote.mirrors[0].endswith(f"/gym_mujoco_v2/{file}")
    for task in ("pen-human-v1", "pen-cloned-v1"):
        (remote,) = remotes_for(task)
        assert remote.mirrors[0].endswith(f"/hand_dapg_v1/{task}.hdf5")
    for size, kind in itertools.product(("medium", "large"), ("play", "diverse")):
        (remote,) = remotes_for(f"antmaze-{size}-{kind}-v2")
        goals = f"multistart_True_multigoal_{words[kind]}_sparse_fixed.hdf5"
        assert remote.mirrors[0].endswith(f"/ant_maze_v2/Ant_maze_{words[size]}-maze_noisy_{goals}")
    for task in ("antmaze-large-navigate", "antmaze-giant-navigate", "humanoidmaze-medium-navigate",
                 "humanoidmaze-large-navigate", "cube-single-play", "scene-play"):  # fmt: skip
        files = [remote.file for remote in remotes_for(f"{task}-singletask-task4-v0")]
        assert files == [f"{task}-v0.npz", f"{task}-v0-val.npz"]
    with pytest.raises(BadInput, match="did you mean 'hopper-medium-v2'"):
        remotes_for("hoper-medium-v2")


def test_no_file_is_taken_over_plain_http_without_a_checksum():
    for remote in REMOTES:
        assert (remote.sha256 is None) == (remote.size is None)
        plain = [url for url in remote.mirrors if not url.startswith("https://")]
        assert bool(plain) == remote.plain_http
        assert not plain or re.fullmatch("[0-9a-f]{64}", str(remote.sha256))
        assert all(url.endswith(f"/{remote.file}") for url in remote.mirrors)
    assert len({remote.file for remote in REMOTES}) == len(REMOTES)
    sums = [remote.sha256 for remote in REMOTES if remote.sha256]
    assert len(set(sums)) == len(sums)


def test_addresses_agree_with_the_packages():
    utils = pytest.importorskip("ogbench.utils")
    for remote in remotes_for("scene-play-singletask-v0"):
        assert remote.mirrors[0] == f"{utils.DATASET_URL}/{remote.file}"
    theirs = pytest.importorskip("minari.storage.remotes")
    assert theirs.DEFAULT_REMOTE == "hf://farama-minari"
