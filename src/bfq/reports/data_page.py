"""The page about a dataset: what is in it, in pictures and numbers, with nothing loaded from elsewhere."""

from collections.abc import Mapping, Sequence
from typing import Any

from bfq.errors import counted
from bfq.reports.charts import bars, heat, number, outline
from bfq.reports.html import facts as pairs
from bfq.reports.html import figure, page
from bfq.reports.markup import Markup, tag

MANY = 24  # action dimensions drawn
ROWS = 200  # observation dimensions listed
Facts = Mapping[str, Any]


def data_page(facts: dict[str, Any], replayed: dict[str, Any] | None) -> str:
    """The page of what `inspect` found, and `replay` where it was asked."""
    parts = [
        tag("h1", facts["name"]),
        tag("p", facts["source"], class_="quiet"),
        _tiles(facts),
        *_notes([*facts["notes"], *facts["remarks"]]),
        *_episodes(facts["episodes"]),
        *_rewards(facts["rewards"]),
        *_actions(facts["actions"]),
        *_coverage(facts),
        *_observations(facts["observations"]),
        *(_replay(replayed) if replayed else []),
        tag("h3", "Fingerprint"),
        tag("pre", tag("code", f"sha256 {facts['sha256']}")),
    ]
    # a name from a file may hold half a character, which no file could be written with
    return (
        page(facts["name"], tag("section", *parts, class_="data"))
        .encode("utf-8", "replace")
        .decode()
    )


def _tiles(facts: Facts) -> Markup:
    counts, ends = facts["counts"], facts["episodes"]
    seen, acts = (
        counted(counts["observation_dim"], "observation"),
        counted(counts["action_dim"], "action"),
    )
    told = ends["return"]
    tiles = [
        (
            "Transitions",
            f"{counts['transitions']:,}",
            f"{seen}, {acts}, {counts['bytes'] / 1e6:,.3g} MB",
        ),
        (
            "Episodes",
            f"{counts['episodes']:,}",
            f"{number(ends['length']['median'])} steps in the median",
        ),
        ("Return", number(told["mean"]), f"± {number(told['std'])}, at most {number(told['max'])}"),
        ("Effective dimension", f"{facts['coverage']['effective_dimension']:.1f}", _reach(facts)),
    ]
    return tag("div", *(_tile(*tile) for tile in tiles), class_="tiles")


def _tile(name: str, value: str, words: str) -> Markup:
    return tag("div", tag("span", name), tag("b", value), tag("span", words), class_="tile")


def _reach(facts: Facts) -> str:
    width = facts["counts"]["observation_dim"]
    constant = width - facts["coverage"]["varying"]
    return f"of {counted(width, 'observation')}" + (
        f", {constant} of them constant" if constant else ""
    )


def _notes(sentences: Sequence[str]) -> list[Markup]:
    items = [tag("li", sentence) for sentence in sentences]
    body = (
        tag("ul", *items, class_="notes")
        if items
        else tag("p", "Nothing stands out.", class_="quiet")
    )
    return [tag("h3", "What to know"), body]


def _episodes(ends: Facts) -> list[Markup]:
    panels = [
        _panel("Returns", ends["return"], "episodes by their return"),
        _panel("Lengths", ends["length"], "episodes by their number of steps", whole=True),
    ]
    told = {}
    if ends["masked_inside"]:
        told["terminal rows inside episodes"] = f"{ends['masked_inside']:,}"
    if ends["length_return_correlation"] is not None:
        told["correlation of length and return"] = number(
            round(ends["length_return_correlation"], 2)
        )
    drawn = [tag("div", *panels, class_="panels"), _split(ends["terminated"], ends["timed_out"])]
    return [tag("h3", "Episodes"), *drawn, pairs(told)]


def _panel(title: str, of: Facts, words: str, whole: bool = False) -> Markup:
    counts, edges = of["histogram"]["counts"], of["histogram"]["edges"]
    drawn = bars(counts, edges, of["mean"], f"Histogram: {words}", whole)
    middle = f"median {number(of['median'])}, half from {number(of['q25'])} to {number(of['q75'])}"
    spread = f"mean {number(of['mean'])} ± {number(of['std'])}"
    return _card(title, drawn, f"{spread}; {middle}.")


def _card(title: str, drawn: Markup, words: str) -> Markup:
    return tag("div", tag("b", title), drawn, tag("p", words), class_="panel")


def _split(terminated: int, timed_out: int) -> Markup:
    """How the episodes end: one bar in two colors, with both numbers under it."""
    kinds = (("terminated", terminated), ("timed out or cut off", timed_out))
    pieces = [
        tag("span", style=f"flex-grow: {count}", class_=name.split()[0])
        for name, count in kinds
        if count
    ]
    words = [f"{count:,} {name} ({count / (terminated + timed_out):.1%})" for name, count in kinds]
    legend = tag("div", *(tag("span", text) for text in words), class_="ends")
    return tag("div", tag("div", *pieces, class_="split"), legend)


def _rewards(got: Facts) -> list[Markup]:
    spread = f"mean {number(got['mean'])} ± {number(got['std'])}"
    words = f"{number(got['low'])} to {number(got['high'])}, {spread}; {got['zeros']:.1%} are 0."
    if got["values"]:
        rows = [_value(value, share) for value, share in got["values"]]
        return [
            tag("h3", "Rewards"),
            tag("table", tag("tbody", *rows), class_="shares"),
            _quiet(words),
        ]
    histogram = got["histogram"]
    drawn = bars(
        histogram["counts"], histogram["edges"], got["mean"], "Histogram: rows by their reward"
    )
    return [tag("h3", "Rewards"), _card("Reward of a row", drawn, words)]


def _value(value: float, share: float) -> Markup:
    bar = tag("span", style=f"width: {100 * share:.2f}%", class_="share")
    return tag(
        "tr", tag("th", number(value), scope="row"), tag("td", bar), tag("td", f"{share:.2%}")
    )


def _quiet(words: str) -> Markup:
    return tag("p", words, class_="quiet small")


def _actions(acts: Facts) -> list[Markup]:
    shown = acts["histograms"][:MANY]
    panels = [
        _card(
            f"Action {k}",
            outline(
                counts, acts["bound_low"][k], acts["bound_high"][k], f"Histogram of action {k}"
            ),
            f"{acts['at_bound'][k]:.1%} at a bound",
        )
        for k, counts in enumerate(shown)
    ]
    words = (
        f"{acts['saturation']:.1%} of all actions are at a bound, within a thousandth of the range."
    )
    left = len(acts["histograms"]) - len(shown)
    more = f" {counted(left, 'more dimension')} not drawn." if left else ""
    return [tag("h3", "Actions"), tag("div", *panels, class_="panels many"), _quiet(words + more)]


def _coverage(facts: Facts) -> list[Markup]:
    reach, copies, joined = facts["coverage"], facts["duplicates"], facts["consistency"]
    rows = facts["counts"]["transitions"]
    told = {
        "effective dimension": f"{reach['effective_dimension']:.2f} of {reach['varying']} that vary",
        "cells one standard deviation wide": f"{reach['cells']:,}, {rows / reach['cells']:,.3g} rows each",
        "repeated transitions": f"{copies['transitions']:,} ({copies['transitions'] / rows:.2%})",
        "repeated observations": f"{copies['observations']:,} ({copies['observations'] / rows:.2%})",
    }
    if reach["spacing"]:
        near = reach["spacing"]
        told["nearest neighbor"] = (
            f"{number(near['median'])} in the median of {near['rows']:,} rows, "
            f"{number(near['q05'])} to {number(near['q95'])} for nine of ten"
        )
    if joined["equal"] is not None:
        off = "" if joined["equal"] == 1 else f", off by {number(joined['max_deviation'])} at most"
        told["next observation is the next row's"] = (
            f"in {joined['equal']:.2%} of {joined['compared']:,} rows{off}"
        )
    return [*_plane(reach), tag("h3", "Coverage and repeats"), pairs(told)]


def _plane(reach: Facts) -> list[Markup]:
    if reach["plane"] is None:
        return []
    across, *up = (
        f"{name} principal axis, {share:.0%} of the variance"
        for name, share in zip(("first", "second"), reach["explained"], strict=False)
    )
    second = f" Upward: the {up[0]}." if up else ""
    caption = (
        f"All observations, standardized. To the right: the {across}.{second} The stronger the color, the "
        f"more rows; {reach['plane']['visited']:.0%} of the picture was visited."
    )
    picture = figure("Where the observations lie", heat(reach["plane"]["counts"]), caption)
    return [tag("div", *picture, class_="plane")]


def _observations(seen: Facts) -> list[Markup]:
    names = ("low", "mean", "std", "high")
    columns = [seen[name][:ROWS] for name in names]
    left = len(seen["low"]) - len(columns[0])
    table = _numbers(("", "Lowest", "Mean", "Std", "Highest"), columns)
    more = [_quiet(f"{counted(left, 'more dimension')} not listed.")] if left else []
    return [tag("h3", "Observations"), _folded("Range of every dimension", table, *more)]


def _numbers(head: Sequence[str], columns: Sequence[Sequence[float]]) -> Markup:
    """A table of numbers whose rows are counted."""
    top = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in head)))
    rows = [
        tag("tr", tag("th", str(k), scope="row"), *(tag("td", number(value)) for value in values))
        for k, values in enumerate(zip(*columns, strict=True))
    ]
    return tag("table", top, tag("tbody", *rows), class_="numbers")


def _folded(title: str, *parts: Markup) -> Markup:
    return tag("details", tag("summary", title), *parts)


def _replay(replayed: Facts) -> list[Markup]:
    versions = ", ".join(f"{name} {version}" for name, version in replayed["versions"].items())
    far, each = replayed["relative"], replayed["dimensions"]
    told = {
        "simulator": f"{replayed['simulator']} ({versions})",
        "rows stepped": f"{replayed['rows']:,}",
        "off after one step": f"{_error(far)} standard deviations",
        "in the observation's units": _error(replayed["observation"]),
        "reward off by": _error(replayed["reward"]),
        **{
            f"{counted(at['steps'], 'step')} into an episode": _drift(at)
            for at in replayed["drift"]
        },
    }
    columns = [each[name][:ROWS] for name in ("std", "median", "q95", "max")]
    table = _numbers(("", "Std in the data", "Median error", "95 %", "Largest"), columns)
    return [
        tag("h3", "Replayed in a simulator"),
        tag("p", replayed["verdict"], class_="verdict"),
        tag("ul", *(tag("li", note) for note in replayed["notes"]), class_="notes"),
        pairs(told),
        _folded("Error of every dimension", table),
    ]


def _drift(at: Facts) -> str:
    episodes = counted(at["episodes"], "episode")
    return f"{at['median']:.2g} standard deviations in the median of {episodes}, {at['max']:.2g} at most"


def _error(error: Mapping[str, float]) -> str:
    return f"{error['median']:.2g} in the median, {error['q95']:.2g} at 95 %, {error['max']:.2g} at most"
