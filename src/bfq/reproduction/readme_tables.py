"""The README's tables that are no experiments of the paper: demo, data made here, agents, checkerboard."""

from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

from bfq.files import read_json
from bfq.reporting.statistics import summarise

LEVELS = ("random", "medium-replay", "medium", "medium-expert", "expert")
ROBOTS = ("halfcheetah", "hopper", "walker2d", "ant")
SPEED = Path("benchmarks/agents_h200.json")
TOY = {"fm": "FM", "ddpm": "DDPM", "consistency": "Consistency", "shortcut": "Shortcut",
       "meanflow": "MeanFlow", "bfq": "BFQ"}  # fmt: skip


def demo(root: Path) -> list[list[str]]:
    """What `make demo` leaves behind: the data, behaviour cloning, BFQ."""
    folder, units = root / "results/halfcheetah-mini", ("return", "normalized")
    ours, cloned = (read_json(folder / name) for name in ("result.json", "bc.json"))
    spent = f"{len(ours['members'])} seeds × {ours['protocol']['episodes']} episodes"
    data = [_number(ours["data"][f"{unit}_mean"], 1) for unit in units]
    bc, bfq = ([_spread(run["scores"][unit], 1) for unit in units] for run in (cloned, ours))
    return [
        [f"{ours['task']}, {spent}, last checkpoint", "return", "normalised score"],
        ["the data itself", *data],
        ["behaviour cloning", *bc],
        ["**BFQ**", *(f"**{score}**" for score in bfq)],
    ]


def made_here(root: Path) -> list[list[str]]:
    """The mean return of an episode in data of each robot and level."""
    rows = {row["name"]: row["return_mean"] for row in read_json(root / "results/data/local.json")["rows"]}
    means = [[rows[f"local/{robot}-{level}"] for level in LEVELS] for robot in ROBOTS]
    lines = [[robot, *map(_number, found)] for robot, found in zip(ROBOTS, means, strict=True)]
    return [["robot", *LEVELS], *lines]


def agents(root: Path) -> list[list[str]]:
    """Every agent on two small tasks, best first on the smaller one, and the time of its update."""
    speed = {
        (row["agent"], row["members"]): row["microseconds_per_update"] for row in read_json(root / SPEED)
    }
    tasks = ("mini", "medium")
    runs = {task: _agents(root / f"results/agents/halfcheetah-{task}") for task in tasks}
    ranked = sorted(runs["mini"], key=lambda name: -fmean(runs["mini"][name]["scores"]["return"]))
    lines = [
        [
            f"[{name}](docs/agents/{name}.md)",
            *(_spread(runs[task][name]["scores"]["return"], 0) for task in tasks),
            *(_number(speed[name, members]) for members in (1, 6)),
        ]
        for name in ranked
    ]
    data = [_number(runs[task][ranked[0]]["data"]["return_mean"]) for task in tasks]
    heads = [f"return, `local/halfcheetah-{task}`" for task in tasks]
    return [["agent", *heads, "µs an update, 1 member", "6 members"], *lines, ["the data", *data, "", ""]]


def checkerboard(root: Path) -> list[list[str]]:
    """How near each method's samples come to the truth, by its number of steps."""
    toy = read_json(root / "results/checkerboard/toy.json")
    lines = [
        [
            name,
            steps,
            f"{row['energy_distance']:.4f}",
            f"{row['sliced_wasserstein2']:.4f}",
            f"{100 * row['share_on_filled']:.1f}%",
            f"{row['squares_covered']:.0f} of 8",
        ]
        for method, name in TOY.items()
        for steps, row in toy[method].items()
    ]
    return [
        ["method", "steps", "energy distance", "sliced W₂", "on filled squares", "squares covered"],
        *lines,
    ]


TABLES: dict[str, Callable[[Path], list[list[str]]]] = {
    "results/halfcheetah-mini": demo,
    "results/data": made_here,
    "results/agents": agents,
    "results/checkerboard": checkerboard,
}


def table(root: Path, name: str) -> str:
    """One of them as Markdown."""
    head, *lines = TABLES[name](root)
    top = f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n"
    return top + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _agents(folder: Path) -> dict[str, Any]:
    return {path.stem: read_json(path) for path in sorted(folder.glob("*.json"))}


def _spread(values: list[float], digits: int) -> str:
    told = summarise(values)
    return f"{_number(told.mean, digits)} ± {_number(told.std, digits)}"


def _number(value: float, digits: int = 0) -> str:
    return f"{value:.{digits}f}".replace("-", "−")
