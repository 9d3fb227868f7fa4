"""Which column of a file is what: as the user says, by our own names, or by names in common use."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from bfq.data.defects import refuse
from bfq.errors import BadInput, unknown

MATRICES = ("observations", "actions", "next_observations")
MOST = 20  # columns that a sentence names
NONE = "none"  # after =, says that the file has no such column
# The first name of each is ours; the others are common elsewhere.
NAMES: dict[str, tuple[str, ...]] = {
    "observations": ("observations", "observation", "obs", "states", "state"),
    "actions": ("actions", "action", "acts", "act"),
    "rewards": ("rewards", "reward", "rews", "rew"),
    "next_observations": (
        "next_observations", "next_observation", "next_obs", "new_obs", "obs_next", "next_states",
        "next_state", "new_states", "new_state",
    ),
    "terminals": ("terminals", "terminal", "terminated", "terminateds", "terminations", "termination"),
    "timeouts": ("timeouts", "timeout", "truncated", "truncations", "truncation", "truncateds"),
    "dones": ("dones", "done"),
    "episode_ids": (
        "episode_ids", "episode_id", "episodes", "episode", "trajectory_ids", "trajectory_id", "trajectory",
        "traj_id", "traj", "eps_id",
    ),
    "episode_lengths": ("episode_lengths", "trajectory_lengths", "path_lengths", "traj_lengths"),
    "episode_starts": ("episode_starts", "episode_start", "is_first"),
}  # fmt: skip
NEEDED = ("observations", "actions", "rewards")
Theirs = str | Sequence[str]


@dataclass(frozen=True)
class Chosen:
    """The columns to read for each of our words, and what was recognized without being told."""

    columns: dict[str, tuple[str, ...]]
    notes: tuple[str, ...] = ()


def choose(file: str, names: Sequence[str], mapping: Mapping[str, Theirs] | None = None) -> Chosen:
    """Finds our columns among a file's names; the mapping goes first, then our names, then common ones."""
    _named_once(names)
    told = _ours(mapping or {})
    columns = {word: _told(word, theirs, names) for word, theirs in told.items() if theirs != NONE}
    taken = {name for chosen in columns.values() for name in chosen}
    free = [name for name in names if name not in taken]
    recognized = []
    for word in NAMES:
        found = _recognized(word, free) if word not in told else ()
        if found:
            columns[word] = found
            if found[0] not in (word, f"{word}_0"):
                recognized.append(f"{_short(found)} as {word}")
    for word in NEEDED:
        if word not in columns:
            raise refuse("missing-column", f"{file} has no {word}: it holds {_listed(names)}")
    _used_once(columns)
    notes = (f"Took {', '.join(recognized)}, by their names.",) if recognized else ()
    return Chosen(columns, notes)


def _ours(mapping: Mapping[str, Theirs]) -> dict[str, Theirs]:
    """The mapping with our own word on the left, where a common name may stand for it."""
    told: dict[str, Theirs] = {}
    for given, theirs in mapping.items():
        word = next((word for word, synonyms in NAMES.items() if given in synonyms), None)
        if word is None:
            raise unknown("name before = in the mapping", given, NAMES)
        if word in told:
            raise BadInput(f"the mapping names {word} twice, for {given} stands for them as well.")
        told[word] = theirs
    return told


def _told(word: str, theirs: Theirs, names: Sequence[str]) -> tuple[str, ...]:
    """A column's name, a prefix of numbered columns, or several of these joined by +."""
    if isinstance(theirs, str) and theirs in names:
        return (theirs,)
    parts = theirs.split("+") if isinstance(theirs, str) else list(theirs)
    found: list[str] = []
    for part in parts:
        exact = (part,) if part in names else _numbered(part, names)
        if not exact:
            raise _unknown_column(part, names)
        found.extend(exact)
    if len(found) > 1 and word not in MATRICES:
        several = ", ".join(found[:5])
        raise refuse("ambiguous-columns", f"{word} are one column, but {several} are {len(found)}")
    return tuple(found)


def _unknown_column(part: str, names: Sequence[str]) -> BadInput:
    """Says what there is instead, and what a prefix is where one was meant."""
    begun = [name for name in names if part and name.startswith(part)]
    if len(begun) > 1:
        return refuse(
            "unknown-column",
            f"no column is called {part!r}, and a prefix stands for numbered columns only (such as obs_0, "
            f"obs_1), while {_listed(begun)} begin so, which can be joined by + ({begun[0]}+{begun[1]})",
        )
    near = get_close_matches(part, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}" if near else f"there are: {_listed(names)}"
    return refuse("unknown-column", f"unknown column {part!r}: {hint}")


def _recognized(word: str, names: Sequence[str]) -> tuple[str, ...]:
    """The column that has one of the names of a word; our own name goes before the others."""
    lower = {name.strip().lower(): name for name in reversed(names) if name}
    found = []
    for synonym in NAMES[word]:
        exact = (lower[synonym],) if synonym in lower else ()
        numbered = _numbered(synonym, list(lower)) if word in MATRICES and not exact else ()
        several = exact or tuple(lower[name] for name in numbered)
        if several and synonym == word:
            return several
        if several:
            found.append(several)
    if len(found) > 1:
        told = " and ".join(_short(several) for several in found)
        raise refuse("ambiguous-columns", f"{told} could all be {word}")
    return found[0] if found else ()


def _numbered(prefix: str, names: Sequence[str]) -> tuple[str, ...]:
    """The columns prefix0, prefix1, … (or prefix_0, prefix[0], …) in the order of their numbers."""
    pattern = re.compile(rf"{re.escape(prefix)}[_.\[ ]?(\d{{1,6}})\]?")
    matches = [(int(match[1]), name) for name in names if (match := pattern.fullmatch(name))]
    numbers = [number for number, _ in sorted(matches)]
    if not numbers:
        return ()
    expected = list(range(numbers[0], numbers[0] + len(numbers)))
    if len(set(numbers)) < len(numbers):
        raise refuse("column-twice", f"two of the columns {prefix}… have the same number")
    if numbers != expected or numbers[0] > 1:
        gap = (
            0
            if numbers[0] > 1
            else next(n for n, m in zip(expected, numbers, strict=True) if n != m)
        )
        raise refuse("columns-with-gaps", f"among the columns {prefix}… number {gap} is missing")
    return tuple(name for _, name in sorted(matches))


def _short(columns: Sequence[str]) -> str:
    return columns[0] if len(columns) == 1 else f"{columns[0]} to {columns[-1]}"


def _listed(names: Sequence[str]) -> str:
    """The names in the order of the file, with a sign where not all are told."""
    held = [name for name in names if name]
    more = f" and {len(held) - MOST} more" if len(held) > MOST else ""
    return f"{', '.join(held[:MOST])}{more}" if held else "nothing"


def _named_once(names: Sequence[str]) -> None:
    """Refuses a name that stands twice before anything else, for no other word about columns can be sure."""
    for name, count in Counter(filter(None, names)).items():
        if count > 1:
            raise refuse("column-twice", f"several columns have the name {name}")


def _used_once(columns: Mapping[str, Sequence[str]]) -> None:
    uses: dict[str, str] = {}
    for word, chosen in columns.items():
        for name in chosen:
            if name in uses:
                raise refuse(
                    "column-twice", f"the column {name} is used for {uses[name]} and for {word}"
                )
            uses[name] = word
