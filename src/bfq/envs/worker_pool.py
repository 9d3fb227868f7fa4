"""Worker processes: each is a new Python that calls functions sent through a pipe.

The pools of the standard library import the user's script again in every process, which runs it again if it
has no main guard. Nothing here imports JAX, since every worker would import it too.
"""

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.envs.make import package
from bfq.errors import BadInput

QUEUED = 2  # calls per worker that are in progress or waiting


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def same_modules() -> dict[str, str]:
    """Return environment variables with which `python -P` finds this process's modules.

    Without -P, it would look in the current folder first, which may hold anything.
    """
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}


class WorkerDied(RuntimeError):
    """A worker process has ended unexpectedly."""


class Worker:
    """A process that calls one function after another. It ends when this process ends."""

    def __init__(self, silent: bool = False):
        # One linear-algebra thread each: the workers share the cores, and sums depend on the thread count.
        one_thread = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
        self.process: Any = subprocess.Popen(
            [sys.executable, "-P", "-m", "bfq.envs.worker_pool"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if silent else None,
            env={**same_modules(), **one_thread},
        )

    def submit(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Start a call; `result` waits for its end."""
        try:
            pickle.dump((function, arguments), self.process.stdin, pickle.HIGHEST_PROTOCOL)
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise self._died() from error

    def result(self) -> Any:
        """Return what the call returned; raise what it raised."""
        try:
            answer = pickle.load(self.process.stdout)  # noqa: S301 - from a process started here
        except (EOFError, pickle.UnpicklingError) as error:
            raise self._died() from error
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _died(self) -> WorkerDied:
        with contextlib.suppress(subprocess.TimeoutExpired):  # then it has no exit code yet
            self.process.wait(1.0)
        return WorkerDied(f"a worker process died (exit code {self.process.poll()})")

    def close(self) -> None:
        """End the process and close its pipes."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):  # what the dead process left unread
                pipe.close()


class WorkerGroup:
    """Workers that share `count` rows: worker k of n has the rows k, k + n, and so on."""

    def __init__(self, count: int, processes: int):
        self.count, self.shares = count, [slice(k, None, processes) for k in range(processes)]
        self.workers = [Worker(silent=k > 0) for k in range(processes)]  # one shows warnings

    def call(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call the function in every worker at the same time, each with its own arguments."""
        for worker, own in zip(self.workers, arguments, strict=True):
            worker.submit(function, *own)
        return [worker.result() for worker in self.workers]

    def gather(self, answers: Sequence[Sequence[npt.NDArray[Any]]]) -> list[npt.NDArray[Any]]:
        """Join the arrays that the workers returned for their rows."""
        joined = [np.empty((self.count, *part.shape[1:]), part.dtype) for part in answers[0]]
        for share, answer in zip(self.shares, answers, strict=True):
            for array, part in zip(joined, answer, strict=True):
                array[share] = part
        return joined

    def close(self) -> None:
        """End the processes."""
        for worker in self.workers:
            worker.close()


class WorkerPool:
    """Workers that share calls; they live as long as the `with` block."""

    def __init__(self, processes: int):
        self._workers = [Worker() for _ in range(processes)]
        self._idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(processes)
        self.capacity = QUEUED * processes  # calls in flight that keep every worker busy

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self._workers:
            worker.process.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.close()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Call the function in the next idle worker."""
        return self._threads.submit(self._call, function, *arguments)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        worker = self._idle.get()
        try:
            worker.submit(function, *arguments)
            return worker.result()
        finally:
            self._idle.put(worker)


def serve() -> None:
    """Answer each (function, arguments) from standard input until it ends; the work of a worker."""
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for the parent; the pipe ends with it
        signal.signal(number, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keeps what a simulator prints out of the answers
    with contextlib.suppress(BadInput):  # MuJoCo writes its warnings to the current folder
        package("mujoco", "mujoco").set_mju_user_warning(lambda message: None)
    while True:
        try:
            function, arguments = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the parent process
        except EOFError:
            return
        try:
            answer = function(*arguments)
        except Exception as error:  # noqa: BLE001 - the parent raises it
            answer = error
        try:
            answers.write(_packed(answer))
            answers.flush()
        except BrokenPipeError:  # the parent is gone
            os._exit(0)


def _packed(answer: Any) -> bytes:
    """Pickle an answer; an error that cannot be sent is replaced by its text."""
    try:
        content = pickle.dumps(answer, protocol=pickle.HIGHEST_PROTOCOL)
        if isinstance(answer, Exception):
            pickle.loads(content)  # noqa: S301 - pickled in the line above
        return content
    except Exception:  # noqa: BLE001 - pickling fails in many ways
        return pickle.dumps(RuntimeError(repr(answer)))


if __name__ == "__main__":
    serve()
