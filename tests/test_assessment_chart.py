"""The chart of an assessment: each mark is where its axes say, and the axes have round numbers."""

from collections.abc import Sequence
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from law_windows import WAVES, interval, intervals, known, seen_at, with_resources

from agent.export.assessment_chart import render_chart
from agent.export.page_colours import ORANGE_50
from agent.window.intervals import Interval
from models.arrays import Array
from models.capacity.result import Capacity
from models.trust import Trust

ROWS = intervals(WAVES)


def assessed(rows: Sequence[Interval]) -> Capacity:
    """The capacity by these intervals."""
    capacity = known(rows).capacity(seen_at(rows))
    assert capacity is not None
    return capacity


def chart(
    rows: Sequence[Interval], capacity: Capacity, now: tuple[float, float] | None = None
) -> ET.Element:
    """The chart of these intervals."""
    points = known(rows).assessed.intervals
    assert points is not None
    return ET.fromstring(render_chart(points, capacity, now))


def ticks(svg: ET.Element) -> tuple[Array, Array]:
    """The labels of the axes, (value, pixel) each: of the concurrency, and of the throughput."""
    known = [
        (one.get("text-anchor"), float((one.text or "").replace(",", "")), one)
        for one in svg.iter("text")
        if (one.text or "").replace(",", "").replace(".", "").isdigit()
    ]
    across = [(value, float(one.get("x", ""))) for side, value, one in known if side == "middle"]
    up = [(value, float(one.get("y", "")) - 4) for side, value, one in known if side == "end"]
    return np.array(across), np.array(up)


def values(axis: Array, pixels: Sequence[float]) -> list[float]:
    """Convert pixels to values by the labels of an axis."""
    found: list[float] = np.polyval(np.polyfit(axis[:, 1], axis[:, 0], 1), pixels).tolist()
    return found


def numbers(one: ET.Element, *names: str) -> list[float]:
    """These attributes."""
    return [float(one.get(name, "")) for name in names]


def test_each_interval_is_a_dot_at_its_concurrency_and_throughput() -> None:
    """The one with most of both too; a ring is where the load is now."""
    svg = chart(ROWS, assessed(ROWS), now=(20.0, 5000.0))
    across, up = ticks(svg)
    dots = [one for one in svg.iter("circle") if one.get("r") == "2.5"]
    at = [numbers(one, "cx", "cy") for one in dots]
    assert values(across, [x for x, _ in at]) == pytest.approx(WAVES, abs=0.1)
    throughputs = [row.throughput for row in ROWS]
    assert values(up, [y for _, y in at]) == pytest.approx(throughputs, abs=30)
    [ring] = [numbers(one, "cx", "cy") for one in svg.iter("circle") if one.get("r") == "6"]
    assert values(across, ring[:1]) == pytest.approx([20.0], abs=0.1)
    assert values(up, ring[1:]) == pytest.approx([5000.0], abs=30)


def test_the_capacity_is_a_level_with_its_interval() -> None:
    """Without an upper bound it reaches the top; what is not identifiable has no level."""
    rows = with_resources([row for row in ROWS if row.throughput < 4500], cpu=1 / 5000)
    rows = [row._replace(end=10.0 * (k + 1)) for k, row in enumerate(rows)]
    capacity = assessed(rows)
    for upper in (capacity.upper, None):
        svg = chart(rows, replace(capacity, upper=upper))
        _, up = ticks(svg)
        [level] = [one for one in svg.iter("line") if one.get("stroke") == ORANGE_50]
        assert values(up, numbers(level, "y1", "y2")) == pytest.approx([capacity.value] * 2, abs=30)
        [(top, height)] = [numbers(one, "y", "height") for one in svg.iter("rect")]
        assert values(up, [top + height]) == pytest.approx([capacity.lower], abs=30)
        assert top == 12.0 if upper is None else values(up, [top]) == pytest.approx([upper], abs=30)
    unknown = chart(rows, replace(capacity, trust=Trust.NOT_IDENTIFIABLE))
    assert not [one for one in unknown.iter("line") if one.get("stroke") == ORANGE_50]


@pytest.mark.parametrize("most", [0.7, 1.0, 1.6, 2.4, 4.0, 5.5, 8.0, 900.0])
def test_axes_have_four_to_ten_round_numbers(most: float) -> None:
    """Evenly spaced from 0, whatever the scale."""
    rows = [interval(k, most * load / 36, throughput=100 * load) for k, load in enumerate(WAVES)]
    for axis in ticks(chart(rows, assessed(rows))):
        step = axis[1, 0]
        assert 4 <= len(axis) <= 10
        assert axis[:, 0] == pytest.approx(step * np.arange(len(axis)))
        assert f"{step:.0e}"[0] in "125"


def test_the_label_names_the_law_only_where_there_is_one() -> None:
    """A screen reader says what the chart has."""
    capacity = assessed(ROWS)
    label = "throughput against concurrency"
    assert capacity.usl is not None
    assert chart(ROWS, capacity).get("aria-label") == f"{label}, with the fitted law"
    assert chart(ROWS, replace(capacity, usl=None)).get("aria-label") == label
