"""Known defects of logged data, by name, each with its meaning and a remedy.

A refused defect raises BadInput; a noted one is printed and the data is used as it is. Either message ends
with the name of the defect in brackets. `tools/data_checks_page.py` turns this table into a page.
"""

import tomllib
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from bfq.errors import BadInput, counted

# The command with these flags; a file can be read by others too.
NAME_COLUMNS = "bfq data import FILE --as NAME --columns"
DROP = "--drop-bad-rows (in Python, drop_bad_rows=True)"
RANGE = "bfq data import FILE --as NAME --action-low … --action-high …"


@dataclass(frozen=True)
class Defect:
    """A way in which data is wrong or looks wrong."""

    about: str
    remedy: str


_TABLE = tomllib.loads(files("bfq.data").joinpath("defects.toml").read_text("utf-8"))
REFUSED, NOTED = (
    {
        name: Defect(about, remedy.format(columns=NAME_COLUMNS, drop=DROP, range=RANGE))
        for name, (about, remedy) in _TABLE[kind].items()
    }
    for kind in ("refused", "noted")
)


def refuse(name: str, finding: str) -> BadInput:
    """Return the exception for a refused defect: what was found, with the row, and the remedy."""
    return BadInput(f"{finding}: {REFUSED[name].remedy}. [{name}]")


def note(name: str, finding: str) -> str:
    """Return the sentence for a noted defect."""
    return f"{finding}: {NOTED[name].remedy}. [{name}]"


def describe_rows(which: npt.NDArray[np.bool_]) -> str:
    """The first of some rows, and how many there are."""
    return f"row {int(which.argmax())} ({counted(int(which.sum()), 'row')} in all, counted from 0)"


def count_rows(rows: npt.NDArray[np.intp], size: int, noun: str) -> str:
    """How many of something these rows are, and the first of them."""
    return f"{len(rows):,} of {size:,} {noun} (first: row {rows[0]})"
