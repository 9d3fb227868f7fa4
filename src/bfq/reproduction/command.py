"""How the commands of this package end: as `bfq` does, with one sentence and an exit code."""

import sys
from collections.abc import Callable

from bfq.errors import BadInput, DiskTrouble


def exit_code(work: Callable[[], None]) -> int:
    """Does the work; 2 if something given cannot be used, 1 if the disk refused a write."""
    try:
        work()
    except (BadInput, DiskTrouble) as trouble:
        print(f"bfq: {trouble}", file=sys.stderr)
        return 2 if isinstance(trouble, BadInput) else 1
    return 0
