"""One page that holds everything: no script, and nothing loaded from elsewhere."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources
from typing import NamedTuple

from bfq.errors import counted
from bfq.reports import prose
from bfq.reports.figures import (
    curve_words,
    joined,
    learning_curves,
    losses,
    score_figure,
    score_words,
)
from bfq.reports.markup import Markup, tag
from bfq.reports.prose import ABSENT, decimals, in_words, interval_text, number_text
from bfq.reports.runs import Run
from bfq.reports.statistics import Summary
from bfq.reports.tables import (
    Aggregate,
    Method,
    ScoreRow,
    ScoreTable,
    Standings,
    aggregates,
    apart,
    compares,
    pooled_words,
    score_table,
    seconds_text,
    seeds_text,
    stacked,
    standings,
)

HEAD = ("Return", "Normalized score", "Seeds", "Training")
FRAMES = "The beginning of the first episode of the first member, after training."
LOSSES = "Line: mean over the members of a group. Band: from the lowest to the highest of them."


class Drawn(NamedTuple):
    """A picture with its file, its title and what to see in it."""

    file: str
    title: str
    png: bytes
    caption: str
    photo: bool = False  # frames of a simulator, whose colors are their own on a dark page too


def report_page(runs: Sequence[Run]) -> str:
    """A page with a section a run, and a comparison on top where there are several."""
    several = len(runs) > 1
    title = f"{len(runs)} runs compared" if several else f"{runs[0].title} on {runs[0].task}"
    level = "h2" if several else "h1"
    sections = [
        run_section(run, place, level, _named(run, runs)) for place, run in enumerate(runs, 1)
    ]
    top = [comparison_section(runs, title)] if several else []
    return page(title, *top, *sections)


def page(title: str, *parts: Markup) -> str:
    """A whole page that needs nothing but itself."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{title} · bfq"),
        tag(
            "style",
            Markup(
                resources.files("bfq.reports").joinpath("templates/page.css").read_text("utf-8")
            ),
        ),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', tag('main', *parts)), lang='en')}"


def comparison_section(runs: Sequence[Run], title: str) -> Markup:
    """All methods task by task, best first, and where each run is told in full."""
    links = [
        tag("li", tag("a", _named(run, runs), href=f"#run-{place}"), f" from {run.folder}")
        for place, run in enumerate(runs, 1)
    ]
    tables = standings(runs)
    together = any(joined([run for run in runs if run.task == table.task]) for table in tables)
    parts = [
        tag("h1", title),
        *(part for table in tables for part in (tag("h3", table.title), *_scores(_ranking(table)))),
        *figure("Scores", score_figure(runs), score_words(runs)),
        *_over_tasks(aggregates(runs)),
        *figure(
            "Learning curves", learning_curves(*runs) if together else None, curve_words(*runs)
        ),
    ]
    return tag("section", *parts, tag("h3", "Runs"), tag("ul", *links), class_="comparison")


def _named(run: Run, runs: Sequence[Run]) -> str:
    """A run under a name that no other has on the page, as far as folders tell them apart."""
    return ", ".join(filter(None, (f"{run.title} on {run.task}", apart(run, runs))))


def run_section(run: Run, place: int, heading: str, name: str) -> Markup:
    """Everything about one run."""
    table = score_table(run)
    parts = [
        tag(heading, name),
        tag("p", prose.about(run), class_="quiet"),
        tiles(table, run),
        tag("h3", table.title),
        *_scores(table),
        *figure("Scores", score_figure([run]) if compares([run]) else None, score_words([run])),
        *figure("The policy at work", run.frames, FRAMES, photo=True),
        *figure("Learning curves", learning_curves(run), curve_words(run)),
        *figure("Training", losses(run), LOSSES),
        tag("h3", "How it was evaluated"),
        tag("p", prose.protocol(run)),
        tag("h3", "Data"),
        facts(prose.data(run)),
        tag("h3", "Hyperparameters"),
        facts(prose.hyperparameters(run)),
        tag("h3", "Where it ran"),
        facts(
            {"device": run.device}
            | {name: prose.plain(value) for name, value in run.versions.items()}
        ),
        tag("h3", "Command"),
        tag("pre", tag("code", run.command)),
    ]
    return tag("section", *parts, id=f"run-{place}", class_="run")


def tiles(table: ScoreTable, run: Run) -> Markup:
    """The headline: the agent, its baselines and the data, a number each."""
    agent = sorted((row for row in table.rows if row.kind == "agent"), key=_rank, reverse=True)
    best = agent[0]
    note = (
        f"best of {len(agent)} settings, chosen by this score: {best.overrides}"
        if agent[1:]
        else ""
    )
    rest = [row for row in reversed(table.rows) if row.kind != "agent"]
    others = (_tile(row, row.overrides, run) for row in rest)
    return tag("div", _tile(best, note, run), *others, class_="tiles")


def facts(values: Mapping[str, str]) -> Markup:
    """Names and what they are."""
    rows = [
        tag("tr", tag("th", name, scope="row"), tag("td", value)) for name, value in values.items()
    ]
    return tag("table", tag("tbody", *rows), class_="facts")


def list_of(title: str, texts: Sequence[str], kind: str = "ul") -> list[Markup]:
    """Sentences under a title; nothing where there are none."""
    if not texts:
        return []
    return [tag("h3", title), tag(kind, *(tag("li", text) for text in texts), class_="notes")]


def scrolled(table: Markup, kind: str = "") -> Markup:
    """A table in a frame that scrolls, and shows it, on a narrow screen; `kind` is one more class."""
    return tag("div", table, class_=f"scroll {kind}".strip(), tabindex="0")


def figure(title: str, png: bytes | None, caption: str, photo: bool = False) -> list[Markup]:
    """A picture under its title, with words beneath; nothing where there is none."""
    if png is None:
        return []
    return pictured(
        title, f"data:image/png;base64,{base64.b64encode(png).decode()}", caption, photo
    )


def pictured(title: str, source: str, caption: str, photo: bool = False) -> list[Markup]:
    """A picture from its address."""
    image = tag("img", src=source, alt=f"{title}. {caption}")
    kind = {"class_": "photo"} if photo else {}
    return [tag("h3", title), tag("figure", image, tag("figcaption", caption), **kind)]


def _shown(row: ScoreRow) -> tuple[str, Summary | None]:
    return ("normalized", row.normalized) if row.normalized else ("return", row.returns)


def _rank(row: ScoreRow) -> float:
    _, summary = _shown(row)
    return float("-inf") if summary is None else summary.mean


def _tile(row: ScoreRow, note: str, run: Run) -> Markup:
    unit, summary = _shown(row)
    number = number_text(summary.mean, decimals(summary.mean, unit)) if summary else ABSENT
    spread = f", {interval_text(summary, unit)}" if summary and summary.interval else ""
    words = f"{in_words(unit, [run])}{spread}" if summary else "no score"
    lines = (tag("span", row.name), tag("b", number), tag("span", words))
    return tag("div", *lines, *([tag("span", note)] if note else []), class_=f"tile {row.kind}")


def _ranking(table: Standings) -> ScoreTable:
    """The data, then the methods, best first, each with what sets it apart."""
    methods = [
        replace(method.row, kind="method", overrides=_notes(table, method))
        for method in table.methods
    ]
    return ScoreTable(table.title, (*table.data, *methods))


def _notes(table: Standings, method: Method) -> str:
    updates = counted(method.run.steps, "update") if table.updates_differ else ""
    acting = prose.acting(method.run) if table.acting_differs else ""
    return ", ".join(filter(None, (method.notes, updates, acting)))


def _scores(table: ScoreTable) -> list[Markup]:
    top = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in ("", *HEAD))))
    body = tag("tbody", *(_score_row(row) for row in table.rows))
    words = [tag("p", f"{table.caption}.", class_="quiet small")] if table.caption else []
    return [scrolled(tag("table", top, body, class_="scores")), *words]


def _score_row(row: ScoreRow) -> Markup:
    name = tag("th", *_lines([row.name, row.overrides]), scope="row")
    scores = [tag("div", *_lines(stacked(summary, unit))) for unit, summary in row.scores]
    cells = [*scores, seeds_text(row), seconds_text(row)]
    columns = [tag("td", cell, data_label=label) for label, cell in zip(HEAD, cells, strict=True)]
    return tag("tr", name, *columns, class_=row.kind)


def _lines(texts: Sequence[str]) -> list[Markup]:
    """The first text, and the others small under it."""
    return [tag("span", texts[0]), *(tag("small", text) for text in texts[1:] if text)]


def _over_tasks(methods: Sequence[Aggregate]) -> list[Markup]:
    if not methods:
        return []
    told = {
        f"{each.name}, {each.tasks} tasks": each.text
        for each in sorted(methods, key=lambda each: each.mean, reverse=True)
    }
    words = pooled_words(any(each.interval for each in methods))
    return [tag("h3", "Over tasks"), facts(told), tag("p", words, class_="quiet small")]
