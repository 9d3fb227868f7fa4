"""HTML elements of the pages of experiments, escaped by construction, in the style of reports."""

import base64
import html
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import NamedTuple

VOID = ("meta", "img")


class Markup(str):
    """Text that is HTML already; any other text is escaped where it enters an element."""

    __slots__ = ()


class Drawn(NamedTuple):
    """A picture with its file name, its title and its caption."""

    file: str
    title: str
    png: bytes
    caption: str
    photo: bool = False  # frames of a simulator keep their colors on a dark page


def tag(name: str, /, *children: str, **attributes: str) -> Markup:
    """An element; `class_` stands for class, `data_label` for data-label."""
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(value)}"'
        for key, value in attributes.items()
    )
    return Markup(
        f"<{name}{shown}>" if name in VOID else f"<{name}{shown}>{_joined(children)}</{name}>\n"
    )


def _joined(parts: Iterable[str]) -> Markup:
    return Markup(
        "".join(part if isinstance(part, Markup) else html.escape(part) for part in parts)
    )


def page(title: str, *parts: Markup) -> str:
    """A whole page that needs no other file."""
    style = resources.files("bfq.reports").joinpath("templates/page.css").read_text("utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{title} · bfq"),
        tag("style", Markup(style)),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', tag('main', *parts)), lang='en')}"


def facts(values: Mapping[str, str]) -> Markup:
    """A table of names and values."""
    rows = [
        tag("tr", tag("th", name, scope="row"), tag("td", value)) for name, value in values.items()
    ]
    return tag("table", tag("tbody", *rows), class_="facts")


def list_of(title: str, texts: Sequence[str], kind: str = "ul") -> list[Markup]:
    """Sentences under a title; nothing if there are none."""
    if not texts:
        return []
    return [tag("h3", title), tag(kind, *(tag("li", text) for text in texts), class_="notes")]


def scrolled(table: Markup, kind: str = "") -> Markup:
    """A table that scrolls sideways on a narrow screen; `kind` is an additional class."""
    return tag("div", table, class_=f"scroll {kind}".strip(), tabindex="0")


def figure(title: str, png: bytes | None, caption: str, photo: bool = False) -> list[Markup]:
    """A picture with its title and caption; nothing if there is none."""
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
