"""The compilation cache is used only where nobody else can write; starting needs few imports."""

import os
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest

from bfq.training import compilation

CHOSEN = [name for name in os.environ if "CACHE" in name or name == compilation.OFF]
BARE = {name: value for name, value in os.environ.items() if name not in CHOSEN}
PROGRAM = """
import jax, jax.numpy as jnp
from bfq.training import compilation
compilation.WORTH_S = 0.0
compilation.enable_compilation_cache()
compilation.enable_compilation_cache()
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name) if "cache_hit" in name else None)
x = jax.random.normal(jax.random.key(0), (64, 64))
print(jax.jit(jax.grad(lambda x: jnp.tanh(x @ x).sum()))(x).tobytes().hex())
print(len(hits), jax.config.jax_compilation_cache_dir)
"""


def start(cache, **more):
    environment = {**BARE, "XDG_CACHE_HOME": str(cache), "HOME": str(cache), **more}
    command, pipe = [sys.executable, "-c", PROGRAM], subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)


def end(process):
    """The numbers, the count of cache hits, and the cache folder; nothing else is printed."""
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    numbers, last = out.splitlines()
    hits, place = last.split()
    return numbers, int(hits), place


def test_a_warm_cache_gives_the_same_bytes(tmp_path):
    both = [start(tmp_path), start(tmp_path)]  # at once, and cold
    (numbers, _, place), other = (end(process) for process in both)
    assert other[0] == numbers
    folder = Path(place)
    assert folder.is_relative_to(tmp_path / "bfq" / "compiled")
    assert [path.stat().st_mode & 0o777 for path in (folder, folder.parent)] == [0o700, 0o700]
    entries = list(folder.glob("*-cache"))
    entries[0].write_bytes(entries[0].read_bytes()[:50])  # truncated: it is compiled again
    again, hits, _ = end(start(tmp_path))
    assert again == numbers
    assert 0 < hits < len(entries)


def test_the_user_can_choose_another_cache_or_none(tmp_path):
    own, shared = str(tmp_path / "own"), str(tmp_path / "shared")
    ways = ({"JAX_COMPILATION_CACHE_DIR": own}, {"BFQ_NO_COMPILE_CACHE": "1"},
            {"BFQ_HOME": shared, "XDG_CACHE_HOME": "/proc/no-such-place"})  # fmt: skip
    processes = [start(tmp_path, **way) for way in ways]
    assert [end(process)[2] for process in processes] == [own, "None", "None"]
    assert not (tmp_path / "bfq").exists()
    assert not (tmp_path / "shared").exists()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = compilation.cache_folder()
    compilation.make_private(folder)
    return folder


def test_a_folder_that_others_can_write_to_or_that_is_a_link_is_not_used(folder, tmp_path, monkeypatch):  # fmt: skip
    assert compilation.unsafe(folder) == ""
    for path in (folder, folder.parent, folder.parent.parent):
        path.chmod(0o770)
        assert compilation.unsafe(folder) == f"others can write to {path}"
        path.chmod(0o700)
    folder.chmod(0o1777)  # others cannot replace files in a sticky folder, but add some
    assert "others can write" in compilation.unsafe(folder)
    folder.chmod(0o700)
    folder.parent.parent.chmod(0o1777)
    assert compilation.unsafe(folder) == ""
    with monkeypatch.context() as other_user:
        other_user.setattr(os, "geteuid", lambda: 12345)
        assert "not a folder of your own" in compilation.unsafe(folder)
    folder.rmdir()
    folder.symlink_to(tmp_path)  # a link to another folder
    assert "not a folder of your own" in compilation.unsafe(folder)


def test_truncated_and_least_used_programs_are_removed(folder, monkeypatch):
    content = zlib.compress(os.urandom(1000))
    long_ago = time.time() - 1000.0
    for number, name in enumerate(("whole", "short", "empty", "new")):
        path = folder / f"{name}-cache"
        path.write_bytes(content[: {"short": 500, "empty": 0, "new": 500}.get(name)])
        if name != "new":  # another process may still be writing it
            os.utime(path, (long_ago + number, long_ago + number))
    compilation.remove_unusable(folder)
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert modes.pop("new-cache") & 0o200
    assert modes == {"whole-cache": 0o400}
    os.utime(folder / "whole-cache", (long_ago, long_ago))
    monkeypatch.setattr(compilation, "LARGEST_BYTES", 1000)
    compilation.remove_unusable(folder)
    assert [path.name for path in folder.iterdir()] == ["new-cache"]


def test_every_kind_of_machine_has_its_own_folder(folder, monkeypatch):
    monkeypatch.setenv("NPROC", "3")
    assert compilation.cache_folder().parent == folder.parent
    assert compilation.cache_folder() != folder


def test_the_status_names_the_folder_or_the_reason(folder, monkeypatch):
    assert compilation.cache_status().startswith("not used: JAX uses another folder")  # the tests'
    monkeypatch.setattr(compilation, "user_choice", lambda: "")
    (folder / "a-cache").write_bytes(bytes(2**20))
    assert compilation.cache_status() == f"{folder}, 1.0 MiB for all kinds of machine"
    folder.chmod(0o777)
    assert "others can write" in compilation.cache_status()


GET_AGENT = "from bfq.agents.registry import get_agent; get_agent('bc')"
ABSENT = {
    "from bfq.cli.main import build_parser; build_parser('train')": {"jax", "numpy", "rich"},
    "from bfq.progress import announced": {"jax", "numpy"},
    GET_AGENT: {"bfq.agents.srpo", "bfq.agents.bfq"},
    "import bfq.experiment": {"matplotlib", "scipy.stats", "scipy.special", "mujoco"},
    "import bfq.reports.tables": {"matplotlib"},
}


@pytest.mark.parametrize("program", ABSENT)
def test_imports_at_the_start_are_few(program):
    command = [sys.executable, "-c", f"import sys; {program}; print(*sys.modules)"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert not ABSENT[program] & set(printed.split())
