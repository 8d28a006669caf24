"""A histogram of response times: its quantiles and their sampling error."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from models.arrays import Array
from models.distribution_functions import NORMAL_95
from models.numerics import NEGLIGIBLE


@dataclass(frozen=True, eq=False)
class ResponseTimes:
    """Statements by response time. All arrays have shape (buckets,), rising and without gaps."""

    low: Array = field(repr=False)
    high: Array = field(repr=False)
    """Seconds."""
    counts: Array = field(repr=False)

    @classmethod
    def of(cls, buckets: Mapping[tuple[float, float], float]) -> Self:
        """Build the histogram from counts by (from, to), seconds."""
        edges = sorted(buckets)
        counts = np.array([buckets[edge] for edge in edges], dtype=np.float64)
        low, high = np.array(edges, dtype=np.float64).reshape(-1, 2).T
        return cls(low, high, counts)

    @property
    def calls(self) -> float:
        """The number of statements."""
        return float(self.counts.sum())

    def quantile(self, share: Array | float) -> Array:
        """Compute the response time that this share of the calls does not exceed, s.

        Shares have any shape; those below 0 and above 1 give the least and the greatest time. Calls
        are assumed to be spread evenly within a bucket; there must be at least one.
        """
        rank = np.asarray(share) * self.calls
        before = np.cumsum(self.counts) - self.counts
        at = np.maximum(np.searchsorted(before, rank, side="left") - 1, 0)
        part = (rank - before[at]) / np.maximum(self.counts[at], NEGLIGIBLE)
        found: Array = self.low[at] + np.clip(part, 0.0, 1.0) * (self.high[at] - self.low[at])
        return found

    def draw_quantile(self, share: float, normal: Array) -> Array:
        """Draw the quantile with its sampling error, shape of `normal` (a standard normal).

        How many of n calls are below the true quantile is binomial (H. A. David, H. N. Nagaraja,
        Order Statistics, 2003, section 7.1), here by its normal approximation.
        """
        deviation = np.sqrt(share * (1 - share) / max(self.calls, 1.0))
        return self.quantile(share + deviation * normal)

    def interval(self, share: float) -> tuple[float, float]:
        """Compute the 90 % interval of the quantile, s."""
        low, high = self.draw_quantile(share, np.array([-NORMAL_95, NORMAL_95]))
        return float(low), float(high)
