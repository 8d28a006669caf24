"""A fit as a small inline SVG: points, curve and the predicted peak."""

import math
from dataclasses import dataclass

import numpy as np

from agent.commands.fit_words import quantity
from models.rates import Array
from models.usl_fit import UslFit

WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, BOTTOM, TOP = 64, 16, 34, 12
MOST_POINTS = 300
BLUE, ORANGE, RED = "#3b82c4", "#d9730d", "#c4453b"


@dataclass(frozen=True, slots=True)
class _Frame:
    """The plot's area: `right` threads across, `top` queries/s up."""

    right: float
    top: float

    def place(self, n: float, x: float) -> tuple[float, float]:
        """Where a point lies in the picture."""
        across = LEFT + (WIDTH - LEFT - RIGHT) * n / self.right
        up = HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * x / self.top
        return round(across, 1), round(up, 1)


def chart(n: Array, x: Array, fit: UslFit, now: tuple[float, float] | None = None) -> str:
    """An SVG element; n (threads) and x (queries/s) of shape (points,); `now`: the load's n, x."""
    seen = float(n.max())
    right = max(1.15 * seen, min(1.3 * (fit.n_max or 0.0), 3 * seen))
    at = np.linspace(0.0, right, 120)[1:]
    curve = np.asarray(fit.law.throughput(at))
    frame = _Frame(right, 1.15 * max(float(x.max()), float(curve.max())))
    dot = 'fill="currentColor" opacity=".45"'
    points = (_circle(*frame.place(a, b), 2.5, dot) for a, b in _thinned(n, x))
    line = " ".join(f"{px},{py}" for px, py in map(frame.place, at, curve))
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="throughput against'
        f' concurrency, with the fitted law">{_axes(frame)}{"".join(points)}'
        f'<polyline points="{line}" fill="none" stroke="{BLUE}" stroke-width="2"/>'
        f"{_peak(frame, fit)}{_now(frame, now)}</svg>"
    )


def _peak(frame: _Frame, fit: UslFit) -> str:
    if fit.n_max is None or fit.x_max is None or fit.n_max > frame.right:
        return ""
    px, py = frame.place(fit.n_max, fit.x_max)
    return _circle(px, py, 5, f'fill="{ORANGE}"') + _text(px, py - 9, "predicted peak", "middle")


def _now(frame: _Frame, now: tuple[float, float] | None) -> str:
    if now is None:
        return ""
    px, py = frame.place(*now)
    ring = _circle(px, py, 6, f'fill="none" stroke="{RED}" stroke-width="2"')
    return ring + _text(px, py + 20, "now", "middle")


def _thinned(n: Array, x: Array) -> list[tuple[float, float]]:
    """The latest points, no more than a page needs."""
    return list(zip(n[-MOST_POINTS:].tolist(), x[-MOST_POINTS:].tolist(), strict=True))


def _circle(px: float, py: float, radius: float, style: str) -> str:
    return f'<circle cx="{px}" cy="{py}" r="{radius}" {style}/>'


def _axes(frame: _Frame) -> str:
    floor = HEIGHT - 18
    parts = [_text(frame.place(n, 0)[0], floor, quantity(n), "middle") for n in _ticks(frame.right)]
    for x in _ticks(frame.top):
        py = frame.place(0.0, x)[1]
        parts.append(_text(LEFT - 6, py + 4, quantity(x), "end"))
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{py}" y2="{py}" stroke="currentColor"'
            ' opacity=".12"/>'
        )
    parts.append(_text((LEFT + WIDTH) / 2, HEIGHT - 3, "concurrency (threads)", "middle"))
    parts.append(_text(LEFT + 4, TOP + 2, "queries/s", "start"))
    return "".join(parts)


def _ticks(top: float) -> list[float]:
    """Round numbers from 0 up to `top`, four to ten of them."""
    magnitude = 10.0 ** math.floor(math.log10(top))
    step = next(s for s in (0.2, 0.5, 1.0, 2.0) if top / (s * magnitude) <= 9) * magnitude
    return [step * k for k in range(int(top / step) + 1)]


def _text(px: float, py: float, text: str, anchor: str) -> str:
    return (
        f'<text x="{px}" y="{py}" font-size="11" fill="currentColor" opacity=".7"'
        f' text-anchor="{anchor}">{text}</text>'
    )
