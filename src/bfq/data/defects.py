"""Known defects of logged data, by name, each with its meaning and a remedy.

A refused defect raises BadInput; a noted one is printed and the data is used as it is. Either message ends
with the name of the defect in brackets. `tools/data_checks_page.py` turns this table into a page.
"""

import re
import tomllib
from dataclasses import dataclass
from importlib.resources import files

from bfq.errors import BadInput

# The command with these flags; a file can be read by others too.
MAP = "bfq data import FILE --as NAME --map"
RANGE = "bfq data import FILE --as NAME --action-low … --action-high …"


@dataclass(frozen=True)
class Defect:
    """A way in which data is wrong or looks wrong."""

    about: str
    remedy: str
    refused: bool


def _read_table() -> dict[str, Defect]:
    table = tomllib.loads(files("bfq.data").joinpath("defects.toml").read_text("utf-8"))
    return {
        name: Defect(about, remedy.format(map=MAP, range=RANGE), kind == "refused")
        for kind, defects in table.items()
        for name, (about, remedy) in defects.items()
    }


DEFECTS = _read_table()


def refuse(name: str, finding: str) -> BadInput:
    """Return the exception for a refused defect: what was found, with the row, and the remedy."""
    if not DEFECTS[name].refused:
        raise KeyError(name)
    return BadInput(f"{finding}: {DEFECTS[name].remedy}. [{name}]")


def note(name: str, finding: str) -> str:
    """Return the sentence for a noted defect."""
    if DEFECTS[name].refused:
        raise KeyError(name)
    return f"{finding}: {DEFECTS[name].remedy}. [{name}]"


def name_of(sentence: str | BadInput) -> str | None:
    """Return the name of the defect that a sentence is about, if any."""
    found = re.search(r"\[([a-z0-9-]+)\]$", str(sentence))
    return found[1] if found and found[1] in DEFECTS else None
