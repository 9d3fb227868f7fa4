"""A crew of processes that make blocks of episodes."""

import queue
from concurrent.futures import Future, ThreadPoolExecutor

from bfq.envs.crew import Helper
from bfq.tasks.log import Block, Log

AHEAD = 2  # blocks asked for, a process


class Crew:
    """Processes that live as long as the `with` block."""

    def __init__(self, processes: int):
        self._members = [Helper() for _ in range(processes)]
        self._idle: queue.SimpleQueue[Helper] = queue.SimpleQueue()
        for member in self._members:
            self._idle.put(member)
        self._threads = ThreadPoolExecutor(processes)

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *trouble: object) -> None:
        for member in self._members:
            member.kill()
        self._threads.shutdown(cancel_futures=True)
        for member in self._members:
            member.close()

    @property
    def room(self) -> int:
        """Blocks that should be under way, so that no process waits for another."""
        return AHEAD * len(self._members)

    def ask(self, block: Block, seed: int, index: int) -> Future[Log]:
        """The block, some time later."""
        return self._threads.submit(self._ask, block, seed, index)

    def _ask(self, block: Block, seed: int, index: int) -> Log:
        member = self._idle.get()
        try:
            member.tell(block, seed, index)
            log: Log = member.answer()
        finally:
            self._idle.put(member)
        return log
