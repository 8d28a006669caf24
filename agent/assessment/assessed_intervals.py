"""The intervals that were assessed, and how each was used."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

import numpy as np
from numpy.typing import NDArray

from models.arrays import Array, Mask
from models.capacity.observations import Observations
from models.capacity.outliers import OutlierReason
from models.capacity.result import Capacity


class Disposition(StrEnum):
    """How the assessment used an interval."""

    USED = "used"
    IDLE = "idle"  # too little load for the law; used for the resource limits
    OTHER_WORKLOAD = "other_workload"
    OUTLIER = "outlier"


@dataclass(frozen=True, slots=True)
class LeftOutInterval:
    """An interval that was left out as an outlier; `at` is its end, in Unix seconds."""

    index: int
    at: float
    reason: OutlierReason
    ratio: float
    """Its time or cost per query, divided by that of its neighbours."""


@dataclass(frozen=True, eq=False, slots=True)
class AssessedIntervals:
    """The assessed intervals as arrays of shape (intervals,), oldest first; `at`: ends, Unix s."""

    at: Array = field(repr=False)
    throughput: Array = field(repr=False)
    """X, queries/s."""
    concurrency: Array = field(repr=False)
    """N, threads; NaN where not known."""
    weights: Array = field(repr=False)
    disposition_indices: NDArray[np.int8] = field(repr=False)
    """The index of each interval's `Disposition`; strings would take 64 bytes each."""
    outliers: tuple[LeftOutInterval, ...] = ()

    @classmethod
    def of(
        cls, observed: Observations, capacity: Capacity, to_unix: Callable[[float], float]
    ) -> Self:
        """Assign a disposition to each observation; each must have a throughput above 0."""
        index_of = {disposition: np.int8(k) for k, disposition in enumerate(Disposition)}
        indices = np.where(observed.loaded, index_of[Disposition.USED], index_of[Disposition.IDLE])
        at = np.array([to_unix(end) for end in observed.at])
        left_out: tuple[LeftOutInterval, ...] = ()
        if capacity.regimes is not None and capacity.outliers is not None:
            current = np.flatnonzero(capacity.regimes.current)
            indices[~capacity.regimes.current] = index_of[Disposition.OTHER_WORKLOAD]
            left_out = tuple(
                LeftOutInterval(
                    int(current[o.index]), float(at[current[o.index]]), o.reason, o.ratio
                )
                for o in capacity.outliers.removed
            )
            indices[[o.index for o in left_out]] = index_of[Disposition.OUTLIER]
        return cls(
            at, observed.throughput, observed.concurrency, observed.weights, indices, left_out
        )

    def __len__(self) -> int:
        """Return the number of intervals."""
        return len(self.at)

    @property
    def dispositions(self) -> NDArray[np.str_]:
        """The value of each interval's `Disposition`, shape (intervals,)."""
        return np.array([disposition.value for disposition in Disposition])[
            self.disposition_indices
        ]

    def concurrency_and_throughput(self, disposition: Disposition) -> tuple[Array, Array]:
        """Return N (threads) and X (queries/s) of a disposition's intervals, shape (k,) each.

        Those whose concurrency is not known are left out.
        """
        is_on_curve = self._is_on_curve(disposition)
        return self.concurrency[is_on_curve], self.throughput[is_on_curve]

    def ended_after(self, disposition: Disposition, at: float) -> Mask:
        """Return for the same intervals whether they ended after `at` (Unix s)."""
        later: Mask = self.at[self._is_on_curve(disposition)] > at
        return later

    def _is_on_curve(self, disposition: Disposition) -> Mask:
        has_disposition: Mask = self.dispositions == disposition.value
        return has_disposition & np.isfinite(self.concurrency)
