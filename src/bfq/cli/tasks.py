"""`bfq tasks`: what can be trained on; one line a task, and all about one that is named."""

import argparse
import dataclasses
from typing import Any

from bfq.cli.words import show_json
from bfq.errors import BadInput

Card = dict[str, Any]
AT_HAND = ("yes", "made on the spot")
FAMILIES = {
    "locomotion": "Locomotion",
    "antmaze": "AntMaze",
    "ogbench": "OGBench",
    "adroit": "Adroit",
}
FIRST, OWN = "To begin with", "Your own data"
ORIGINS = {"local": "made here", "rerolled": "rolled out here from D4RL's policies"}
ENDING = """
All about one: bfq tasks NAME. Those with a word in their name: bfq tasks WORD.
Those whose data is here: bfq tasks --here. Your own data:
bfq train --task FILE (.npz, .csv, .parquet, .hdf5), or
bfq data import FILE --as NAME."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of the verb."""
    add = parser.add_argument
    add(
        "word",
        nargs="?",
        metavar="WORD",
        help="only tasks with this in their name; all about a single one",
    )
    add("--here", action="store_true", help="only tasks whose data is here, or is made on the spot")
    add("--json", action="store_true", help="print the task cards as JSON")


def run(args: argparse.Namespace) -> int:
    """Lists the task cards, or tells all about the only one."""
    chosen = _chosen(_cards(), args.word, args.here)
    if args.json:
        show_json(chosen)
    elif args.word and len(chosen) == 1:
        _tell(chosen[0])
    else:
        _list(chosen)
        if not args.word:
            print(ENDING)
    return 0


def _cards() -> list[Card]:
    """The cards of all tasks, and a name for each set of the user's own."""
    from bfq.tasks.catalog import TASKS
    from bfq.tasks.sources import availability, kept

    cards = [
        {**dataclasses.asdict(task), "data_here": availability(name)}
        for name, task in TASKS.items()
    ]
    return cards + [{"name": name, "data_here": "yes"} for name in kept() if name not in TASKS]


def _chosen(cards: list[Card], word: str | None, here: bool) -> list[Card]:
    """The card of that name, or else those with the word in their names."""
    exact = [card for card in cards if card["name"] == word]
    found = exact or [card for card in cards if (word or "").lower() in card["name"].lower()]
    if not found:
        raise BadInput(f"no task has {word!r} in its name: see `bfq tasks`.")
    return [card for card in found if card["data_here"] in AT_HAND or not here]


def _heading(card: Card) -> str:
    """The group that a card stands in: the kind of task, and whose data it is."""
    if "family" not in card:
        return OWN
    if card["family"] not in FAMILIES:
        return FIRST
    origin, slash, _ = card["name"].partition("/")
    return f"{FAMILIES[card['family']]}, {ORIGINS[origin] if slash else 'published'}"


def _list(cards: list[Card]) -> None:
    """One line a task, by groups."""
    from rich.console import Console

    from bfq.tasks.catalog import DEFAULT_TASK

    console = Console(highlight=False, markup=False, soft_wrap=True)
    groups: dict[str, list[Card]] = {}
    for card in cards:
        groups.setdefault(_heading(card), []).append(card)
    width = max((len(card["name"]) for card in cards), default=0)
    for heading, group in groups.items():
        console.print(heading, style="bold")
        for card in group:
            default = " (default)" if card["name"] == DEFAULT_TASK else ""
            console.print(f"  {card['name']:{width}}  {_short(card['data_here'])}{default}")
    if not cards:
        console.print("The data of none of them is here.")


def _short(availability: str) -> str:
    """Whether the data is here, in the room that a line has."""
    return availability.replace("can be made here with", "needs")


def _tell(card: Card) -> None:
    """One line a fact, long ones broken to the width of the terminal."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text  # so that bfq-rl[mujoco] is not read as markup

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for label, text in _facts(card):
        table.add_row(Text(label), Text(text))
    Console(highlight=False).print(table)


def _facts(card: Card) -> list[tuple[str, str]]:
    """All about a task, in the order of the questions one has."""
    name = card["name"]
    if "family" not in card:
        known = (
            ("look at it", f"bfq data inspect {name}"),
            ("train on it", f"bfq train --task {name}"),
        )
        return [("task", name), ("what it is", "data of your own"), *known]
    judged = f"{card['simulator']}, episodes of up to {card['episode_steps']:,} steps"
    return [
        ("task", name),
        ("what it is", card["about"]),
        ("data", card["data"]),
        ("data here", card["data_here"]),
        *_next(name, card["data_here"]),
        ("judged in", judged if card["simulator"] else "no simulator"),
        ("judged by", _score(card)),
        ("versions", card["version_rule"]),
        *([("install", f"pip install 'bfq-rl[{card['extra']}]'")] if card["extra"] else []),
        ("discount", f"{card['discount']:g}"),
        ("reward transform", card["reward_transform"]),
        ("presets of", card["presets"] or name),
    ]


def _next(name: str, availability: str) -> list[tuple[str, str]]:
    """What one does with it: get its data, or train on it."""
    from bfq.tasks.catalog import CHECKERBOARD
    from bfq.tasks.sources import instead, remedy

    if availability == "needs a file":
        other = instead(name)
        return [("to get it", remedy(name)), *([("or", other)] if other else [])]
    first = ", which makes its data first" if availability.startswith("can be made") else ""
    return [
        (
            "train on it",
            "bfq toy" if name == CHECKERBOARD.name else f"bfq train --task {name}{first}",
        )
    ]


def _score(card: Card) -> str:
    """What an episode is scored by, and between which returns a score is normalized."""
    reference = card["reference"]
    if reference is None:
        return str(card["metric"])
    ends = f"0 is {reference['low']:g}, 100 is {reference['high']:g} ({reference['source']})"
    return f"{card['metric']}; {ends}; {card['eval_episodes']} episodes a member"
