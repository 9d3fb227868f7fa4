"""The start of a run: programs compiled before, few imports, and words while one waits.

Compiled programs are kept in a place nobody else can write to, or not at all.
"""

import io
import os
import re
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest
from rich.console import Console

from bfq import progress
from bfq.progress import Reporter, announced
from bfq.training import compiled

BARE = {
    name: value
    for name, value in os.environ.items()
    if "CACHE" not in name and name != compiled.OFF
}
PROGRAM = """
import jax, jax.numpy as jnp
from bfq.training import compiled
compiled.WORTH_S = 0.0
compiled.remember_compilations()
compiled.remember_compilations()
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name) if "cache_hit" in name else None)
x = jax.random.normal(jax.random.key(0), (64, 64))
print(jax.jit(jax.grad(lambda x: jnp.tanh(x @ x).sum()))(x).tobytes().hex())
print(len(hits), jax.config.jax_compilation_cache_dir)
"""


def start(cache: Path, **more: str) -> "subprocess.Popen[str]":
    environment = {**BARE, "XDG_CACHE_HOME": str(cache), "HOME": str(cache), **more}
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def end(process: "subprocess.Popen[str]") -> tuple[str, int, str]:
    """The numbers, how many programs were found, and where they are kept; nothing else is said."""
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    numbers, last = out.splitlines()
    hits, place = last.split()
    return numbers, int(hits), place


def test_a_warm_cache_gives_the_same_bytes_in_silence(tmp_path):
    both = [start(tmp_path), start(tmp_path)]  # at once, and cold
    (numbers, _, place), other = (end(process) for process in both)
    assert other[0] == numbers
    folder = Path(place)
    assert folder.is_relative_to(tmp_path / "bfq" / "compiled")
    assert [path.stat().st_mode & 0o777 for path in (folder, folder.parent)] == [0o700, 0o700]
    entries = list(folder.glob("*-cache"))
    entries[0].write_bytes(entries[0].read_bytes()[:50])  # one was cut short, and is compiled again
    again, hits, _ = end(start(tmp_path))
    assert again == numbers
    assert 0 < hits < len(entries)


def test_the_users_choices_are_kept(tmp_path):
    own = tmp_path / "own"
    processes = [
        start(tmp_path, JAX_COMPILATION_CACHE_DIR=str(own)),
        start(tmp_path, BFQ_NO_COMPILE_CACHE="1"),
        start(tmp_path, BFQ_HOME=str(tmp_path / "shared"), XDG_CACHE_HOME="/proc/no-such-place"),
    ]
    assert [end(process)[2] for process in processes] == [str(own), "None", "None"]
    assert not (tmp_path / "bfq").exists()
    assert not (tmp_path / "shared").exists()


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = compiled.place()
    compiled._make_own(folder)
    return folder


def test_a_place_that_others_can_write_to_is_refused(place, monkeypatch):
    assert compiled.trouble(place) == ""
    for path in (place, place.parent, place.parent.parent):
        path.chmod(0o770)
        assert compiled.trouble(place) == f"others can write to {path}"
        path.chmod(0o700)
    place.chmod(0o1777)  # what is only kept from being replaced could still be added to
    assert "others can write" in compiled.trouble(place)
    place.chmod(0o700)
    place.parent.parent.chmod(0o1777)
    assert compiled.trouble(place) == ""
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert "not a folder of your own" in compiled.trouble(place)


def test_a_link_to_another_place_is_refused(place, tmp_path):
    place.rmdir()
    place.symlink_to(tmp_path)
    assert "not a folder of your own" in compiled.trouble(place)


def test_cut_short_and_superfluous_programs_are_removed(place, monkeypatch):
    content = zlib.compress(os.urandom(1000))
    long_ago = time.time() - 1000.0
    for number, name in enumerate(("whole", "short", "empty", "new")):
        path = place / f"{name}-cache"
        path.write_bytes(content[: {"short": 500, "empty": 0, "new": 500}.get(name)])
        if name != "new":  # perhaps it is being written now
            os.utime(path, (long_ago + number, long_ago + number))
    compiled._tidy(place)
    assert {
        path.name: path.stat().st_mode & 0o777 for path in place.iterdir() if "new" not in path.name
    } == {"whole-cache": 0o400}
    assert (place / "new-cache").exists()
    os.utime(place / "whole-cache", (long_ago, long_ago))
    monkeypatch.setattr(compiled, "LARGEST_BYTES", 1000)
    compiled._tidy(place)
    assert [path.name for path in place.iterdir()] == ["new-cache"]


def test_the_place_depends_on_the_machine(place, monkeypatch):
    monkeypatch.setattr(compiled, "_cpu", lambda: ["model name: another"])
    assert compiled.place().parent == place.parent
    assert compiled.place() != place


def test_the_doctor_tells_where_programs_are(place, monkeypatch):
    assert compiled.cache_status().startswith(
        "not kept: JAX has a place of its own"
    )  # that of the tests
    monkeypatch.setattr(compiled, "refusal", lambda: "")
    (place / "a-cache").write_bytes(bytes(2**20))
    assert compiled.cache_status() == f"{place}, 1.0 MiB for all kinds of machine"
    place.chmod(0o777)
    assert "others can write" in compiled.cache_status()


# Imports


@pytest.mark.parametrize(
    ("words", "absent"),
    [
        ("from bfq.cli.main import build_parser; build_parser('train')", {"jax", "numpy", "rich"}),
        (
            "from bfq.agents.registry import get_agent; get_agent('bc')",
            {"bfq.agents.srpo", "bfq.agents.bfq"},
        ),
        ("import bfq.experiment", {"matplotlib", "scipy.stats", "scipy.special", "mujoco"}),
    ],
)
def test_what_a_start_does_not_need_is_not_imported(words, absent):
    program = f"import sys; {words}; print(*sys.modules)"
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not absent & set(told.stdout.split())


# Words


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_one_who_watches_is_told_at_once_what_takes_a_while_and_only_while_it_does(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with announced("reading"):
        assert sys.stderr.getvalue() == "reading …\r"
    assert sys.stderr.getvalue().endswith("\x1b[2K\r")


def test_a_file_is_told_only_what_takes_long(monkeypatch, capsys):
    with announced("reading"):
        pass
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    with announced("training", quiet=True):
        time.sleep(0.05)
    assert capsys.readouterr().err == ""
    with announced("reading"):
        time.sleep(0.2)
    assert capsys.readouterr().err == "reading …\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_run_says_what_it_does_while_no_update_is_made(terminal):
    shown = io.StringIO()
    reporter = Reporter(
        "bfq on mini", 100, 0, Console(file=shown, force_terminal=terminal, width=120)
    )
    reporter.start()
    reporter.resume(40)
    reporter.waiting("evaluating 5 × 20 episodes")
    reporter.stop()
    if terminal:
        plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.getvalue())
        assert "40/100 evaluating 5 × 20 episodes" in plain
    else:
        began, told = shown.getvalue().splitlines()
        assert began == "bfq on mini: resuming at 40/100"
        assert told == "bfq on mini: evaluating 5 × 20 episodes …"
