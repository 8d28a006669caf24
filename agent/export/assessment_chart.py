"""An assessment as a small inline SVG: points, what was left out, the law and the capacity.

Matplotlib, which `--plot` uses, is not used here: it takes 48 MiB, as much as the whole agent.
"""

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from agent.assessment.assessed_intervals import AssessedIntervals, Disposition
from agent.assessment.deploy_markers import Marker
from agent.export.number_formats import format_number
from agent.export.page_colours import BLUE_60, GREEN_50, ORANGE_50, RED_60
from agent.support.counted import counted
from models.arrays import Array
from models.capacity.result import Capacity
from models.trust import Trust
from models.usl.fit import UslFit

WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, BOTTOM, TOP = 64, 16, 34, 12
MAX_ABOVE = 2.0  # multiple of the greatest throughput seen up to which a capacity is shown
FAINT = "0.15"
"""Opacity of what is only context: grid lines, the interval's area, points of other workloads."""


@dataclass(frozen=True, slots=True)
class _Frame:
    """The plot's area: `right` threads wide, `top` queries/s high."""

    right: float
    top: float

    def pixel(self, n: float, x: float) -> tuple[float, float]:
        """Return the pixel coordinates of a point."""
        across = LEFT + (WIDTH - LEFT - RIGHT) * n / self.right
        up = HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * x / self.top
        return round(across, 1), round(up, 1)


def render_chart(
    points: AssessedIntervals,
    capacity: Capacity,
    now: tuple[float, float] | None,
    marker: Marker | None = None,
) -> str:
    """Return an SVG element; empty if no concurrency is known; `now` is the load's N and X.

    Points since the deploy marker have another colour.
    """
    n, x = points.concurrency_and_throughput(Disposition.USED)
    if len(n) == 0:
        return ""
    later = points.ended_after(Disposition.USED, marker.at if marker else math.inf)
    law, seen = capacity.usl, float(n.max())
    right = max(1.15 * seen, min(1.3 * (law.n_max or 0.0), 3 * seen) if law else 0.0)
    at = np.linspace(0.0, right, 120)[1:]
    curve = np.asarray(law.law.throughput(at)) if law else x
    ceiling = min(capacity.value or 0.0, MAX_ABOVE * float(x.max()))
    frame = _Frame(right, 1.15 * max(float(x.max()), float(curve.max()), ceiling))
    parts = [
        _axes(frame),
        _capacity_level(frame, capacity),
        _dots(
            frame,
            *points.concurrency_and_throughput(Disposition.OTHER_WORKLOAD),
            f'fill="currentColor" opacity="{FAINT}"',
        ),
        _dots(frame, n[~later], x[~later], 'fill="currentColor" opacity=".5"'),
        _dots(frame, n[later], x[later], f'fill="{BLUE_60}"'),
        _crosses(frame, *points.concurrency_and_throughput(Disposition.OUTLIER)),
        _curve(frame, at, curve) if law else "",
        _peak(frame, law) if law else "",
        _present_load(frame, now),
    ]
    label = f"throughput against concurrency{', with the fitted law' if law else ''}"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg>"
    )


def render_legend(points: AssessedIntervals, *, has_chart: bool) -> str:
    """Describe what was left out, in the chart as crosses and faint dots; empty if nothing was."""
    cross, dots = ("× left out", "faint dots") if has_chart else ("Left out", "Left out")
    parts = []
    others = int(np.count_nonzero(points.dispositions == Disposition.OTHER_WORKLOAD.value))
    if points.outliers:
        count = Counter(outlier.reason for outlier in points.outliers)
        reasons = "; ".join(f"{n} as {reason.sentence}" for reason, n in count.most_common())
        parts.append(f"{cross}: {reasons}")
    if others:
        end = ", left out" if has_chart else ""
        parts.append(f"{dots}: {counted(others, 'interval')} of another workload{end}")
    return ". ".join(parts)


def _dots(frame: _Frame, n: Array, x: Array, style: str) -> str:
    inside = n <= frame.right
    return "".join(_circle(*frame.pixel(a, b), 2.5, style) for a, b in _pairs(n[inside], x[inside]))


def _crosses(frame: _Frame, n: Array, x: Array) -> str:
    """Draw outliers; those outside the area at its edge, because a pile-up can be far out."""
    strokes = []
    for a, b in _pairs(np.minimum(n, frame.right), np.minimum(x, frame.top)):
        px, py = frame.pixel(a, b)
        strokes.append(f"M{px - 4},{py - 4}l8,8m0,-8l-8,8")
    if not strokes:
        return ""
    title = "<title>left out as an outlier</title>"
    return f'<path d="{"".join(strokes)}" fill="none" stroke="{RED_60}">{title}</path>'


def _curve(frame: _Frame, at: Array, curve: Array) -> str:
    line = " ".join(f"{px},{py}" for px, py in (frame.pixel(a, b) for a, b in _pairs(at, curve)))
    return f'<polyline points="{line}" fill="none" stroke="{BLUE_60}" stroke-width="2"/>'


def _capacity_level(frame: _Frame, capacity: Capacity) -> str:
    """Draw the capacity as a level with its interval, if it is identifiable and within the area."""
    is_identifiable = capacity.trust is not Trust.NOT_IDENTIFIABLE
    if not is_identifiable or capacity.value is None or capacity.value > frame.top:
        return ""
    py = frame.pixel(0.0, capacity.value)[1]
    low, high = capacity.lower or capacity.value, capacity.upper or frame.top
    top, floor = (frame.pixel(0.0, bound)[1] for bound in (min(high, frame.top), low))
    band = (
        f'<rect x="{LEFT}" y="{top}" width="{WIDTH - RIGHT - LEFT}" height="{floor - top:.1f}"'
        f' fill="{ORANGE_50}" opacity="{FAINT}"><title>90 % interval of the capacity</title></rect>'
    )
    level = (
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{py}" y2="{py}" stroke="{ORANGE_50}"'
        ' stroke-dasharray="6 4"/>'
    )
    return band + level + _text(WIDTH - RIGHT, top - 5, "capacity", "end")


def _peak(frame: _Frame, fit: UslFit) -> str:
    if fit.n_max is None or fit.x_max is None or fit.n_max > frame.right:
        return ""
    px, py = frame.pixel(fit.n_max, fit.x_max)
    is_trusted = fit.trust is Trust.TRUSTED
    style = f'fill="{ORANGE_50}"' if is_trusted else f'fill="none" stroke="{ORANGE_50}"'
    name = "USL peak" if is_trusted else "perhaps the USL peak"
    return _circle(px, py, 5, style) + _text(px, py + 18, name, "middle")


def _present_load(frame: _Frame, now: tuple[float, float] | None) -> str:
    if now is None:
        return ""
    px, py = frame.pixel(*now)
    ring = _circle(px, py, 6, f'fill="none" stroke="{GREEN_50}" stroke-width="2"')
    return ring + _text(px, py + 20, "now", "middle")


def _pairs(n: Array, x: Array) -> list[tuple[float, float]]:
    return list(zip(n.tolist(), x.tolist(), strict=True))


def _circle(px: float, py: float, radius: float, style: str) -> str:
    return f'<circle cx="{px}" cy="{py}" r="{radius}" {style}/>'


def _axes(frame: _Frame) -> str:
    floor = HEIGHT - 18
    parts = [
        _text(frame.pixel(n, 0)[0], floor, format_number(n), "middle") for n in _ticks(frame.right)
    ]
    for x in _ticks(frame.top):
        py = frame.pixel(0.0, x)[1]
        parts.append(_text(LEFT - 6, py + 4, format_number(x), "end"))
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{py}" y2="{py}" stroke="currentColor"'
            f' opacity="{FAINT}"/>'
        )
    parts.append(_text((LEFT + WIDTH) / 2, HEIGHT - 3, "concurrency (threads)", "middle"))
    parts.append(_text(LEFT + 4, TOP + 2, "queries/s", "start"))
    return "".join(parts)


def _ticks(top: float) -> list[float]:
    """Return four to ten round numbers from 0 up to `top`."""
    magnitude = 10.0 ** math.floor(math.log10(top))
    step = next(s for s in (0.2, 0.5, 1.0, 2.0) if top / (s * magnitude) <= 9) * magnitude
    return [step * k for k in range(int(top / step) + 1)]


def _text(px: float, py: float, text: str, anchor: str) -> str:
    return (
        f'<text x="{px}" y="{py}" font-size="11" fill="currentColor" opacity=".7"'
        f' text-anchor="{anchor}">{text}</text>'
    )
