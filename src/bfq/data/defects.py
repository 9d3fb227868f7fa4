"""Known defects of logged data, by name, each with its meaning and a remedy.

A refused defect raises BadInput; a noted one is printed and the data is used as it is. Either message ends
with the name of the defect in brackets. `tools/data_checks_page.py` turns this table into a page.
"""

import re
from dataclasses import dataclass

from bfq.errors import BadInput

# The command with these flags; a file can be read by others too.
IMPORT = "bfq data import FILE --as NAME"
MAP = f"{IMPORT} --map"
RANGE = f"{IMPORT} --action-low … --action-high …"


@dataclass(frozen=True)
class Defect:
    """A way in which data is wrong or looks wrong."""

    about: str
    remedy: str
    refused: bool


def _refused(about: str, remedy: str) -> Defect:
    return Defect(about, remedy, refused=True)


def _noted(about: str, remedy: str) -> Defect:
    return Defect(about, remedy, refused=False)


DEFECTS: dict[str, Defect] = {
    # the file
    "empty-file": _refused("the file has no content", "write or copy it again"),
    "unreadable-file": _refused("the file is damaged or is not what its suffix says", "write or copy it again"),
    "unknown-format": _refused(
        "files with this suffix are not supported",
        "save it as .npz, .csv, .csv.gz, .parquet, .hdf5 or .h5",
    ),
    "wrong-ending": _refused("the content has another format than the suffix says", "rename the file"),
    "pickled-objects": _refused(
        "the file holds pickled Python objects, which could run code when loaded",
        "save plain arrays of numbers instead",
    ),
    # its columns
    "no-header": _refused(
        "the first line of a CSV file holds no names", "put the names of the columns in the first line"
    ),
    "missing-column": _refused(
        "observations, actions or rewards are not found",
        f"name the columns with {MAP} observations=…,actions=…,rewards=… (in Python, mapping)",
    ),
    "unknown-column": _refused("a column named by --map does not exist", "correct the name after ="),
    "ambiguous-columns": _refused(
        "several columns could have the same meaning", f"choose one with {MAP} … (in Python, mapping)"
    ),
    "column-twice": _refused(
        "one column is used twice, or two columns have the same name",
        "give every column its own name and use",
    ),
    "columns-with-gaps": _refused(
        "a numbered column is missing", "add the missing column or number them without a gap"
    ),
    # its cells
    "empty-cell": _refused("a value is missing", "fill the cell or remove the row"),
    "text": _refused("text where numbers are needed", "write numbers, or map another column"),
    "decimal-comma": _refused("numbers have a decimal comma", "write 1.5, not 1,5"),
    "ragged-row": _refused("a line has more or fewer cells than the first", "repair or remove the line"),
    # the arrays
    "not-numbers": _refused("values are neither numbers nor booleans", "convert them to float32 first"),
    "complex-numbers": _refused(
        "values are complex numbers", "give the real and the imaginary part as separate columns"
    ),
    "masked-array": _refused("an array is masked, and its mask would be lost", "fill it first"),
    "mixed-widths": _refused(
        "rows of one column differ in length, or observations and next observations do",
        "give every row the same number of values",
    ),
    "images": _refused(
        "an observation is an image or another array, not a row of numbers",
        "flatten each row first, or turn images into a few features",
    ),
    "wrong-shape": _refused(
        "a column does not have one row (or one number) per transition",
        "reshape observations and actions to (N, dimension) and everything else to (N,)",
    ),
    "different-lengths": _refused(
        "the columns differ in length", "give each column one row per transition"
    ),
    "no-rows": _refused("there is no transition", "at least one row is needed"),
    "nan": _refused("a value is not a number (NaN)", "remove or repair these transitions"),
    "infinite": _refused("a value is infinite", "remove or repair these transitions"),
    "beyond-float32": _refused(
        "a value is too large for float32", "scale the column down or repair these transitions"
    ),
    "not-a-flag": _refused(
        "a flag is neither 0 nor 1", "set it to 1 where an episode ends (or starts) and to 0 elsewhere"
    ),
    "action-beyond-range": _refused(
        "an action lies outside the given range",
        f"give the true range as action_low and action_high ({RANGE}), or clip them",
    ),
    # episodes and next observations
    "no-episode-end": _refused(
        "no column says where episodes end",
        "add terminals or timeouts (one flag per row), episode_ids, episode_lengths or next_observations, so "
        "that rows of different episodes are not joined",
    ),
    "lengths-do-not-sum": _refused(
        "episode lengths do not add up to the number of rows",
        "give the number of rows of every episode, in order",
    ),
    "episode-id-comes-back": _refused(
        "the rows of an episode are not together",
        "sort the rows by episode and give every episode its own id",
    ),
    "no-transition-left": _refused(
        "every row ends an episode and its next observation was not logged", "give next_observations"
    ),
    "next-not-shifted": _refused(
        "next observations are the observations of the same row",
        f"give the observation after the action, or leave them out ({MAP} next_observations=none)",
    ),
    "next-shifted-wrongly": _refused(
        "next observations belong to another row than the next one",
        f"give the observation after the action, or leave them out ({MAP} next_observations=none)",
    ),
    # suspicious
    "unseen-successor": _noted(
        "the observation after a time-out was not logged, so that row is not a transition",
        "log one more observation per episode, as next_observations",
    ),
    "no-end-marked": _noted(
        "no row is marked as an episode end, so all rows count as one episode",
        "mark the ends if there are several episodes",
    ),
    "rows-not-in-order": _noted(
        "inside an episode, the next observation is not that of the row below",
        "mark the ends of episodes if they are missing; if the rows are shuffled, only returns are lost",
    ),
    "next-from-another-episode": _noted(
        "after a time-out the next observation is the first one of the next episode",
        f"if the environment was reset there, it did not follow: leave next observations out ({MAP} "
        "next_observations=none), and bfq drops these rows",
    ),
    "terminals-at-time-limit": _noted(
        "many episodes end in a terminal at exactly the longest length",
        f"if they were only cut off there, mark those rows as timeouts, not as terminals ({MAP} timeouts=…)",
    ),
    "both-flags": _noted(
        "time-outs are marked as terminals too, and count as terminals",
        f"if the flag means any end, give it as dones ({MAP} dones=…)",
    ),
    "terminals-everywhere": _noted(
        "most rows are terminal, so hardly any action has a future",
        "if the flag is 1 where an episode continues, invert it",
    ),
    "terminal-inside-episode": _noted(
        "a terminal is marked before the last row of its episode and ends it there",
        "mark only the last row if the episode continued",
    ),
    "one-row-episodes": _noted(
        "episodes of a single row",
        "if the episode continued before such a row, do not mark the row above as an end",
    ),
    "rewards-are-returns": _noted(
        "rewards add up within each episode, as returns do",
        "if they are returns, give the reward of each step (the difference between rows)",
    ),
    "constant-rewards": _noted("all rewards are the same", "only imitation can be learned from them"),
    "constant-observations": _noted("a part of the observation never changes", "leave it out if you like"),
    "constant-actions": _noted("a part of the action never changes", "leave it out if you like"),
    "step-counter": _noted(
        "a part of the observation only counts the steps",
        "leave it out unless the policy will receive it too",
    ),
    "lost-precision": _noted(
        "numbers are so large that float32 rounds their changes away",
        "subtract a constant, such as the first value, before logging them",
    ),
    "outlier": _noted(
        "a few values are very far from all others", "repair or remove these rows if the value is wrong"
    ),
    "narrow-actions": _noted(
        "actions use a small part of their range",
        f"give the true range as action_low and action_high ({RANGE})",
    ),
    "discrete-actions": _noted(
        "actions are whole numbers from 0 up, like numbered choices",
        "if they are choices and not quantities, give each choice its own 0/1 column",
    ),
    "copied-rows": _noted(
        "stretches of rows appear twice", "remove the copy if a log was joined to itself"
    ),
}  # fmt: skip


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
