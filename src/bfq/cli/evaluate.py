"""`bfq evaluate RUN`: scores saved members again, under another protocol if wished."""

import argparse
from pathlib import Path
from typing import Any

from bfq.cli.words import show_json
from bfq.errors import BadInput, counted


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
    parser.add_argument(
        "--sampling-steps",
        type=int,
        metavar="N",
        help="network calls an action, where the agent has a choice",
    )
    parser.add_argument(
        "--sampler", metavar="NAME", help="the rule of these steps, as ddim; see `bfq agents`"
    )
    parser.add_argument(
        "--episode-steps",
        type=int,
        metavar="N",
        help="another limit of episodes, for data of your own",
    )
    parser.add_argument(
        "--video", type=Path, metavar="FILE", help="film one member's first episode (.mp4, .gif)"
    )
    parser.add_argument(
        "--member", type=int, default=0, metavar="K", help="the member that is filmed"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="also write the scores to this JSON file"
    )
    parser.add_argument("--json", action="store_true", help="print the scores as JSON")


PROTOCOL = (
    "episodes", "seed", "candidates", "selection", "softmax_weight", "temperature", "policy",
    "sampling_steps", "sampler",
)  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Evaluates, and shows one line a member."""
    from bfq.files import check_place, write_json
    from bfq.training.progress import announced

    if args.out:
        if not args.out.parent.is_dir():
            raise BadInput(
                f"there is no folder {args.out.parent} for {args.out.name}: make it first."
            )
        check_place(args.out.parent)
    asked = {name: getattr(args, name) for name in (*PROTOCOL, "video", "member", "episode_steps")}
    with announced(f"evaluating {args.folder}", quiet=args.json):
        from bfq.api import evaluate

        found = evaluate(args.folder, **asked)
    if args.out:
        write_json(args.out, _as_json(found))
    if args.json:
        show_json(_as_json(found))
        return 0
    _show(found)
    if args.video:
        print(f"video                {args.video}")
    return 0


def _as_json(found: dict[str, Any]) -> dict[str, Any]:
    """What was found, with null for the scores of a member that diverged: JSON has no NaN."""
    from bfq.evaluation.scores import told_scores

    return {**found, "scores": {"normalized": None, **told_scores(found["scores"])}}


def _show(found: dict[str, Any]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from bfq.reports.prose import mean_text, number_text
    from bfq.reports.statistics import summarize

    scores, members = found["scores"], found["members"]
    title = f"{found['agent']} on {found['task']}, update {found['steps']:,}"
    table = Table(title=title, caption=_protocol(found), box=box.SIMPLE_HEAD)
    for column in ("member", "return", "normalized"):
        table.add_column(column, justify="right")
    normalized = scores["normalized"] or [None] * len(members)
    for member, value, score in zip(members, scores["return"], normalized, strict=True):
        overrides = "".join(f", {name}={number:g}" for name, number in member["overrides"].items())
        shown = "–" if score is None else number_text(score, 1)
        table.add_row(f"seed {member['seed']}{overrides}", number_text(value, 1), shown)
    if len(members) > 1:
        table.add_section()
        over_all = summarize(scores["normalized"]) if scores["normalized"] else None
        mean = mean_text(summarize(scores["return"]), "return")
        table.add_row("mean ± std", mean, mean_text(over_all, "normalized"))
    Console().print(table)


def _protocol(found: dict[str, Any]) -> str:
    """The protocol in words, without what does not apply."""
    told, ignored = found["protocol"], found["ignores"]
    words = [
        f"{counted(told['episodes'], 'episode')} of up to {found['episode_steps']:,} steps",
        f"from seed {told['seed']}",
        f"{told['checkpoint']} checkpoint",
    ]
    words += [] if "policy" in ignored else [f"{told['policy']} policy"]
    words += ["no noise" if "temperature" in ignored else f"noise × {told['temperature']:g}"]
    if told["candidates"] > 1:
        weight = f", w = {told['softmax_weight']:g}" if told["selection"] == "softmax" else ""
        words.append(f"{told['selection']} of {told['candidates']} candidates{weight}")
    if told["sampling_steps"]:
        many = "s" if told["sampling_steps"] > 1 else ""
        words.append(f"{told['sampling_steps']} sampling step{many}")
    if told["sampler"] != "trained":
        words.append(f"sampler {told['sampler']}")
    return ", ".join(words)
