"""`bfq tasks`: list the tasks, or describe one."""

import argparse
import dataclasses
from typing import Any

from bfq.cli.words import show_json, show_table
from bfq.errors import BadInput

Card = dict[str, Any]
AVAILABLE = ("yes", "generated in seconds")
FAMILIES = {
    "locomotion": "Locomotion",
    "antmaze": "AntMaze",
    "ogbench": "OGBench",
    "adroit": "Adroit",
}
SMALL, OWN = "Small tasks to start with", "Your own data"
ORIGINS = {"local": "generated locally", "rerolled": "rolled out locally from D4RL's policies"}
ENDING = """
Describe a task: bfq tasks NAME. Filter by name: bfq tasks WORD.
Only tasks with data on this machine: bfq tasks --here.
Your own data: bfq train --task FILE (.npz, .csv, .parquet, .hdf5), or
bfq data import FILE --as NAME."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("word", nargs="?", metavar="WORD",
        help="only tasks with this in their name; a full description if there is only one")  # fmt: skip
    add("--here", action="store_true",
        help="only tasks with data on this machine, or generated in seconds")  # fmt: skip
    add("--json", action="store_true", help="print the task cards as JSON")


def run(args: argparse.Namespace) -> int:
    """List the task cards, or describe the only one that matches."""
    chosen = _chosen(_cards(), args.word, args.here)
    if args.json:
        show_json(chosen)
    elif args.word and len(chosen) == 1:
        show_table(("", ""), _facts(chosen[0]))
    else:
        _list(chosen)
        if not args.word:
            print(ENDING)
    return 0


def _cards() -> list[Card]:
    """The cards of all tasks, and a short card for each imported dataset."""
    from bfq.tasks.catalog import TASKS
    from bfq.tasks.sources import availability, stored_datasets

    own = [name for name in stored_datasets() if name not in TASKS]
    cards: list[Card] = [dataclasses.asdict(task) for task in TASKS.values()]
    cards += [{"name": name} for name in own]
    return [{**card, "data_here": availability(card["name"])} for card in cards]


def _chosen(cards: list[Card], word: str | None, here: bool) -> list[Card]:
    """The card with this name, or else the cards with this word in their names."""
    exact = [card for card in cards if card["name"] == word]
    found = exact or [card for card in cards if (word or "").lower() in card["name"].lower()]
    if not found:
        raise BadInput(f"no task has {word!r} in its name: see `bfq tasks`.")
    return [card for card in found if card["data_here"] in AVAILABLE or not here]


def _group(card: Card) -> str:
    """The heading of a card: the kind of task and the origin of its data."""
    if "family" not in card:
        return OWN
    if card["family"] not in FAMILIES:
        return SMALL
    origin, slash, _ = card["name"].partition("/")
    return f"{FAMILIES[card['family']]}, {ORIGINS[origin] if slash else 'published'}"


def _list(cards: list[Card]) -> None:
    """Print one line per task, in groups."""
    from rich.console import Console

    from bfq.tasks.catalog import DEFAULT_TASK

    console = Console(highlight=False, markup=False, soft_wrap=True)
    width = max((len(card["name"]) for card in cards), default=0)
    for heading in dict.fromkeys(map(_group, cards)):
        console.print(heading, style="bold")
        for card in (one for one in cards if _group(one) == heading):
            default = " (default)" if card["name"] == DEFAULT_TASK else ""
            here = card["data_here"].replace("can be generated with", "needs")
            console.print(f"  {card['name']:{width}}  {here}{default}")
    if not cards:
        console.print("None of these tasks has data on this machine.")


def _facts(card: Card) -> list[tuple[str, str]]:
    """Everything about a task."""
    name = card["name"]
    if "family" not in card:
        return [
            ("task", name),
            ("description", "your own data"),
            ("inspect", f"bfq data inspect {name}"),
            ("train", f"bfq train --task {name}"),
        ]
    simulator = f"{card['simulator']}, episodes of up to {card['episode_steps']:,} steps"
    return [
        ("task", name),
        ("description", card["about"]),
        ("data", card["data"]),
        ("data available", card["data_here"]),
        *_next(name, card["data_here"]),
        ("evaluation", simulator if card["simulator"] else "no simulator"),
        ("score", _score(card)),
        ("versions", card["version_rule"]),
        *([("install", f"pip install 'bfq-rl[{card['extra']}]'")] if card["extra"] else []),
        ("discount", f"{card['discount']:g}"),
        ("reward transform", card["reward_transform"]),
        ("presets", card["like"]),
    ]


def _next(name: str, availability: str) -> list[tuple[str, str]]:
    """The next command: get the data, or train on it."""
    from bfq.tasks.catalog import CHECKERBOARD
    from bfq.tasks.sources import how_to_get, similar_data

    if availability == "needs a file":
        other = similar_data(name)
        return [("get the data", how_to_get(name)), *([("or", other)] if other else [])]
    command = "bfq toy" if name == CHECKERBOARD else f"bfq train --task {name}"
    generated = availability.startswith("can be generated")
    return [("train", f"{command}, which generates the data first" if generated else command)]


def _score(card: Card) -> str:
    """The score of an episode, and the returns between which it is normalized."""
    reference = card["reference"]
    if reference is None:
        return str(card["metric"])
    ends = f"0 is {reference['low']:g}, 100 is {reference['high']:g} ({reference['source']})"
    return f"{card['metric']}; {ends}; {card['eval_episodes']} episodes per seed"
