"""How a utilisation goes on beyond what was seen: its demand stays, grows, or falls.

Utilisation law U = U0 + D·X (Denning, Buzen 1978), with a demand per query that need not stay:

    it grows, contention burns the resource:         U = U0 + D·X + Q·X²              (1)
    it falls, a query that finds the resource idle
    pays w for waking it, the others do not:         U = U0 + D·X + w·X·(1 − U)       (2)

Queries come at any time, so a share 1 − U of them finds one processor idle. (2) is linear in U0,
a = D + w and w where U is known: U = U0 + a·X − w·X·U. Either reaches a ceiling c where an
expression that is linear in the coefficients does, so how uncertain that place is follows without
an approximation (E. Fieller 1954): P(wall ≤ X) = P(U(X) ≥ c).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from models.robust import LinearFit, fit_linear, student_cdf
from models.usl import Array

NOISE = 0.002
"""The least deviation of a utilisation."""
BASE_PRIOR = (0.02, 0.1)
"""U0, mean and deviation, as shares of the ceiling: matters where all loads are alike."""
OWN_BASE_PRIOR = (0.005, 0.015)
"""The same for what the server itself uses: one that is asked nothing uses next to nothing."""
STEADY, GROWING, FALLING = (0.0, 0.05), (0.25, 0.3), (0.45, 0.2)
"""Mean and deviation of what the demand does: of the first two its growth up to the wall, Q·X/D; of
the last w/(D + w)."""
SHARES = (0.8, 0.12, 0.08)
"""The probability of each."""
OWN_SHARES = (0.3, 0.1, 0.6)
"""The same for a processor, of which the server's own part is known: waking it costs."""
CEILING = (0.975, 0.01)
"""Where a resource is full, mean and deviation: some end before all of their time is used."""


@dataclass(frozen=True, eq=False)
class Part:
    """One part of a utilisation over throughput t, and what is believed of its base."""

    t: Array = field(repr=False)
    u: Array = field(repr=False)
    weights: Array = field(repr=False)
    """Shape (intervals,), all three; weight 0 where it does not count."""
    fit: LinearFit
    """Coefficients of 1, t and t²."""
    base: tuple[float, float] = BASE_PRIOR
    shares: tuple[float, float, float] = SHARES

    @cached_property
    def bent(self) -> LinearFit:
        """With its base's prior, and any curvature."""
        return self.fit.given(_unit(0), *self.base)

    @cached_property
    def straight(self) -> LinearFit:
        """The same, without a curvature."""
        return self.bent.given(_unit(2), 0.0, 1e-6)

    @property
    def slope(self) -> float:
        """What one more unit of throughput adds."""
        return float(self.straight.coefficients[1])

    @property
    def is_demand(self) -> bool:
        """Whether it grows with the throughput for sure."""
        return self.slope > 2 * float(np.sqrt(self.straight.covariance[1, 1]))

    def awake(self, total: Array) -> LinearFit:
        """Fit (2): the coefficients of 1, t and −t·U, where total is U at each t."""
        design = np.stack([np.ones_like(self.t), self.t, -self.t * total], axis=1)
        return fit_linear(design, self.u, self.weights, NOISE).given(_unit(0), *self.base)


@dataclass(frozen=True, eq=False)
class Course:
    """One way to go on, and the probability that the points leave it."""

    fit: LinearFit
    share: float
    falls: bool
    """Whether the third coefficient is w of (2), and not Q of (1)."""

    def reached(self, t: Array) -> Array:
        """Compute the probability that the ceiling is reached at each t, ascending; never falls."""
        ceiling, deviation = CEILING
        third = -t * ceiling if self.falls else t * t
        rows = np.stack([np.ones_like(t), t, third], axis=1)
        over = rows @ self.fit.coefficients - ceiling
        steep = 1 + self.fit.coefficients[2] * t if self.falls else 1.0
        variance = np.sum(rows @ self.fit.covariance * rows, axis=1) + (deviation * steep) ** 2
        cdf: Array = np.maximum.accumulate(student_cdf(over / np.sqrt(variance), self.fit.freedom))
        return cdf


def courses(parts: Sequence[Part], reach: float) -> list[Course]:
    """Weigh how the first part goes on, while the others stay; steady, growing, falling.

    reach is the t at which the sum is full if its demand stays.
    """
    first, others = parts[0], [part.straight for part in parts[1:]]
    unit = _unit(2) / (first.slope / reach)
    smooth = sum((part.bent.coefficients for part in parts), np.zeros(3))
    total = np.clip(np.stack([first.t**k for k in range(3)], axis=1) @ smooth, 0.0, 1.0)
    awake = first.awake(total)
    tried = [(first.bent, unit, STEADY), (first.bent, unit, GROWING)]
    mean, deviation = FALLING
    per_slope = (_unit(2) - mean * _unit(1)) / float(awake.coefficients[1])
    tried.append((awake, per_slope, (0.0, deviation)))
    ln_p = np.log(first.shares) + [_evidence(*each) for each in tried]
    shares = np.exp(ln_p - ln_p.max())
    shares = shares / shares.sum()
    return [
        Course(_sum(fit.given(row, *prior), others), float(share), falls=fit is awake)
        for (fit, row, prior), share in zip(tried, shares, strict=True)
    ]


def _evidence(fit: LinearFit, row: Array, prior: tuple[float, float]) -> float:
    """Compute ln p(points, this course) up to a constant: its third coefficient is summed out."""
    mean, deviation = prior
    found, variance = float(row @ fit.coefficients), float(row @ fit.covariance @ row)
    spread = variance + deviation**2
    ln_p = 0.5 * np.log(variance / spread) - 0.5 * (found - mean) ** 2 / spread
    return float(ln_p - fit.freedom * np.log(fit.scale))


def _sum(bend: LinearFit, others: Sequence[LinearFit]) -> LinearFit:
    """Add the parts of a utilisation; their errors are independent."""
    coefficients = bend.coefficients + sum(other.coefficients for other in others)
    covariance = bend.covariance + sum(other.covariance for other in others)
    return replace(bend, coefficients=coefficients, covariance=covariance)


def _unit(index: int) -> Array:
    """Point along one of the three coefficients."""
    row = np.zeros(3)
    row[index] = 1.0
    return row
