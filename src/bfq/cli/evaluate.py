"""`bfq evaluate RUN`: scores saved members again, under another protocol if wished."""

import argparse
from pathlib import Path
from typing import Any

from bfq.cli.words import show_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of the verb."""
    parser.add_argument("folder", type=Path, metavar="RUN", help="the run folder")
    parser.add_argument("--episodes", type=int, metavar="N", help="episodes a member")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the first episode")
    parser.add_argument(
        "--candidates", type=int, metavar="N", help="actions drawn a state, the critic choosing"
    )
    parser.add_argument("--selection", metavar="HOW", help="argmax | softmax among the candidates")
    parser.add_argument("--softmax-weight", type=float, metavar="W", help="w in softmax(w · Q)")
    parser.add_argument("--temperature", type=float, metavar="X", help="factor on the acting noise")
    parser.add_argument("--policy", metavar="WHICH", help="ema | online")
    parser.add_argument("--video", type=Path, metavar="FILE", help="film one member's first episode (.mp4)")
    parser.add_argument("--member", type=int, default=0, metavar="K", help="the member that is filmed")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the scores to this JSON file")
    parser.add_argument("--json", action="store_true", help="print the scores as JSON")


PROTOCOL = ("episodes", "seed", "candidates", "selection", "softmax_weight", "temperature", "policy")


def run(args: argparse.Namespace) -> int:
    """Evaluates, and shows one line a member."""
    from bfq.api import evaluate
    from bfq.training.files import write_json

    protocol = {name: getattr(args, name) for name in PROTOCOL}
    found = evaluate(args.folder, video=args.video, member=args.member, **protocol)
    if args.out:
        write_json(args.out, found)
    if args.json:
        show_json(found)
        return 0
    _show(found)
    if args.video:
        print(f"video                {args.video}")
    return 0


def _show(found: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    told, scores, members = found["protocol"], found["scores"], found["members"]
    caption = ", ".join(f"{name} {value}" for name, value in told.items())
    table = Table(title=f"{found['agent']} on {found['task']}, update {found['steps']}", caption=caption)
    for column in ("seed", "overrides", "return", "normalised"):
        table.add_column(column, justify="right")
    for k, member in enumerate(members):
        overrides = ", ".join(f"{name}={value:g}" for name, value in member["overrides"].items())
        normalised = f"{scores['normalized'][k]:.1f}" if scores["normalized"] else "–"
        table.add_row(str(member["seed"]), overrides, f"{scores['return'][k]:.1f}", normalised)
    Console().print(table)
