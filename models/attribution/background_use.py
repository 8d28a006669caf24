"""Background use: what a server uses of a resource at any load, apart from its calls.

The use that no class explains is of two kinds: that of calls, which is counted for no class
(reading the statement, sending the result), and background work, which is there at any load
(flushing, replication, the agent's own statements). With r the unexplained use in an interval of
dt seconds with n calls, the utilisation law with a base (Denning and Buzen, "The Operational
Analysis of Queueing Network Models", ACM Computing Surveys 10, 1978) is

    r/dt = b + o·n/dt

fitted by least squares, intervals weighted by dt. At a higher load b is the same, and so a smaller
part of all use.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from models.arrays import Array
from models.attribution.call_and_row_costs import call_counts
from models.attribution.class_interval_table import AGENT, ClassIntervals
from models.numerics import NEGLIGIBLE

BACKGROUND_PRIOR = (0.5, 12**-0.5)
"""Mean and standard deviation of the background's part of the unexplained use where nothing is
known: uniform from 0 to 1."""


@dataclass(frozen=True, slots=True)
class UnattributedUse:
    """The use of a resource that no client's class explains, as parts of all use, 0..1."""

    background: float = 0.0
    error: float = 0.0
    """Standard deviation of the background's part."""
    uncounted_calls: float = 0.0
    """The use of calls that is counted for no class."""


NOTHING_UNATTRIBUTED = UnattributedUse()


@dataclass(frozen=True, slots=True)
class BackgroundUse:
    """Sums over intervals, from which the background's part of the unexplained use r follows."""

    sums: Array
    """Σ of 1, dt, n, r, n²/dt, nr/dt and r²/dt, shape (7,)."""

    @classmethod
    def empty(cls) -> Self:
        """Return the sums of no interval."""
        return cls(np.zeros(7))

    @classmethod
    def of(cls, intervals: ClassIntervals, y: Array, z: Array) -> Self:
        """Sum up intervals by their use y, shape (T,), and that of their classes z, shape (T, K).

        The agent sends the same statements at any load, so its class counts as background.
        """
        is_client = np.array([name != AGENT for name in intervals.names], dtype=float)
        n, rest, dt = call_counts(intervals) @ is_client, y - z @ is_client, intervals.seconds
        columns = np.ones_like(dt), dt, n, rest, n * n / dt, n * rest / dt, rest * rest / dt
        return cls(np.array(columns).sum(axis=1))

    def faded(self, keep: float) -> "BackgroundUse":
        """Multiply the weight of all intervals by a factor."""
        return BackgroundUse(keep * self.sums)

    def __add__(self, other: "BackgroundUse") -> "BackgroundUse":
        """Add other intervals."""
        return BackgroundUse(self.sums + other.sums)

    def unattributed_use(self, total: float) -> UnattributedUse:
        """Return it as parts of all use, `total`; older intervals may count less in both."""
        if total <= 0:
            return NOTHING_UNATTRIBUTED
        rest = min(max(float(self.sums[3]) / total, 0.0), 1.0)
        part, error = self.part
        return UnattributedUse(part * rest, error * rest, (1 - part) * rest)

    @property
    def part(self) -> tuple[float, float]:
        """The background's part of the unexplained use, 0..1, and its standard deviation."""
        count, seconds, *_ = self.sums
        if seconds <= 0:
            return BACKGROUND_PRIOR
        n, r, nn, nr, rr = self.sums[2:] / seconds
        spread = nn - n * n
        if r <= 0 or spread <= NEGLIGIBLE * nn or count <= 2:
            return BACKGROUND_PRIOR
        slope = (nr - n * r) / spread
        noise = max(rr - r * r - slope * (nr - n * r), 0.0)
        error = np.sqrt(noise / (spread * (count - 2))) * n / r
        return _with_prior(1 - float(slope) * n / r, float(error))


def _with_prior(part: float, error: float) -> tuple[float, float]:
    """Average a measured part and `BACKGROUND_PRIOR`, weighted by their variances."""
    mean, deviation = BACKGROUND_PRIOR
    weight = deviation**2 / (deviation**2 + error**2)
    found = min(max(weight * part + (1 - weight) * mean, 0.0), 1.0)
    return found, weight**0.5 * error
