"""Names and units of columns: `temp [degC]`, `temp (degC)` and `temp_degC` in a header, or as the user says."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bfq.data.cells import Cells, read_cells
from bfq.data.dataset import Arrays, Columns
from bfq.data.readers import Table
from bfq.errors import unknown
from bfq.records import Labels, Quantity

# A name and a unit, which holds more than digits: obs[3] has none.
BRACKETS = re.compile(r"(.*\S)\s*[\[(]\s*([^\[\]()]*[^\[\]()\d\s][^\[\]()]*?)\s*[\])]")
# Endings that hardly mean anything else; the name keeps them.
ENDING = re.compile(r".+_(degC|degF|kW|kWh|Wh|Pa|hPa|kPa|bar|rpm|Hz|ppm|lux)")
NONE = "none"  # after =: the column has no unit


def split_units(
    table: Table, given: Mapping[str, str] | None = None
) -> tuple[Table, dict[str, str], dict[str, str]]:
    """The table with names without units, the short name of each column, and units by short name."""
    found = {name: match for name in table.names if (match := BRACKETS.fullmatch(name))}
    shorts = [found[name][1] if name in found else name for name in table.names]
    short = {
        full: one if shorts.count(one) == 1 else full
        for full, one in zip(table.names, shorts, strict=True)
    }
    full = {one: name for name, one in short.items()}
    units = {short[name]: match[2] for name, match in found.items() if short[name] != name}
    units |= {name: match[1] for name in full if (match := ENDING.fullmatch(name))}
    for name, unit in (given or {}).items():
        if short.get(name, name) not in full:
            raise unknown("column in units", name, full)
        units[short.get(name, name)] = unit

    def read(names: Sequence[str]) -> Arrays:
        arrays = table.read([full[name] for name in names])
        return {name: arrays[full[name]] for name in names if full[name] in arrays}

    def cells(names: Sequence[str]) -> Cells:
        found = read_cells(table, [full[name] for name in names])
        return found._replace(columns={name: found.columns[full[name]] for name in names})

    kept = {name: unit for name, unit in units.items() if unit != NONE}
    return Table([short[name] for name in table.names], read, table.by_column, cells), short, kept


def without_units(theirs: Any, short: Mapping[str, str]) -> Any:
    """What the user names a column, with short names for those of the header."""
    if not isinstance(theirs, str):
        return theirs if callable(theirs) else [short.get(part, part) for part in theirs]
    return short.get(theirs) or "+".join(short.get(part, part) for part in theirs.split("+"))


def label_columns(
    chosen: Mapping[str, Sequence[str] | Callable[[Any], Any]],
    found: Columns,
    units: Mapping[str, str],
    categories: Mapping[str, Sequence[str]],
    by_column: bool,
) -> Labels | None:
    """The labels of observations and actions; None for matrices, and where a function computes them."""

    def labels(word: str) -> list[Quantity]:
        columns = chosen[word]
        assert not callable(columns)
        return [
            Quantity(_printable(name + ending), _printable(units.get(name, "")))
            for name in columns
            for ending in _endings(name, found, categories)
        ]

    parts = [chosen[word] for word in ("observations", "actions")]
    names = [name for part in parts if not callable(part) for name in part]
    if any(map(callable, parts)) or not (
        by_column or all(n in categories or found[n].ndim == 1 for n in names)
    ):
        return None
    kept = {_printable(name): list(values) for name, values in categories.items()}
    return Labels(labels("observations"), labels("actions"), kept)


def _endings(name: str, found: Columns, categories: Mapping[str, Sequence[str]]) -> list[str]:
    """What follows the name of a column in the names of its numbers."""
    if name in categories:
        return [f"={value}" for value in categories[name]]
    width = int(np.prod(found[name].shape[1:], dtype=int))
    return [""] if found[name].ndim == 1 else [f"_{k}" for k in range(width)]


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "_" for c in text)[:200]
