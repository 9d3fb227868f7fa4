"""Tables in Markdown pages, generated from the files in results/.

`python -m bfq_paper.pages` fills every block `<!-- results/NAME --> … <!-- end -->` in README.md and
docs/**/*.md. The block of an experiment without a result file stays empty.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from statistics import fmean
from typing import Any

from bfq import BadInput
from bfq.reports.statistics import range_text, summarize
from bfq_paper.cells import Cell, Results, read_results, write_file
from bfq_paper.comparisons import compare_methods, data_label
from bfq_paper.document import Grid, escape, number
from bfq_paper.experiments import EXPERIMENTS, unknown_name
from bfq_paper.figures import ORDER, is_png
from bfq_paper.published import EMPTY
from bfq_paper.tables import spread
from bfq_paper.toy_methods import METHODS

PLACE = r"results/(?:[\w-]+/)?[\w-]+"  # with a folder between for results of another device
BLOCK = re.compile(rf"(<!-- ({PLACE}) -->\n).*?(<!-- end -->)", re.DOTALL)
MARK = re.compile(rf"<!-- ({PLACE}|end) -->")
DATA = {
    "imported": "not the published file",
    "rerolled": "re-rolled data",
    "local": "local data",
    "embedded": "not a task of the paper",
}
LEVELS = ("random", "medium-replay", "medium", "medium-expert", "expert")
ROBOTS = ("halfcheetah", "hopper", "walker2d", "ant")


def pages(root: Path) -> list[Path]:
    """The Markdown files that may contain generated blocks."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def rewrite(root: Path) -> None:
    """Regenerate the blocks of all pages."""
    for page in pages(root):
        before = page.read_text("utf-8")
        after = rewritten(before, root, page)
        if after != before:
            write_file(page, after.encode())


def rewritten(text: str, root: Path, page: Path) -> str:
    """The text of a page with every block regenerated from the files under `root`."""
    _check_marks(MARK.findall(text))
    up = os.path.relpath(root, page.parent)
    up = "" if up == "." else f"{up}/"
    return BLOCK.sub(lambda found: f"{found[1]}{block(root, found[2], up)}{found[3]}", text)


def _check_marks(marks: Sequence[str]) -> None:
    """Check that each mark of a known table is followed by an end mark."""
    known = [*TABLES, *(f"results/{name}" for name in EXPERIMENTS)]
    for opening, closing in zip_longest(marks[::2], marks[1::2]):
        if opening == "end" or closing != "end":
            raise BadInput(
                f"the mark <!-- {opening} --> has no partner: each block needs its own <!-- end -->."
            )
        if opening not in known and f"results/{Path(opening).name}" not in known:
            raise unknown_name("table", opening, known)


def block(root: Path, name: str, up: str = "") -> str:
    """The content of a block; `up` leads from the page to the root."""
    if name in TABLES:
        build, caption = TABLES[name]
        try:
            grid = build(root, up)
        except (OSError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise BadInput(
                f"a file of the table {name} is damaged or missing: {error!r}."
            ) from error
        return "\n".join([*grid, "", f"<sub>{caption.format(up)}</sub>", ""])
    if not (root / name / "result.json").exists():
        return ""
    results = read_results(root / name)
    if results.experiment.folder != Path(name).name:
        raise BadInput(f"{root / name} has the results of {results.experiment.folder}.")
    if not results.cells:
        return ""
    pictures = [file for file in ORDER if is_png(root / name / file)]
    picture = next(
        (f for f in ("training_time.png", "ablation.png", *pictures) if f in pictures), ""
    )
    parts = ["\n".join(_summary(results).lines())]
    parts += [f"![{results.experiment.heading}]({up}{name}/{picture})"] if picture else []
    files = f"[table]({up}{name}/table.md), [data]({up}{name}/result.json)"
    parts.append(f"<sub>{_caption(results)}. Details: {files}.</sub>")
    return "\n\n".join(parts) + "\n"


def _summary(results: Results) -> Grid:
    """A line per method, a line for each other number of candidates, and the mean over rows."""
    found = compare_methods(results)
    means = {m.column: number(m.mean.value) for m in found.methods} if found else {}
    means = means if found and len(found.rows) > 1 else {}
    lines: list[list[str]] = []
    best: dict[tuple[int, int], str] = {}
    for column in results.columns:
        cells = [results.at(row, column) for row in results.rows]
        best |= {
            (len(lines), k): "best" for k, cell in enumerate(cells, 1) if _is_best(results, cell)
        }
        line = [_name(results, column, cells), *(_score(results, cell) for cell in cells)]
        lines.append([*line, means.get(column, EMPTY)])
        readings = [{r.name: r for r in c.readings[1:]} if c else {} for c in cells]
        others = sorted({name for each in readings for name in each})
        for name in others if results.experiment.compares_methods else ():
            spreads = []
            for each, cell in zip(readings, cells, strict=True):
                summary = each[name].summary if name in each else None
                spreads.append(spread(summary, cell.unit) if cell and summary else EMPTY)
            lines.append([f"{column}, {name}", *spreads, ""])
    head = ["", *(_head(results, row) for row in results.rows), "mean"]
    return Grid(head, lines, best) if means else Grid(head[:-1], [x[:-1] for x in lines], best)


def _name(results: Results, column: str, cells: Sequence[Cell | None]) -> str:
    """The label of a column, with BFQ's candidates."""
    names = {cell.readings[0].name for cell in cells if cell}
    return (
        f"bfq, {names.pop()}"
        if column == "bfq" and len(names) == 1
        else results.experiment.named(column)
    )


def _head(results: Results, row: str) -> str:
    """The row with its unit or its kind of data."""
    cells = results.of(row)
    kinds = {cell.source[0] for cell in cells}
    if results.experiment.kind != "scores":
        return row if cells[0].unit == row else f"{row}, {cells[0].unit}"
    kind = kinds.pop() if len(kinds) == 1 else ""
    return f"{row} ({DATA[kind]})" if kind in DATA else row


def _score(results: Results, cell: Cell | None) -> str:
    """Ours with the paper's in parentheses."""
    if cell is None or cell.ours is None:
        return EMPTY
    shown, printed = spread(cell.ours, cell.unit), results.paper(cell)
    lost = "" if cell.state == "done" else f", n = {cell.ours.n}"
    mark = "†" if any(note.cells for note in results.notes(cell)) else ""
    paper = f" ({number(printed.value, cell.unit)}{mark})" if printed else ""
    data = data_label(results, cell)
    return f"{shown}{lost}{paper}{f' on {data}' if data else ''}"


def _is_best(results: Results, cell: Cell | None) -> bool:
    """Whether no other method of the row has a higher mean; a cell that lost a seed cannot win."""
    if not results.experiment.compares_methods or not cell or not cell.ours or cell.state != "done":
        return False
    means = [c.ours.mean for c in results.of(cell.row) if c.ours and c.state == "done"]
    return number(cell.ours.mean) == number(max(means))


def _caption(results: Results) -> str:
    """What the numbers are, in at most 40 words with the links."""
    cells, experiment = results.cells, results.experiment
    noted = any(note.cells for cell in cells for note in results.notes(cell))
    paper = "; in parentheses the paper's" if experiment.table and not experiment.quick else ""
    paper += ", †: see its notes" if noted else ""
    if experiment.kind == "speed":
        devices = ", ".join(dict.fromkeys(str(cell.run.get("device")) for cell in cells))
        return f"Mean ± standard deviation over robots on {escape(devices)}{paper}"
    words = [range_text([len(cell.readings[0].values) for cell in cells], "seed")]
    steps = [cell.run["steps"] for cell in cells if "steps" in cell.run]
    words += [range_text(steps, "update")] if steps else []
    protocols = [cell.readings[0].record.get("protocol", {}) for cell in cells]
    episodes = [each["episodes"] for each in protocols if "episodes" in each]
    words += [f"{range_text(episodes, 'episode')} per seed"] if episodes else []
    best = "; bold: best of the task" if experiment.compares_methods else ""
    units = escape(results.units).capitalize()
    return (
        f"{units}, mean ± standard deviation over {', '.join(words)}, last checkpoint{best}{paper}"
    )


def _demo(root: Path, up: str) -> list[str]:
    """The output of `make demo`: the data, behavior cloning, BFQ."""
    folder, units = root / "results/halfcheetah-mini", ("return", "normalized")
    ours, cloned = (_json(folder / name) for name in ("result.json", "bc.json"))
    spent = f"{len(ours['members'])} seeds × {ours['protocol']['episodes']} episodes"
    data = [number(ours["data"][f"{unit}_mean"]) for unit in units]
    bc, bfq = ([_mean(run["scores"][unit]) for unit in units] for run in (cloned, ours))
    return Grid(
        ["", f"return on {ours['task']}, {spent}, last checkpoint", "normalized score"],
        [["the data itself", *data], ["behavior cloning", *bc], ["BFQ", *bfq]],
        dict.fromkeys(((2, 0), (2, 1), (2, 2)), "best"),
    ).lines()


def _local_data(root: Path, up: str) -> list[str]:
    """The mean return of an episode in the local data of each robot and level."""
    rows = {r["name"]: r["return_mean"] for r in _json(root / "results/data/local.json")["rows"]}
    means = [
        [number(rows[f"local/{robot}-{level}"], "count") for level in LEVELS] for robot in ROBOTS
    ]
    lines = [[robot, *found] for robot, found in zip(ROBOTS, means, strict=True)]
    return Grid(["", *LEVELS], lines).lines()


def _agents(root: Path, up: str) -> list[str]:
    """Every agent on two small tasks, best first on the smaller one, and the time of its update.

    What was not measured on the GPU has a dash.
    """
    times = _json(root / "benchmarks/agents_h200.json")
    speed = {(row["agent"], row["members"]): row["microseconds_per_update"] for row in times}
    tasks = ("mini", "medium")
    folders = {task: root / f"results/agents/halfcheetah-{task}" for task in tasks}
    runs = {t: {p.stem: _json(p) for p in sorted(f.glob("*.json"))} for t, f in folders.items()}
    returns = {t: {a: run["scores"]["return"] for a, run in runs[t].items()} for t in tasks}
    ranked = sorted(returns["mini"], key=lambda name: -fmean(returns["mini"][name]))
    data = [number(runs[task][ranked[0]]["data"]["return_mean"], "count") for task in tasks]
    heads = [f"return, local/halfcheetah-{task}" for task in tasks]
    lines = [
        [name, *(_mean(returns[t][name], "count") if name in returns[t] else "–" for t in tasks),
         *(number(speed[name, m], "count") if (name, m) in speed else "–" for m in (1, 6))]
        for name in ranked
    ]  # fmt: skip
    head = ["", *heads, "µs per update, 1 seed", "6 seeds"]
    folder = f"{up.removesuffix('../')}agents" if up else "docs/agents"
    links = {name: f"{folder}/{name}.md" for name in ranked}
    return Grid(head, [*lines, ["the data", *data, "", ""]], links=links).lines()


def _checkerboard(root: Path, up: str) -> list[str]:
    """How close the samples of each method are to the truth, by its number of steps."""
    toy = _json(root / "results/checkerboard/toy.json")
    head = ["", "steps", "energy distance", "sliced W₂", "on filled squares", "squares covered"]
    lines = [
        [METHODS[name].title, steps, f"{row['energy_distance']:.4f}", f"{row['sliced_wasserstein2']:.4f}",
         f"{row['share_on_filled']:.1%}", f"{row['squares_covered']:.0f} of 8"]
        for name in METHODS
        for steps, row in toy[name].items()
    ]  # fmt: skip
    return Grid(head, lines).lines()


# Each table with its caption of at most 40 words; {0} leads from the page to the root.
TABLES: dict[str, tuple[Callable[[Path, str], list[str]], str]] = {
    "results/halfcheetah-mini": (
        _demo,
        "Mean ± standard deviation over seeds. [Report]({0}results/halfcheetah-mini/report.html) and "
        "[record]({0}results/halfcheetah-mini/result.json) of `make demo` on two cores.",
    ),
    "results/data": (
        _local_data,
        "From [local.json]({0}results/data/local.json). These are not D4RL's datasets.",
    ),
    "results/agents": (
        _agents,
        "Mean ± standard deviation over 3 seeds on locally generated data, 6,000 and 20,000 updates: a check, "
        "not a ranking. Update times on an H200, networks 4 × 256; –: not measured. [Records]({0}results/agents).",
    ),
    "results/checkerboard": (
        _checkerboard,
        "Means over 3 seeds on an H200, from [toy.json]({0}results/checkerboard/toy.json): "
        "`bfq toy --all --seeds 3`.",
    ),
}


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def _mean(values: Sequence[float], unit: str = "") -> str:
    summary = summarize(values)
    return f"{number(summary.mean, unit)} ± {number(summary.std, unit)}"


def pages_command() -> int:
    """Regenerate the blocks of all pages below the current folder."""
    argparse.ArgumentParser(prog="python -m bfq_paper.pages", description=__doc__).parse_args()
    try:
        rewrite(Path.cwd())
    except BadInput as error:
        print(f"bfq: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(pages_command())
