"""A page as a list of blocks, rendered as Markdown or as HTML."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import NamedTuple

import jinja2

from bfq.reports.statistics import number_text


class Heading(NamedTuple):
    """A heading below the title."""

    text: str
    level: int = 2


class Paragraph(NamedTuple):
    """A paragraph."""

    text: str


class Listing(NamedTuple):
    """A list of sentences."""

    items: Sequence[str]
    numbered: bool = False


class Picture(NamedTuple):
    """A picture, by the path of its file."""

    file: str
    title: str
    caption: str
    png: bytes = b""  # empty if the file is there already


class Link(NamedTuple):
    """A link to another page."""

    text: str
    target: str


@dataclass(frozen=True)
class Grid:
    """A table; the first cell of each row is its name."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    # gain, loss, same or best, by row and column
    verdicts: Mapping[tuple[int, int], str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)  # of names in the first column

    def lines(self) -> list[str]:
        """The table in Markdown."""
        marks = [":--", *["--:"] * (len(self.head) - 1)]
        head = [escape(cell) for cell in self.head]
        rows = [[self._cell(at, k) for k in range(len(row))] for at, row in enumerate(self.rows)]
        return [f"| {' | '.join(row)} |" for row in (head, marks, *rows)]

    def _cell(self, row: int, column: int) -> str:
        """A cell in Markdown: a link, bold if it is the best of its row, or plain text."""
        text = self.rows[row][column]
        if column == 0 and text in self.links:
            return f"[{text}]({self.links[text]})"
        bold = "**" if self.verdicts.get((row, column)) == "best" else ""
        return f"{bold}{escape(text)}{bold}"


Block = Heading | Paragraph | Listing | Picture | Link | Grid

STYLE = """
table.grid { border-collapse: collapse; font-size: 0.85rem; }
.grid td, .grid th { padding: 0.3rem 0.6rem; text-align: right; white-space: nowrap; }
.grid tr > :first-child { text-align: left; font-weight: 400; }
.gain { background: color-mix(in srgb, #009e73 24%, transparent); }
.loss { background: color-mix(in srgb, #d55e00 24%, transparent); }
.same { background: color-mix(in srgb, #8a949e 16%, transparent); }
figure img { max-width: 100%; }
"""
TEMPLATE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }} · bfq</title><style>{{ css|safe }}</style></head><body><main>
<h1>{{ title }}</h1>
{% for kind, block in blocks %}
{% if kind == "Heading" %}<h{{ block.level }}>{{ block.text }}</h{{ block.level }}>
{% elif kind == "Paragraph" %}<p>{{ block.text }}</p>
{% elif kind == "Link" %}<p><a href="{{ block.target }}">{{ block.text }}</a></p>
{% elif kind == "Listing" %}{% set tag = "ol" if block.numbered else "ul" %}
<{{ tag }}>{% for item in block["items"] %}<li>{{ item }}</li>{% endfor %}</{{ tag }}>
{% elif kind == "Picture" %}<figure>
<img src="{{ block.file }}" alt="{{ block.title }}. {{ block.caption }}">
<figcaption><b>{{ block.title }}.</b> {{ block.caption }}</figcaption></figure>
{% else %}<div class="scroll" tabindex="0"><table class="grid"><thead>
<tr>{% for cell in block.head %}<th scope="col">{{ cell }}</th>{% endfor %}</tr></thead><tbody>
{% for row in block.rows %}{% set at = loop.index0 %}<tr><th scope="row">{{ row[0] }}</th>
{%- for cell in row[1:] %}<td class="{{ block.verdicts.get((at, loop.index), "") }}">{{ cell }}</td>
{%- endfor %}</tr>{% endfor %}
</tbody></table></div>
{% endif %}{% endfor %}</main></body></html>
"""


def markdown(title: str, blocks: Sequence[Block]) -> str:
    """The page in Markdown, without pictures."""
    parts = [f"# {escape(title)}"]
    for block in blocks:
        if isinstance(block, Heading):
            parts.append(f"{'#' * block.level} {escape(block.text)}")
        elif isinstance(block, Paragraph):
            parts.append(escape(block.text))
        elif isinstance(block, Listing):
            marks = (f"{k}." if block.numbered else "-" for k in range(1, len(block.items) + 1))
            parts.append(
                "\n".join(f"{m} {escape(x)}" for m, x in zip(marks, block.items, strict=True))
            )
        elif isinstance(block, Grid):
            parts.append("\n".join(block.lines()))
    return "\n\n".join(part for part in parts if part) + "\n"


def html(title: str, blocks: Sequence[Block]) -> str:
    """The page in HTML; pictures are files beside it."""
    css = resources.files("bfq.reports").joinpath("templates/page.css").read_text("utf-8")
    template = jinja2.Environment(autoescape=True).from_string(TEMPLATE)
    named = [(type(block).__name__, block) for block in blocks]
    return template.render(title=title, css=css + STYLE, blocks=named)


def escape(text: str) -> str:
    """Text without Markdown or HTML, on one line; `_` between letters needs no escape."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return re.sub(r"([\\`*|<>\[\]])", r"\\\1", line)


def number(value: float, unit: str = "") -> str:
    """A number with the _decimals that suit its unit, thousands separators and a true minus."""
    return number_text(value, _decimals(value, unit))


def _decimals(value: float, unit: str = "") -> int:
    """Digits after the point."""
    if unit in ("energy distance", "sliced Wasserstein-2 distance", "share on filled squares"):
        return 4
    return 3 if unit == "hours" and abs(value) < 1 else 0 if unit == "count" else 1


def signed(value: float | None, unit: str = "") -> str:
    """A difference with its sign and with the _decimals of a large number."""
    if value is None:
        return "–"
    text = f"{value:+,.{_decimals(max(abs(value), 1.0), unit)}f}".replace("-", "−")
    return text if any(c in "123456789" for c in text) else text.lstrip("+−")
