"""Counts of outliers over all assessments, and the time of the latest change of the mix.

The window is assessed again with every interval, so the same outlier is found many times; it is
counted once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from models.capacity.observations import Observations
from models.capacity.outliers import OutlierReason
from models.capacity.result import Capacity


@dataclass(frozen=True, slots=True)
class OutlierCounts:
    """Outliers counted so far; immutable, `with_assessment` returns the updated counts.

    Times are monotonic seconds unless stated otherwise.
    """

    counted_since: float = -inf
    """Intervals that ended before this are not counted: an earlier process counted them."""
    outliers: Mapping[OutlierReason, int] = field(default_factory=dict)
    """Number of intervals left out so far, each counted once, by its first reason."""
    counted_ends: frozenset[float] = frozenset()
    """The ends of the counted outliers that are still in the window."""
    mix_changed_at: float | None = None
    """The end of the first interval after the latest change of the mix, in Unix seconds."""

    def with_assessment(
        self, observed: Observations, capacity: Capacity, to_unix: Callable[[float], float]
    ) -> "OutlierCounts":
        """Return the counts with the outliers and the mix change of an assessment added."""
        if capacity.regimes is None or capacity.outliers is None:
            return self
        ends = observed.at[capacity.regimes.current]
        found = {float(ends[o.index]): o.reason for o in capacity.outliers.removed}
        new = {end for end in found if end > self.counted_since and end not in self.counted_ends}
        counts = {reason: self.outliers.get(reason, 0) for reason in OutlierReason}
        for end in new:
            counts[found[end]] += 1
        kept = {end for end in self.counted_ends if end >= float(observed.at[0])}
        change = capacity.regimes.change
        return replace(
            self,
            outliers=counts,
            counted_ends=frozenset(kept | new),
            mix_changed_at=self.mix_changed_at
            if change is None
            else to_unix(float(observed.at[change.index])),
        )
