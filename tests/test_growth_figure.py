"""The figure of costs shows the measurements, and only those."""

import struct

import pytest

from bfq.reports.sweep_figures import (
    count_text,
    fixed_text,
    growth_figure,
    growth_panels,
    scale_limits,
    time_text,
)

BASE = {
    "agent": "bfq", "device": "a device", "members": 1, "batch": 256, "width": 256,
    "transitions": 10**6, "flow_steps": None,
}  # fmt: skip


def row(microseconds=500.0, **sizes):
    spread = [0.9 * microseconds, 1.2 * microseconds]
    return {**BASE, "microseconds_per_update": microseconds, "spread": spread, **sizes}


def along(axis, values, **fixed):
    return [row(100.0 * value, **{axis: value}, **fixed) for value in values]


def test_a_panel_for_every_axis_with_several_values():
    rows = [row(), *along("batch", (512, 64)), *along("members", (2, 4))]
    members, batch = growth_panels(rows)
    assert (members.axis, batch.axis) == ("members", "batch")
    assert members.values == [1, 2, 4]  # the base lies on both axes
    times = [one["microseconds_per_update"] for one in batch.lines[0].rows]
    assert times == [6400.0, 500.0, 51200.0]
    text = fixed_text([members, batch])
    assert text == "elsewhere members 1, batch 256, width 256, transitions 1 M"


def test_the_first_of_all_combinations_is_fixed():
    rows = [row(members=m, batch=b) for m in (3, 6) for b in (16, 32)]
    members, batch = growth_panels(rows)
    assert {one["batch"] for one in members.lines[0].rows} == {16}
    assert {one["members"] for one in batch.lines[0].rows} == {3}


def test_an_agent_without_inner_steps_is_a_level_line():
    fql = along("flow_steps", (5, 50), agent="fql")
    rows = [row(members=8), row(700.0), *fql, row(agent="iql", members=2)]
    (steps,) = (panel for panel in growth_panels(rows) if panel.axis == "flow_steps")
    bfq, fql, iql = steps.lines
    assert (bfq.x, fql.x, iql.x) == ((), (5, 50), ())
    assert bfq.rows[0]["members"] == 1  # that of the others, not the first
    lines = growth_panels([*rows, row(agent="dql", flow_steps=5)])[-1].lines
    assert [line.agent for line in lines] == ["bfq", "fql", "iql"]  # one point is not a line


def test_without_growth_there_is_no_figure():
    assert growth_figure([row(), row(agent="fql", flow_steps=10)]) is None
    assert growth_figure([]) is None


@pytest.mark.parametrize("agents", [("bfq",), ("bfq", "fql", *(f"agent_{k}" for k in range(14)))])
def test_the_figure_has_room_for_all_panels_and_agents(agents):
    rows = [one for name in agents for one in along("members", (1, 2, 256), agent=name)]
    more = [*rows, *along("batch", (1, 5)), *along("width", (1, 5))]
    sizes = [struct.unpack(">II", growth_figure(each)[16:24]) for each in (rows, more)]
    assert sizes[0][0] < sizes[1][0]
    assert sizes[0][1] == sizes[1][1]


def test_noise_is_not_shown_as_growth():
    rows = [row(500.0 + value % 7, transitions=value) for value in (10**4, 10**5, 10**6, 10**7)]
    low, high = scale_limits(growth_panels(rows))
    assert low < 450.0 < 600.0 < high
    assert high >= 3.99 * low
    assert growth_figure(rows) == growth_figure(rows)


@pytest.mark.parametrize(("text", "numbers", "expected"), [
    (count_text, (1, 4096, 10_000, 10**6, 10**7), "1, 4096, 10 k, 1 M, 10 M"),
    (time_text, (50, 200, 1000, 5e3, 2e6), "50 µs, 200 µs, 1 ms, 5 ms, 2 s"),
])  # fmt: skip
def test_numbers_are_short(text, numbers, expected):
    assert ", ".join(map(text, numbers)) == expected
