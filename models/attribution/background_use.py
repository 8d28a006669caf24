"""What a server uses of a resource at any load, apart from what its calls use.

What no class explains of a resource is of two kinds: what calls use and no class is counted for
(reading the statement, sending the answer), and background work, which is there at any load
(flushing, replication, the agent's own statements). With r what no class explains in an interval of
dt seconds with n calls, the utilisation law with a base (Denning and Buzen, "The Operational
Analysis of Queueing Network Models", ACM Computing Surveys 10, 1978) is

    r/dt = b + o·n/dt

fitted by least squares, intervals weighted by dt. At a higher load b is the same, and so a smaller
part of all that is used.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from models.attribution.class_time_series import AGENT, Array, ClassIntervals
from models.attribution.shared_unit_costs import calls

ANY_PART = (0.5, 12**-0.5)
"""The part of the rest that is background where nothing is known: uniform from 0 to 1."""


@dataclass(frozen=True, slots=True)
class BesideClasses:
    """What is used of a resource beside the clients' classes, as parts of all use, 0..1."""

    background: float = 0.0
    error: float = 0.0
    """Standard deviation of the background's part."""
    of_calls: float = 0.0
    """What calls use and no class is counted for."""


NOTHING_BESIDE = BesideClasses()


@dataclass(frozen=True)
class BackgroundUse:
    """Sums over intervals, from which the part of the background follows."""

    sums: Array
    """Σ of 1, dt, n, r, n²/dt, nr/dt and r²/dt, shape (7,)."""

    @classmethod
    def none(cls) -> Self:
        """Of no interval."""
        return cls(np.zeros(7))

    @classmethod
    def of(cls, intervals: ClassIntervals, y: Array, z: Array) -> Self:
        """Sum up intervals by their use y, shape (T,), and that of their classes z, shape (T, K).

        The agent asks the same at any load: what its class uses is background.
        """
        clients = np.array([name != AGENT for name in intervals.names], dtype=bool)
        n, rest = calls(intervals)[:, clients].sum(axis=1), y - z[:, clients].sum(axis=1)
        dt = intervals.seconds
        columns = np.ones_like(dt), dt, n, rest, n * n / dt, n * rest / dt, rest * rest / dt
        return cls(np.array([column.sum() for column in columns]))

    def faded(self, keep: float) -> "BackgroundUse":
        """Let them count for less."""
        return BackgroundUse(keep * self.sums)

    def __add__(self, other: "BackgroundUse") -> "BackgroundUse":
        """Add other intervals."""
        return BackgroundUse(self.sums + other.sums)

    def beside(self, total: float) -> BesideClasses:
        """Describe it, where all use is `total`; older intervals may count less in both."""
        if total <= 0:
            return NOTHING_BESIDE
        rest = min(max(float(self.sums[3]) / total, 0.0), 1.0)
        part, error = self.part
        return BesideClasses(part * rest, error * rest, (1 - part) * rest)

    @property
    def part(self) -> tuple[float, float]:
        """The part of the rest that is background, 0..1, and its standard deviation."""
        count, seconds, *_ = self.sums
        if seconds <= 0:
            return ANY_PART
        n, r, nn, nr, rr = self.sums[2:] / seconds
        spread = nn - n * n
        if r <= 0 or spread <= 0 or count <= 2:
            return ANY_PART
        slope = (nr - n * r) / spread
        noise = max(rr - r * r - slope * (nr - n * r), 0.0)
        error = np.sqrt(noise / (spread * (count - 2))) * n / r
        return _with_prior(1 - float(slope) * n / r, float(error))


def _with_prior(part: float, error: float) -> tuple[float, float]:
    """Weigh a measured part and `ANY_PART` by their variances."""
    mean, deviation = ANY_PART
    weight = deviation**2 / (deviation**2 + error**2)
    found = min(max(weight * part + (1 - weight) * mean, 0.0), 1.0)
    return found, weight**0.5 * error
