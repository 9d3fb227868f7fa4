"""Everything that is known to go wrong with logged data, by name, with what to do about it.

A refused defect raises; a noted one is told and the data is used as it is. Either way the sentence ends in
the defect's name in brackets, so that it can be looked up.
"""

import re
from dataclasses import dataclass

from bfq.errors import BadInput

# The one verb that has these flags, for a file may be read by any.
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
    "unreadable-file": _refused("the file is torn or is not what its ending says", "write or copy it again"),
    "unknown-format": _refused(
        "the file's ending is none that is read",
        "save it as .npz, .csv, .csv.gz, .parquet, .hdf5 or .h5",
    ),
    "wrong-ending": _refused("the content is of another format than the ending", "rename the file"),
    "pickled-objects": _refused(
        "the file holds pickled Python objects, which could run anything when loaded",
        "save plain arrays of numbers instead",
    ),
    # its columns
    "no-header": _refused(
        "the first line of a CSV file holds no names", "put the names of the columns into the first line"
    ),
    "missing-column": _refused(
        "observations, actions or rewards are not found",
        f"say which columns they are with {MAP} observations=…,actions=…,rewards=… (in Python, mapping)",
    ),
    "unknown-column": _refused("a column named by --map does not exist", "correct the name after ="),
    "ambiguous-columns": _refused(
        "several columns could be the same thing", f"say which one is meant with {MAP} … (in Python, mapping)"
    ),
    "column-twice": _refused(
        "one column is used for two things, or two columns have one name",
        "give every column a name and a use of its own",
    ),
    "columns-with-gaps": _refused(
        "numbered columns leave out a number", "add the missing column or number them without a gap"
    ),
    # its cells
    "empty-cell": _refused("a value is missing", "fill the cell or remove the whole row"),
    "text": _refused("there are words where numbers are needed", "write numbers, or map another column"),
    "decimal-comma": _refused("numbers have a comma for a decimal point", "write 1.5, not 1,5"),
    "ragged-row": _refused("a line has more or fewer cells than the first", "repair or remove the line"),
    # the arrays
    "not-numbers": _refused("values are neither numbers nor truth values", "convert them to float32 first"),
    "complex-numbers": _refused(
        "values are complex numbers", "give the real and the imaginary part as columns of their own"
    ),
    "masked-array": _refused("an array is masked, and its mask would be lost", "fill it first"),
    "mixed-widths": _refused(
        "rows of one column differ in length, or observations and next observations do",
        "give every row the same number of values",
    ),
    "images": _refused(
        "an observation is a picture or another array, not a row of numbers",
        "flatten each row first, or turn pictures into a few features",
    ),
    "wrong-shape": _refused(
        "a column does not have one row (or one number) a transition",
        "bring observations and actions to (N, dimension) and all else to (N,)",
    ),
    "different-lengths": _refused(
        "the columns differ in length", "give every transition one row in each column"
    ),
    "no-rows": _refused("there is no transition", "at least one row is needed"),
    "nan": _refused("a value is not a number (NaN)", "remove or repair these transitions"),
    "infinite": _refused("a value is infinite", "remove or repair these transitions"),
    "beyond-float32": _refused(
        "a value is larger than float32 can hold", "scale the column down or repair these transitions"
    ),
    "not-a-flag": _refused(
        "a flag is neither 0 nor 1", "make it 1 where an episode ends (or starts) and 0 elsewhere"
    ),
    "action-beyond-range": _refused(
        "an action lies outside the given range",
        f"give the true range as action_low and action_high ({RANGE}), or clip them",
    ),
    # episodes and next observations
    "no-episode-end": _refused(
        "nothing says where episodes end",
        "add terminals or timeouts (one flag a row), episode_ids, episode_lengths or next_observations, so "
        "that rows of different episodes are not joined",
    ),
    "lengths-do-not-sum": _refused(
        "episode lengths do not add up to the number of rows",
        "give the number of rows of every episode, in order",
    ),
    "episode-id-comes-back": _refused(
        "an episode's rows are not together",
        "sort the rows by episode, and give every episode an id of its own",
    ),
    "no-transition-left": _refused(
        "every row ends an episode and its next observation was not logged", "give next_observations"
    ),
    "next-not-shifted": _refused(
        "next observations are the same row's observations again",
        f"give the observation after the action, or leave them out ({MAP} next_observations=none)",
    ),
    "next-shifted-wrongly": _refused(
        "next observations are those of another row than the one after",
        f"give the observation after the action, or leave them out ({MAP} next_observations=none)",
    ),
    # suspicious, and told
    "unseen-successor": _noted(
        "the observation after a time-out was not logged, so that row is no transition",
        "log one observation more in each episode, as next_observations",
    ),
    "no-end-marked": _noted(
        "no row is marked as an episode's end, so all rows are taken as one episode",
        "mark the ends if there are several episodes",
    ),
    "rows-not-in-order": _noted(
        "the next observation is not that of the row below, inside an episode",
        "mark the ends of episodes if they are missing; if the rows are shuffled, only returns are lost",
    ),
    "next-from-another-episode": _noted(
        "after a time-out the next observation is the first one of the next episode",
        f"if the world was reset there, it did not follow: leave next observations out ({MAP} "
        "next_observations=none), and bfq leaves out these rows",
    ),
    "terminals-at-time-limit": _noted(
        "many episodes end in a terminal after exactly the longest length there is",
        f"if they were only cut off there, mark those rows as timeouts, not terminals ({MAP} timeouts=…)",
    ),
    "both-flags": _noted(
        "time-outs are marked as terminals too, and count as terminals",
        f"if the flag means any end, give it as dones ({MAP} dones=…)",
    ),
    "terminals-everywhere": _noted(
        "most rows are terminal, so hardly any action has a future",
        "if the flag is 1 where an episode goes on, turn it round",
    ),
    "terminal-inside-episode": _noted(
        "a terminal is marked before the last row of its episode, and ends it there",
        "mark only the last row if the episode went on",
    ),
    "one-row-episodes": _noted(
        "episodes of a single row",
        "if the log went on before such a row, do not mark the row before it as an end",
    ),
    "rewards-are-returns": _noted(
        "rewards add up within each episode, as returns do",
        "if they are returns, give the reward of each step, the difference between rows",
    ),
    "constant-rewards": _noted("all rewards are the same", "only imitation can be learned from them"),
    "constant-observations": _noted("a part of the observation never changes", "leave it out if you like"),
    "constant-actions": _noted("a part of the action never changes", "leave it out if you like"),
    "step-counter": _noted(
        "a part of the observation only counts the steps",
        "leave it out unless the policy will be told it too",
    ),
    "lost-precision": _noted(
        "numbers so large beside their changes that float32 rounds the changes away",
        "subtract a constant, such as the first value, before logging them",
    ),
    "outlier": _noted(
        "a few values lie very far from all others", "repair or remove these rows if the value is not genuine"
    ),
    "narrow-actions": _noted(
        "actions use a small part of their range",
        f"give the true range as action_low and action_high ({RANGE})",
    ),
    "discrete-actions": _noted(
        "actions are whole numbers from 0 up, as numbered choices are",
        "if they are choices and no quantities, give each choice a 0/1 column of its own",
    ),
    "copied-rows": _noted(
        "stretches of rows are there twice", "remove the copy if a log was joined to itself"
    ),
}  # fmt: skip


def refuse(name: str, finding: str) -> BadInput:
    """The exception for a refused defect: what was found, with the row, and the remedy."""
    if not DEFECTS[name].refused:
        raise KeyError(name)
    return BadInput(f"{finding}: {DEFECTS[name].remedy}. [{name}]")


def note(name: str, finding: str) -> str:
    """The sentence for a noted defect."""
    if DEFECTS[name].refused:
        raise KeyError(name)
    return f"{finding}: {DEFECTS[name].remedy}. [{name}]"


def name_of(sentence: str | BadInput) -> str | None:
    """The defect a sentence is about, if it is about one."""
    found = re.search(r"\[([a-z0-9-]+)\]$", str(sentence))
    return found[1] if found and found[1] in DEFECTS else None
