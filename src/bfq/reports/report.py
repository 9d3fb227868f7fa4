"""The report of finished runs, an HTML page with figures and a table, and the page about a dataset."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from bfq.errors import BadInput, DiskTrouble, counted
from bfq.files import make_folder, write_bytes
from bfq.reports import Run, drawing, figures, is_run, read_finished, score_name, statistics, tables
from bfq.run import RewardTransform

REWARDS = {  # reasons that the numbers do not show
    "return_range": "so that returns of the data span 1,000",
    "standardize": "standardized",
    "min_max": "so that rewards of the data span −1 to 1",
}


def run_folders(places: Sequence[Path]) -> tuple[dict[Path, list[Path]], list[Path]]:
    """The runs in each place, which may be a run or a sweep; then the places without runs."""
    found = {place: _runs_in(place) for place in places}
    kept = {place: runs for place, runs in found.items() if runs}
    return kept, [place for place in found if place not in kept]


def _runs_in(place: Path) -> list[Path]:
    if is_run(place) or not place.exists():  # a missing place is refused when it is read
        return [place]
    if not (place / "sweep.json").is_file():
        return []
    return sorted(path for path in place.iterdir() if is_run(path))


def write_report(folders: Sequence[Path], out: Path) -> dict[str, Any]:
    """Write `report.html` and `learning_curves.png`, and return their content as plain data.

    With several methods to compare, `scores.png` and `table.md` are written as well.
    """
    if not folders:
        raise BadInput("a report needs at least one run folder.")
    runs = [read_finished(folder) for folder in folders]
    contents = {
        "learning_curves.png": figures.learning_curves(*runs),
        "report.html": report_page(runs).encode(),
    }
    if tables.is_comparison(runs):
        contents["scores.png"] = figures.score_figure(runs)
        contents["table.md"] = tables.markdown_comparison(runs).encode("utf-8", "replace")
    make_folder(out)
    drawn = {out / name: content for name, content in contents.items() if content}
    try:
        for path, content in drawn.items():
            write_bytes(path, content)
    except DiskTrouble as trouble:
        raise BadInput(str(trouble)) from trouble
    listed = [
        {"folder": str(run.folder), "members": len(run.members)}
        | {name: getattr(run, name) for name in ("task", "agent", "title", "steps")}
        for run in runs
    ]
    return {
        "runs": listed,
        "rows": [as_record(row) for row in comparison(runs)],
        "files": [str(path) for path in drawn],
    }


def comparison(runs: Sequence[Run]) -> list[tables.ScoreRow]:
    """All rows of several runs, task by task, without repetitions."""
    tasks = list(dict.fromkeys(run.task for run in runs))
    rows = dict.fromkeys(row for run in runs for row in tables.score_table(run).rows)
    return sorted(rows, key=lambda row: tasks.index(row.task))


def as_record(row: tables.ScoreRow) -> dict[str, Any]:
    """A row as plain data for JSON."""
    names = ("task", "kind", "agent", "name", "overrides", "updates", "seeds")
    plain = {name: getattr(row, name) for name in names}
    scores = {unit: _summary_record(summary) for unit, summary in row.scores}
    return {**plain, **scores, "train_seconds": row.seconds}


def _summary_record(summary: statistics.Summary | None) -> dict[str, Any] | None:
    if summary is None:
        return None
    low, high = summary.interval or (None, None)
    return {"mean": summary.mean, "std": summary.std, "n": summary.n, "low": low, "high": high}


def report_page(runs: Sequence[Run]) -> str:
    """A page with one section per run, and a comparison on top if there are several."""
    several = len(runs) > 1
    names = [f"{run.title} on {run.task}" for run in runs]
    title = f"{len(runs)} runs compared" if several else names[0]
    folders = [tables.distinguishing_folder(run, runs) for run in runs]
    rankings, methods = tables.standings(runs), tables.aggregates(runs)
    tasks = [[run for run in runs if run.task == table.task] for table in rankings]
    return render(
        "report.html.j2",
        title=title,
        several=several,
        runs=runs,
        names=[", ".join(filter(None, pair)) for pair in zip(names, folders, strict=True)],
        rankings=rankings,
        scores_png=figures.score_figure(runs) if several else None,
        scores_caption=figures.score_caption(runs),
        curves_png=figures.learning_curves(*runs) if any(map(figures.share_panel, tasks)) else None,
        curves_caption=figures.curve_caption(*runs),
        aggregates=methods,
        pooling=tables.describe_pooling(methods),
    )


def data_page(facts: Mapping[str, Any], replay: Mapping[str, Any] | None) -> str:
    """The page about a dataset: what `inspect` found, and `replay` if it ran."""
    return render("data.html.j2", title=facts["name"], data=facts, replay=replay)


def headline_rows(table: tables.ScoreTable) -> list[tuple[tables.ScoreRow, str]]:
    """The best setting of the agent, its baselines and the data, each with a note."""

    def rank(row: tables.ScoreRow) -> float:
        summary = row.normalized or row.returns
        return summary.mean if summary else -inf

    agent = [row for row in table.rows if row.kind == "agent"]
    best = max(agent, key=rank)
    note = f"best of {len(agent)} settings, chosen by this score: {best.overrides}"
    rest = [(row, row.overrides) for row in reversed(table.rows) if row.kind != "agent"]
    return [(best, note if agent[1:] else ""), *rest]


def describe_successes(run: Run) -> Iterator[str]:
    """One sentence per group on its successful episodes, with Wilson's interval of their rate."""
    episodes = run.protocol["episodes"]
    for group in run.groups if run.counts_successes else ():
        shares = [min(max(x / 100, 0.0), 1.0) for x in run.finite_scores("normalized", group)]
        if shares:
            reached, n = sum(round(share * episodes) for share in shares), episodes * len(shares)
            ends = statistics.wilson(reached, n)
            low, high = (statistics.number_text(100 * end, 1) for end in ends)
            setting = f"With {group.label}, " if group.label else ""
            yield (
                f"{setting}{reached:,} of {counted(n, 'episode')} succeeded "
                f"(Wilson's 95% interval: {low} to {high}%)."
            )


def describe_reward(reward: RewardTransform) -> str:
    """The transform of the rewards, as a formula with its reason."""
    times = f"{statistics.value_text(reward.scale)} × r" if reward.scale != 1 else "r"
    sign = "−" if reward.shift < 0 else "+"
    plus = f" {sign} {statistics.value_text(abs(reward.shift))}" if reward.shift else ""
    why = f", {REWARDS[reward.name]}" if reward.name in REWARDS else ""
    return f"r ← {times}{plus}{why}" if reward.scale != 1 or reward.shift else "unchanged"


def list_hyperparameters(run: Run) -> dict[str, str]:
    """Each hyperparameter, with all its values if the groups differ in it."""
    found = {name: statistics.value_text(value) for name, value in run.config.items()}
    for name in dict.fromkeys(name for group in run.groups for name in group.overrides):
        values = [group.overrides.get(name, run.config.get(name)) for group in run.groups]
        found[name] = ", ".join(dict.fromkeys(map(statistics.value_text, values)))
    return found


def render(template: str, **values: Any) -> str:
    """Return a page that needs no other file; text is escaped unless a template wrote it."""
    page = TEMPLATES.get_template(template).render(**values)
    return page.encode("utf-8", "replace").decode()  # names from files may hold half a character


def short_number(value: float) -> str:
    """A number with four significant figures and a true minus."""
    text = f"{value:,.0f}" if 1e3 <= abs(value) < 1e15 else f"{value:.4g}"
    return text.replace("-", "−")


def bar_heights(counts: Sequence[int]) -> list[float]:
    """Heights of bars in percent; small counts stay visible next to large ones."""
    top = max(counts, default=0) or 1
    return [max(100 * count / top, 0.8) if count else 0.0 for count in counts]


TEMPLATES = Environment(
    loader=PackageLoader("bfq.reports"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
)
TEMPLATES.filters |= {
    "counted": counted,
    "data_address": lambda png: f"data:image/png;base64,{base64.b64encode(png).decode()}",
    "estimate": statistics.estimate_text,
    "heat": drawing.heat,
    "heights": bar_heights,
    "interval": statistics.interval_text,
    "mean": statistics.mean_text,
    "number": statistics.number_text,
    "quantity": lambda value: statistics.number_text(value, statistics.decimal_places(value)),
    "short": short_number,
    "value": statistics.value_text,
}
for _function in (
    *(figures.curve_caption, figures.learning_curves, figures.losses),
    *(figures.score_caption, figures.score_figure, tables.is_comparison, tables.score_table),
    *(describe_reward, describe_successes, headline_rows, list_hyperparameters, score_name),
):
    TEMPLATES.globals[_function.__name__] = _function
TEMPLATES.globals["zip"] = zip
