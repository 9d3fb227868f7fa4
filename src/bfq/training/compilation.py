"""Compiler options, and the cache in which later runs find compiled programs.

JAX keeps compiled programs in a folder of the user's own cache. They are executed, so the folder is used only
where nobody else can write; $BFQ_HOME, which may be shared, is not used. Programs are compiled for one kind
of CPU and home folders are shared among machines, so every kind has its own folder. If anything is wrong
with the folder, runs compile without a cache.
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

from bfq.envs.worker_pool import cores

CONFIG: Any = jax.config  # untyped
OFF = "BFQ_NO_COMPILE_CACHE"
LARGEST_BYTES = 10**9  # of all programs, for all kinds of CPU
WORTH_S = 1.0  # programs that compile faster are not kept
ZLIB = b"\x78"  # the first byte of a program's file
SETTLED_S = 60.0  # older files are no longer being written
CPU = {
    "vendor_id", "cpu family", "model", "model name", "stepping", "flags",
    "Features", "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision",
}  # fmt: skip


OPTIONS: dict[str, dict[str, Any]] = {
    "gpu": {
        # Run independent kernels at once; otherwise the 200 kernels of an update run in sequence.
        "xla_gpu_command_buffer_scheduling_mode": "CONCURRENT",
        # Do not merge products with the same weights: their merged results are copied apart again.
        "xla_gpu_dot_merger_threshold_mb": 0,
        # Small products in one launch: splitting the inner sum gains less than a second launch costs.
        "xla_gpu_experimental_force_split_k": 1,
    },
    "cpu": {
        # In a program of many products XLA's own kernels are faster than YNN's, the default.
        "xla_cpu_experimental_ynn_fusion_type": "",
    },
}


@cache
def compiler_options() -> dict[str, Any]:
    """Options that make training faster on this device, if this version of XLA knows them."""
    wanted = OPTIONS.get(jax.default_backend(), {})
    return {name: value for name, value in wanted.items() if _known(name, value)}


def _known(name: str, value: Any) -> bool:
    try:
        jax.jit(lambda x: x + 1.0, compiler_options={name: value}).lower(0.0).compile()
    except (jax.errors.JaxRuntimeError, ValueError):
        return False
    return True


def enable_compilation_cache() -> None:
    """Let JAX keep and reuse compiled programs from now on, unless the user chose otherwise."""
    with suppress(OSError, RuntimeError):  # no home folder, or a read-only one
        folder = cache_folder()
        if user_choice() or CONFIG.jax_compilation_cache_dir == str(folder):
            return
        make_private(folder)
        if unsafe(folder):
            return
        remove_unusable(folder)
        # A full disk or a damaged file costs compilation time, and there is nothing to do about it.
        warnings.filterwarnings("ignore", message="Error .+ing persistent compilation cache")
        CONFIG.update("jax_compilation_cache_dir", str(folder))
        CONFIG.update("jax_persistent_cache_min_compile_time_secs", WORTH_S)


def user_choice() -> str:
    """Why the user's settings disable this cache; empty if they do not."""
    if os.environ.get(OFF) == "1":
        return f"{OFF} is set"
    chosen = CONFIG.jax_compilation_cache_dir
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ and chosen in (None, "", str(cache_folder())):
        return ""
    return f"JAX uses another folder, {chosen}" if chosen else "JAX_COMPILATION_CACHE_DIR is empty"


def cache_folder() -> Path:
    """The folder of compiled programs for this machine."""
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    divided = [str(cores()), os.environ.get("NPROC", "")]  # XLA divides work when it compiles
    machine = (_cpu(), divided, version("jaxlib"), jax.default_backend())
    name = hashlib.sha256(repr(machine).encode()).hexdigest()[:16]
    return user_cache.resolve() / "bfq" / "compiled" / name


def _cpu() -> list[str]:
    """The CPUs of this machine with their features; on systems other than Linux, this machine's name."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return [platform.machine(), platform.processor(), platform.node()]
    lines = [line.split(":", 1) for line in text.splitlines() if ":" in line]
    return sorted({f"{name.strip()}:{value}" for name, value in lines if name.strip() in CPU})


def make_private(folder: Path) -> None:
    """Create the folder and its parent, accessible to the user only."""
    folder.parent.parent.mkdir(parents=True, exist_ok=True)
    for path in (folder.parent, folder):
        path.mkdir(mode=0o700, exist_ok=True)


def unsafe(folder: Path) -> str:
    """Why others might be able to put a file into the folder; empty if they cannot."""
    user = os.geteuid()
    for path in (folder, *folder.parents):
        found, private = path.lstat(), path in (folder, folder.parent)
        owners = (user,) if private else (user, 0)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in owners:
            return f"{path} is not a folder of your own"
        # In a sticky folder others may add files, but not replace ours.
        sticky = found.st_mode & stat.S_ISVTX and not private
        if found.st_mode & 0o022 and not sticky:
            return f"others can write to {path}"
    return ""


def remove_unusable(folder: Path) -> None:
    """Remove truncated programs, and the least recently used ones if all together are too large."""
    for path, found in _files(folder):
        # Each file is checked once and then made read-only: JAX never rewrites a file.
        unchecked = path.name.endswith("-cache") and found.st_mode & stat.S_IWUSR
        if unchecked and time.time() - found.st_mtime > SETTLED_S:
            with suppress(OSError):  # another process may do the same now
                path.chmod(0o400) if _is_complete(path) else path.unlink()
    kept = sorted(_files(folder.parent), key=lambda file: max(file[1].st_atime, file[1].st_mtime))
    excess = sum(found.st_size for _, found in kept) - LARGEST_BYTES
    for path, found in kept:
        if excess <= 0:
            return
        with suppress(OSError):  # another process was faster
            path.unlink()
            excess -= found.st_size


def _is_complete(path: Path) -> bool:
    """Whether a program can be unpacked; files in other formats are left to JAX."""
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
        with suppress(OSError):  # removed meanwhile by another process
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                found.append((path, status))
    return found


def cache_status() -> str:
    """The folder and size of the compilation cache, or why it is not used."""
    folder = cache_folder()
    reason = user_choice() or (unsafe(folder) if folder.exists() else "")
    if reason:
        return f"not used: {reason}"
    size = sum(found.st_size for _, found in _files(folder.parent))
    return f"{folder}, {size / 2**20:.1f} MiB for all kinds of machine"
