"""What one run has compiled, a later one need not compile again.

JAX keeps compiled programs in a folder of the user's own cache. What lies there is executed, so the folder is
used only where nobody else can write; $BFQ_HOME, which may be shared, is not asked. Programs are made for one
kind of CPU, and homes are shared among machines, so every kind has a folder of its own. Where anything is in
the way, runs compile as if there were no cache.
"""

import hashlib
import os
import platform
import stat
import time
import warnings
import zlib
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

CONFIG: Any = jax.config  # which tells type checkers nothing
OFF = "BFQ_NO_COMPILE_CACHE"
LARGEST_BYTES = 10**9  # of the folder, over all kinds of CPU
WORTH_S = 1.0  # a program that is compiled sooner is not kept
ZLIB = b"\x78"  # how its files begin
SETTLED_S = 60.0  # a file that is older is not being written any more
CPU = {
    "vendor_id", "cpu family", "model", "model name", "stepping", "flags",
    "Features", "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision",
}  # fmt: skip


OPTIONS: dict[str, dict[str, Any]] = {
    "gpu": {
        # Kernels that do not need each other run at once; without it an update's 200 form one long row.
        "xla_gpu_command_buffer_scheduling_mode": "CONCURRENT",
        # Products with the same weights stay apart: merged, their results are copied apart again.
        "xla_gpu_dot_merger_threshold_mb": 0,
        # A small product in one launch: splitting its inner sum gains less than the second launch costs.
        "xla_gpu_experimental_force_split_k": 1,
    },
    "cpu": {
        # Inside a program of many products XLA's usual kernels are faster than YNN's, its default.
        "xla_cpu_experimental_ynn_fusion_type": "",
    },
}


@cache
def compiler_options() -> dict[str, Any]:
    """What makes training faster on this device, as far as this version of XLA knows it."""
    wished = OPTIONS.get(jax.default_backend(), {})
    return {name: value for name, value in wished.items() if _known(name, value)}


def _known(name: str, value: Any) -> bool:
    try:
        jax.jit(lambda x: x + 1.0, compiler_options={name: value}).lower(0.0).compile()
    except (jax.errors.JaxRuntimeError, ValueError):
        return False
    return True


def remember_compilations() -> None:
    """Lets JAX keep what it compiles from here on, and find what it kept, unless the user chose otherwise."""
    with suppress(OSError, RuntimeError):  # no home, or one that cannot be written to
        folder = place()
        if refusal() or CONFIG.jax_compilation_cache_dir == str(folder):
            return
        _make_own(folder)
        if trouble(folder):
            return
        _tidy(folder)
        # A full disk or a damaged file costs the time of compiling, and is no news to act on.
        warnings.filterwarnings(
            "ignore", message="Error (reading|writing) persistent compilation cache"
        )
        CONFIG.update("jax_compilation_cache_dir", str(folder))
        CONFIG.update("jax_persistent_cache_min_compile_time_secs", WORTH_S)


def refusal() -> str:
    """How the user chose that nothing is kept here, in words; empty where that is not so."""
    if os.environ.get(OFF) == "1":
        return f"{OFF} is set"
    chosen = CONFIG.jax_compilation_cache_dir
    if "JAX_COMPILATION_CACHE_DIR" in os.environ or (chosen and chosen != str(place())):
        return (
            f"JAX has a place of its own, {chosen}"
            if chosen
            else "JAX_COMPILATION_CACHE_DIR is empty"
        )
    return ""


def place() -> Path:
    """The folder of the programs for this machine."""
    return root() / fingerprint()


def root() -> Path:
    """The folder of the programs for all kinds of machine."""
    own = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    return own.resolve() / "bfq" / "compiled"


def fingerprint() -> str:
    """What a compiled program depends on besides its source: the CPU, its cores, JAX and the device."""
    told = (_cpu(), _cores(), version("jaxlib"), jax.default_backend())
    return hashlib.sha256(repr(told).encode()).hexdigest()[:16]


def _cpu() -> list[str]:
    """The kinds of CPU of this machine with all they can do; elsewhere than on Linux, this machine alone."""
    try:
        lines = [
            line.split(":", 1)
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if ":" in line
        ]
    except OSError:
        return [platform.machine(), platform.processor(), platform.node()]
    return sorted({f"{name.strip()}:{value}" for name, value in lines if name.strip() in CPU})


def _cores() -> list[str]:
    """XLA divides work among the cores it is given when it compiles."""
    given = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return [str(given), os.environ.get("NPROC", "")]


def _make_own(folder: Path) -> None:
    """Makes the folder and the one above it for the user alone."""
    folder.parent.parent.mkdir(parents=True, exist_ok=True)
    for path in (folder.parent, folder):
        path.mkdir(mode=0o700, exist_ok=True)


def trouble(folder: Path) -> str:
    """Who else could put a file there, in words; empty where nobody could."""
    me = os.geteuid()
    for path in (folder, *folder.parents):
        found, inside = path.lstat(), path in (folder, folder.parent)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in ((me,) if inside else (me, 0)):
            return f"{path} is not a folder of your own"
        sticky = (
            found.st_mode & stat.S_ISVTX and not inside
        )  # others may write beside us, but not replace us
        if found.st_mode & 0o022 and not sticky:
            return f"others can write to {path}"
    return ""


def _tidy(folder: Path) -> None:
    """Removes programs whose writing was cut short, and the longest unused where there are too many."""
    for path, found in _files(folder):
        # Each is looked at once, and its mode remembers that: JAX writes no file twice.
        unseen = path.name.endswith("-cache") and found.st_mode & stat.S_IWUSR
        if unseen and time.time() - found.st_mtime > SETTLED_S:
            with suppress(OSError):  # another process may do the same now
                path.chmod(0o400) if _whole(path) else path.unlink()
    kept = sorted(_files(folder.parent), key=lambda file: max(file[1].st_atime, file[1].st_mtime))
    excess = sum(found.st_size for _, found in kept) - LARGEST_BYTES
    for path, found in kept:
        if excess <= 0:
            return
        with suppress(OSError):
            path.unlink()
            excess -= found.st_size


def _whole(path: Path) -> bool:
    """Whether a program can be unpacked; what is not of zlib is left to JAX to judge."""
    content = path.read_bytes()
    if content[:1] not in (ZLIB, b""):
        return True
    try:
        return bool(zlib.decompress(content))
    except zlib.error:
        return False


def _files(folder: Path) -> list[tuple[Path, os.stat_result]]:
    """Every file below a folder, with its size and dates."""
    found = []
    for path in folder.rglob("*"):
        with suppress(OSError):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                found.append((path, status))
    return found


def cache_status() -> str:
    """The folder and size of the compilation cache, or why it is not used."""
    folder = place()
    why = refusal() or (trouble(folder) if folder.exists() else "")
    if why:
        return f"not kept: {why}"
    size = sum(found.st_size for _, found in _files(folder.parent))
    return f"{folder}, {size / 2**20:.1f} MiB for all kinds of machine"
