"""HTML that is escaped by construction: plain text cannot enter an element as anything but text."""

import html
from collections.abc import Iterable

VOID = ("meta", "img")


class Markup(str):
    """Text that is HTML already; any other text is escaped where it enters an element."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: str) -> Markup:
    """An element; `class_` stands for class, `data_label` for data-label."""
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(value)}"'
        for key, value in attributes.items()
    )
    return Markup(
        f"<{name}{told}>" if name in VOID else f"<{name}{told}>{joined(children)}</{name}>\n"
    )


def joined(parts: Iterable[str]) -> Markup:
    """Parts one after the other, each escaped unless it is markup."""
    return Markup(
        "".join(part if isinstance(part, Markup) else html.escape(part) for part in parts)
    )
