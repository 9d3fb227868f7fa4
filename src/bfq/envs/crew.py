"""Processes that help: each is a Python of its own that is told what to call through a pipe.

(The pools of the standard library would import the user's script again in every process, and so run it again
where it has no guard against that.) No JAX in here: it would be imported by every one of them.
"""

import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any


def same_modules() -> dict[str, str]:
    """The environment of a process that finds the modules that this one does; start it with `python -P`.

    Without -P it would look in the current folder first, where anything may lie.
    """
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}


class Dead(RuntimeError):
    """A helping process is gone."""


class Helper:
    """A process that calls functions one after another. It ends with us, however we end."""

    def __init__(self, silent: bool = False):
        # One thread of linear algebra each: the crew itself uses the cores, and sums must not depend on them.
        settings = {
            **same_modules(),
            **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1"),
        }
        self._process: Any = subprocess.Popen(
            [sys.executable, "-P", "-m", "bfq.envs.worker"],  # no module of the current folder
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if silent else None,
            env=settings,
        )

    def tell(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Begins a call; `answer` waits for its end."""
        try:
            pickle.dump(
                (function, arguments), self._process.stdin, protocol=pickle.HIGHEST_PROTOCOL
            )
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._dead() from error

    def answer(self) -> Any:
        """What the call gave; raises what it raised."""
        try:
            answer = pickle.load(self._process.stdout)  # noqa: S301 - from a process we started, not from a file
        except (EOFError, pickle.UnpicklingError) as error:
            raise self._dead() from error
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _dead(self) -> Dead:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        return Dead(f"a helping process has died (exit code {self._process.poll()})")

    def kill(self) -> None:
        """Ends it at once: whatever is still under way is not wanted any more."""
        self._process.kill()

    def close(self) -> None:
        """Ends it and gives back its pipes."""
        self.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()
