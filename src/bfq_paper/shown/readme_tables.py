"""Tables that belong to no experiment of the paper: demo, local data, agents, checkerboard."""

from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

from bfq.errors import BadInput
from bfq.files import read_json
from bfq.reports.statistics import mean_text, number_text, summarize
from bfq.reports.tables import escape_markdown, markdown_table
from bfq_paper.toy_methods import METHODS

LEVELS = ("random", "medium-replay", "medium", "medium-expert", "expert")
ROBOTS = ("halfcheetah", "hopper", "walker2d", "ant")
SPEED = Path("benchmarks/agents_h200.json")


def demo(root: Path, up: str) -> list[list[str]]:
    """What `make demo` leaves behind: the data, behavior cloning, BFQ."""
    folder, units = root / "results/halfcheetah-mini", ("return", "normalized")
    ours, cloned = (read_json(folder / name) for name in ("result.json", "bc.json"))
    spent = f"{len(ours['members'])} seeds × {ours['protocol']['episodes']} episodes"
    data = [number_text(ours["data"][f"{unit}_mean"], 1) for unit in units]
    bc, bfq = (
        [mean_text(summarize(run["scores"][unit]), unit) for unit in units]
        for run in (cloned, ours)
    )
    return [
        [
            "",
            escape_markdown(f"return on {ours['task']}, {spent}, last checkpoint"),
            "normalized score",
        ],
        ["the data itself", *data],
        ["behavior cloning", *bc],
        ["**BFQ**", *(f"**{score}**" for score in bfq)],
    ]


def made_here(root: Path, up: str) -> list[list[str]]:
    """The mean return of an episode in data of each robot and level."""
    rows = {
        row["name"]: row["return_mean"]
        for row in read_json(root / "results/data/local.json")["rows"]
    }
    means = [[rows[f"local/{robot}-{level}"] for level in LEVELS] for robot in ROBOTS]
    lines = [[robot, *map(_whole, found)] for robot, found in zip(ROBOTS, means, strict=True)]
    return [["", *LEVELS], *lines]


def agents(root: Path, up: str) -> list[list[str]]:
    """Every agent on two small tasks, best first on the smaller one, and the time of its update."""
    speed = {
        (row["agent"], row["members"]): row["microseconds_per_update"]
        for row in read_json(root / SPEED)
    }
    tasks = ("mini", "medium")
    runs = {task: _agents(root / f"results/agents/halfcheetah-{task}") for task in tasks}
    ranked = sorted(runs["mini"], key=lambda name: -fmean(runs["mini"][name]["scores"]["return"]))
    lines = [
        [
            f"[{name}]({_agent_page(up)}{name}.md)",
            *(_spread(runs[task][name]["scores"]["return"]) for task in tasks),
            *(_whole(speed[name, members]) for members in (1, 6)),
        ]
        for name in ranked
    ]
    data = [_whole(runs[task][ranked[0]]["data"]["return_mean"]) for task in tasks]
    heads = [f"return, `local/halfcheetah-{task}`" for task in tasks]
    return [
        ["", *heads, "µs per update, 1 seed", "6 seeds"],
        *lines,
        ["the data", *data, "", ""],
    ]


def checkerboard(root: Path, up: str) -> list[list[str]]:
    """How near each method's samples come to the truth, by its number of steps."""
    toy = read_json(root / "results/checkerboard/toy.json")
    lines = [
        [
            METHODS[name].title,
            escape_markdown(steps),
            number_text(row["energy_distance"], 4),
            number_text(row["sliced_wasserstein2"], 4),
            f"{number_text(100 * row['share_on_filled'], 1)}%",
            f"{_whole(row['squares_covered'])} of 8",
        ]
        for name in METHODS
        for steps, row in toy[name].items()
    ]
    return [
        ["", "steps", "energy distance", "sliced W₂", "on filled squares", "squares covered"],
        *lines,
    ]


TABLES: dict[str, Callable[[Path, str], list[list[str]]]] = {
    "results/halfcheetah-mini": demo,
    "results/data": made_here,
    "results/agents": agents,
    "results/checkerboard": checkerboard,
}


CAPTIONS = {  # at most 40 words each; {0} leads from the page to the root
    "results/halfcheetah-mini": "Mean ± standard deviation over seeds. "
    "[Report]({0}results/halfcheetah-mini/report.html) and "
    "[record]({0}results/halfcheetah-mini/result.json) of `make demo` on two cores.",
    "results/data": "From [local.json]({0}results/data/local.json). These are not D4RL's datasets.",
    "results/agents": "Mean ± standard deviation over 3 seeds on locally generated data, 6,000 and "
    "20,000 updates: a check, not a ranking. Update times on an H200, networks 4 × 256. "
    "[Records]({0}results/agents).",
    "results/checkerboard": "Means over 3 seeds on an H200, from "
    "[toy.json]({0}results/checkerboard/toy.json): `bfq toy --all --seeds 3`.",
}


def table(root: Path, name: str, up: str = "") -> str:
    """One of them as Markdown with its caption."""
    try:
        head, *lines = TABLES[name](root, up)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise BadInput(
            f"a file behind the table {name} is damaged or missing: {error!r}."
        ) from error
    return "\n".join(
        [*markdown_table(head, lines), "", f"<sub>{CAPTIONS[name].format(up)}</sub>", ""]
    )


def _agent_page(up: str) -> str:
    """The folder of the agents' pages, seen from README.md or from a page below docs/."""
    return "docs/agents/" if not up else f"{up.removesuffix('../')}agents/"


def _agents(folder: Path) -> dict[str, Any]:
    return {path.stem: read_json(path) for path in sorted(folder.glob("*.json"))}


def _spread(values: list[float]) -> str:
    """Without digits after the point: what one return differs from the next by is far more."""
    told = summarize(values)
    return f"{_whole(told.mean)} ± {_whole(told.std)}"


def _whole(value: float) -> str:
    return number_text(value, 0)
