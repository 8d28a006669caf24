"""The intervals that were assessed, and what happened to each."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

import numpy as np
from numpy.typing import NDArray

from models.capacity.observations import Observations
from models.capacity.outliers import OutlierReason
from models.capacity.result import Capacity
from models.rates import Array


class Disposition(StrEnum):
    """How the assessment used an interval."""

    USED = "used"
    IDLE = "idle"  # too little went on for the law; the limits used it
    OTHER_WORKLOAD = "other_workload"
    OUTLIER = "outlier"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """One interval that was left out as an outlier; `at`, its end, in Unix seconds."""

    index: int
    at: float
    reason: OutlierReason
    ratio: float
    """What it was off by: its time or cost per query over its neighbours'."""


@dataclass(frozen=True, eq=False, slots=True)
class Points:
    """Arrays of shape (points,), in the order of time; `at`, each one's end, in Unix seconds."""

    at: Array = field(repr=False)
    throughput: Array = field(repr=False)
    """X, queries/s."""
    concurrency: Array = field(repr=False)
    """N, threads; NaN where not known."""
    weights: Array = field(repr=False)
    places: NDArray[np.int8] = field(repr=False)
    """Of each one's `Disposition` among all: as words they would take 64 bytes each."""
    outliers: tuple[LeftOut, ...] = ()

    @classmethod
    def of(cls, seen: Observations, capacity: Capacity, unix: Callable[[float], float]) -> Self:
        """Assign a fate to each observation; every one must have a throughput above 0."""
        place = {disposition: np.int8(k) for k, disposition in enumerate(Disposition)}
        places = np.where(seen.loaded, place[Disposition.USED], place[Disposition.IDLE])
        at = np.array([unix(end) for end in seen.at])
        left_out: tuple[LeftOut, ...] = ()
        if capacity.regimes is not None and capacity.outliers is not None:
            current = np.flatnonzero(capacity.regimes.current)
            places[~capacity.regimes.current] = place[Disposition.OTHER_WORKLOAD]
            left_out = tuple(
                LeftOut(int(current[o.index]), float(at[current[o.index]]), o.reason, o.ratio)
                for o in capacity.outliers.removed
            )
            places[[o.index for o in left_out]] = place[Disposition.OUTLIER]
        return cls(at, seen.throughput, seen.concurrency, seen.weights, places, left_out)

    def __len__(self) -> int:
        """Count the points."""
        return len(self.at)

    @property
    def dispositions(self) -> NDArray[np.str_]:
        """The `Disposition` of each, shape (points,)."""
        return np.array([disposition.value for disposition in Disposition])[self.places]

    def curve(self, disposition: Disposition) -> tuple[Array, Array]:
        """Concurrency and throughput of the points of one disposition, where both are known."""
        there = self._on_curve(disposition)
        return self.concurrency[there], self.throughput[there]

    def is_later(self, disposition: Disposition, at: float) -> NDArray[np.bool_]:
        """For each point of that curve, whether its interval ended after `at` (Unix seconds)."""
        later: NDArray[np.bool_] = self.at[self._on_curve(disposition)] > at
        return later

    def _on_curve(self, disposition: Disposition) -> NDArray[np.bool_]:
        its: NDArray[np.bool_] = self.dispositions == disposition.value
        return its & np.isfinite(self.concurrency)
