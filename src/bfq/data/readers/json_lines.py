"""JSON files: one object per row, or the sample batches that RLlib writes.

The pieces of RLlib's episodes are sorted by episode and step, since its workers write them in any order.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.data.cells import Cells
from bfq.data.checks import as_array
from bfq.data.dataset import Arrays
from bfq.data.defects import refuse
from bfq.data.readers import Table, parsing
from bfq.errors import BadInput
from bfq.records import decode

Objects = list[dict[str, Any]]
EPISODE, STEP = "eps_id", "t"


@contextmanager
def open_json(path: Path) -> Iterator[Table]:
    """The columns of JSON lines, of a list of objects, or of RLlib's batches."""
    with parsing(path, "JSON"):
        content = path.read_bytes().removeprefix(b"\xef\xbb\xbf").strip()
        if content.startswith(b"["):
            objects = decode(content, Objects, path.name)
        else:
            objects = [
                decode(line, dict[str, Any], f"line {number} of {path.name}")
                for number, line in enumerate(content.splitlines(), 1)
                if line.strip()
            ]
        if not objects:
            raise refuse("no-rows", f"there is no object in {path.name}")
        batches = list(_batches(objects, path.name))
        yield _join(batches) if batches else _rows(objects)


def _rows(rows: Objects) -> Table:
    """One object per row, all with the same names."""

    def column(name: str) -> npt.NDArray[Any]:
        values: list[Any] = [row.get(name) for row in rows]
        if None in values:
            found = f"row {values.index(None)} (counted from 0) has no value for {name}"
            raise refuse("empty-cell", found)
        return as_array(name, values)

    def cell(name: str) -> npt.NDArray[Any]:
        if any(isinstance(row.get(name), list) for row in rows):
            return column(name)
        return np.array([row.get(name) for row in rows], object)

    return Table(
        list(rows[0]),
        lambda names: {name: column(name) for name in names},
        by_column=True,
        cells=lambda names: Cells({name: cell(name) for name in names}),
    )


def _batches(objects: Objects, file: str) -> Iterator[dict[str, Any]]:
    """The columns of each batch of RLlib, if these are batches."""
    for one in objects:
        if one.get("type") == "SampleBatch":
            yield one
        elif one.get("type") == "MultiAgentBatch":
            policies = one["policy_batches"]
            if len(policies) != 1:
                listed = ", ".join(policies)
                raise BadInput(
                    f"{file} has batches of several policies ({listed}): write those of one policy."
                )
            yield from policies.values()


def _join(batches: Objects) -> Table:
    def join(name: str) -> npt.NDArray[Any]:
        if any(isinstance(batch[name], str) for batch in batches):
            found = f"RLlib packed the column {name} as a pickle (set compress_columns to [])"
            raise refuse("pickled-objects", found)
        return as_array(name, [value for batch in batches for value in batch[name]])

    def read(names: Sequence[str]) -> Arrays:
        if EPISODE not in held:
            return {name: join(name) for name in names}
        _, episodes = np.unique(join(EPISODE), return_inverse=True)
        order = np.lexsort((join(STEP) if STEP in held else np.arange(len(episodes)), episodes))
        return {name: join(name)[order] for name in names}

    shared = set.intersection(*map(set, batches))
    held = [name for name in batches[0] if name in shared and name not in ("type", "count")]
    return Table(held, read, by_column=True)
