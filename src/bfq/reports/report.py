"""Run folders in; a page, its figures and a table out."""

import base64
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from bfq.errors import BadInput, DiskTrouble, counted
from bfq.files import make_folder, write_bytes
from bfq.reports.figures import learning_curves, score_figure
from bfq.reports.html import report_page
from bfq.reports.runs import Run, is_run, read_run
from bfq.reports.tables import compares, comparison, markdown_comparison, records


def run_folders(places: Sequence[Path]) -> tuple[dict[Path, list[Path]], list[Path]]:
    """The runs by the place that was named, a sweep's all; then what holds none, as `runs/*` may name."""
    found = {place: _inside(place) for place in places}
    kept = {place: runs for place, runs in found.items() if runs}
    return kept, [place for place in found if place not in kept]


def _inside(place: Path) -> list[Path]:
    """The run itself or, of a sweep, its runs; a place that is not there is left to be refused."""
    if is_run(place) or not place.exists():
        return [place]
    if not (place / "sweep.json").is_file():
        return []
    return sorted(path for path in place.iterdir() if is_run(path))


def write_report(folders: Sequence[Path], out: Path) -> dict[str, Any]:
    """Writes `report.html` and `learning_curves.png` (where there are curves) and tells what is in them.

    Where there are several methods to compare, `scores.png` and `table.md` go beside them.
    """
    if not folders:
        raise BadInput("a report needs at least one run folder.")
    runs = [read_run(folder) for folder in folders]
    contents = {
        "learning_curves.png": learning_curves(*runs),
        "report.html": report_page(runs).encode(
            "utf-8", "replace"
        ),  # JSON may hold half a character
    }
    if compares(runs):
        contents["scores.png"] = score_figure(runs)
        contents["table.md"] = markdown_comparison(runs).encode("utf-8", "replace")
    make_folder(out)
    written = [
        _write(out / name, content) for name, content in contents.items() if content is not None
    ]
    return {
        "runs": [_identity(run) for run in runs],
        "rows": records(comparison(runs)),
        "files": [str(path) for path in written],
    }


def _identity(run: Run) -> dict[str, Any]:
    return {
        "folder": str(run.folder),
        "task": run.task,
        "agent": run.agent,
        "title": run.title,
        "steps": run.steps,
        "members": len(run.members),
    }


def _write(path: Path, content: bytes) -> Path:
    """A report has nothing to lose: a place that refuses it is one that was badly chosen."""
    try:
        write_bytes(path, content)
    except DiskTrouble as trouble:
        raise BadInput(str(trouble)) from trouble
    return path


def render(template: str, **values: Any) -> str:
    """Return a page that needs no other file; text is escaped unless a template wrote it."""
    page = _templates().get_template(template).render(**values)
    return page.encode("utf-8", "replace").decode()  # names from files may hold half a character


@cache
def _templates() -> Environment:
    found = Environment(
        loader=PackageLoader("bfq.reports"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    found.filters |= {
        "counted": counted,
        "data_address": lambda png: f"data:image/png;base64,{base64.b64encode(png).decode()}",
        "heights": bar_heights,
        "short": short_number,
    }
    return found


def short_number(value: float) -> str:
    """A number with four significant figures and a true minus."""
    text = f"{value:,.0f}" if 1e3 <= abs(value) < 1e15 else f"{value:.4g}"
    return text.replace("-", "−")


def bar_heights(counts: Sequence[int]) -> list[float]:
    """Heights of bars in percent; small counts stay visible next to large ones."""
    top = max(counts, default=0) or 1
    return [max(100 * count / top, 0.8) if count else 0.0 for count in counts]
