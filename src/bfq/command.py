"""How every command ends: what cannot be used is told in one sentence, with an exit code and no traceback."""

import argparse
import errno
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from bfq.errors import BadInput, DiskTrouble

TOO_LARGE = "RESOURCE_EXHAUSTED"  # how XLA's message begins where memory is short
NO_NAMES = (
    errno.ENAMETOOLONG,
    errno.ELOOP,
)  # what is wrong with a name, wherever it is first looked at


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are one sentence, and that takes no abbreviated words."""

    def __init__(self, **settings: Any):
        super().__init__(allow_abbrev=False, **settings)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuses unknown words where they stand: left over, they would be the complaint of `bfq` itself."""
        found, strange = super().parse_known_args(args, namespace)
        if strange:
            self.error(f"unrecognized arguments: {' '.join(strange)}")
        return found, strange

    def error(self, message: str) -> NoReturn:
        """Says what is wrong in place of printing the usage."""
        raise BadInput(f"{message}; see `{self.prog} --help`.")


def exit_code(work: Callable[[], int | None]) -> int:
    """What the work returns; 2 if something given cannot be used, 1 if disk or memory are too small."""
    try:
        return work() or 0
    except BadInput as trouble:
        return _told(str(trouble), 2)
    except DiskTrouble as trouble:
        return _told(str(trouble), 1)
    except OSError as trouble:
        if trouble.errno not in NO_NAMES:
            raise
        return _told(f"{_short(str(trouble.filename))} cannot name a file: {trouble.strerror}.", 2)
    except MemoryError as trouble:
        return _too_large(trouble)
    except RuntimeError as trouble:  # XLA's own kind, which is not imported for this alone
        if TOO_LARGE not in str(trouble):
            raise
        return _too_large(trouble)


def _too_large(trouble: BaseException) -> int:
    what = " ".join(str(trouble).split())[:200]
    return _told(
        f"the memory is too small for this: fewer members, smaller batches or networks ({what}).", 1
    )


def _short(name: str, most: int = 80) -> str:
    """The name, or its beginning if it is too long to be read."""
    return name if len(name) <= most else f"{name[:most]}…"


def _told(sentence: str, code: int) -> int:
    print(f"bfq: {sentence}", file=sys.stderr)
    return code
