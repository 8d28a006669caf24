"""Intervals that the workload does not explain; each is left out for a reason that is reported.

An interval is compared with others at the same throughput: how long a query took (R = N/X) and what
it cost of each resource (U/X). Pile-ups take longer, backups cost more, and implausibly good values
were not measured well. At most a tenth is left out: with more, the model is wrong and not the
intervals.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.arrays import Array, Mask
from models.capacity.cost_curve import MIN_UTILISATION
from models.capacity.observations import Observations
from models.numerics import quantile
from models.reason_enum import ReasonEnum
from models.robust_regression import MAD_TO_DEVIATION, fit_columns, medians
from models.shared_constants import (
    CERTAIN_Z,
    CLEAR_RATIO,
    EPISODE_SHARE,
    GROUP_INTERVALS,
    LATEST_INTERVALS,
    MIN_CURVE_POINTS,
    MIN_NOISE,
    NEAR_SHARE,
    QUERY_VARIATION,
    SEEN_QUANTILE,
    TOLERATED_CHANGE,
)


class OutlierReason(ReasonEnum):
    """Why an interval was left out."""

    GLITCH = "counter_glitch", "implausibly low concurrency or use for this throughput"
    FOREIGN_WORK = (
        "foreign_work",
        "a resource was busy with other work, such as a backup or a batch",
    )
    PILE_UP = "pile_up", "queries took far longer than others at this throughput"


@dataclass(frozen=True)
class Outlier:
    """One interval that was left out."""

    index: int
    reason: OutlierReason
    ratio: float
    """Its time or cost per query over that of its neighbours."""


@dataclass(frozen=True, eq=False)
class Outliers:
    """The intervals left out, and whether the suspects were too many to be left out."""

    removed: tuple[Outlier, ...]
    too_many: bool
    kept: Mask = field(repr=False)
    """Shape (intervals,)."""
    recent_cost_differs: bool = False
    """Whether in most of the latest intervals the cost or the time of queries differs. A longer
    time is no sign at high loads, since a load beyond the capacity also causes it."""

    def over_all(self, which: Mask) -> "Outliers":
        """Return the same over all intervals; the mask, (intervals,), marks those examined."""
        indices, kept = np.flatnonzero(which), np.ones(len(which), dtype=np.bool_)
        kept[indices] = self.kept
        removed = tuple(replace(one, index=int(indices[one.index])) for one in self.removed)
        return replace(self, removed=removed, kept=kept)

    @property
    def served(self) -> Mask:
        """Where the throughput counts: everywhere but in counter glitches; shape (intervals,)."""
        served = np.ones_like(self.kept)
        served[[one.index for one in self.removed if one.reason is OutlierReason.GLITCH]] = False
        return served


def find_outliers(seen: Observations) -> Outliers:
    """Find the intervals to leave out; none if they would be more than a tenth."""
    count = len(seen)
    kept = np.ones(count, dtype=np.bool_)
    if count < MIN_CURVE_POINTS:
        return Outliers((), too_many=False, kept=kept)
    groups = _groups(seen.throughput)
    off, noise = _ln_time_excess(seen, groups)
    excess = np.column_stack([off, _ln_cost_excess(seen)])
    floor = np.full_like(excess, QUERY_VARIATION)
    floor[:, 0] = noise
    extreme = _is_extreme(excess, floor, groups)
    if not extreme.any():
        return Outliers((), too_many=False, kept=kept)
    suspects = np.flatnonzero(extreme.any(axis=1))
    too_many = len(suspects) > EPISODE_SHARE * count
    if not too_many:
        kept[suspects] = False
    removed = () if too_many else tuple(_outlier(int(i), excess[i], extreme[i]) for i in suspects)
    # below the high loads, queries do not take longer because of the load
    low = seen.throughput < NEAR_SHARE * quantile(seen.throughput, SEEN_QUANTILE)
    changed = extreme[:, 1:].any(axis=1) | (extreme[:, 0] & ((off < 0) | low))
    latest = _is_most_of_latest(changed[-LATEST_INTERVALS:])
    if _is_most_of_latest(np.any(extreme[-LATEST_INTERVALS:], axis=1)):
        latest = latest or bool(
            np.any(np.abs(medians(excess[-LATEST_INTERVALS:, 1:])) > TOLERATED_CHANGE)
        )
    return Outliers(removed, too_many, kept, latest)


def _is_most_of_latest(which: ArrayLike) -> bool:
    return bool(np.count_nonzero(which) > LATEST_INTERVALS / 2)


def _outlier(index: int, excess: Array, extreme: Mask) -> Outlier:
    """Create the outlier of an interval, with the reason and ratio of its greatest deviation."""
    place = int(np.argmax(np.where(extreme, np.abs(excess), -1.0)))
    ratio = float(np.exp(excess[place]))
    if ratio < 1:
        return Outlier(index, OutlierReason.GLITCH, ratio)
    return Outlier(index, OutlierReason.FOREIGN_WORK if place else OutlierReason.PILE_UP, ratio)


def _ln_time_excess(seen: Observations, groups: NDArray[np.intp]) -> tuple[Array, Array]:
    """Compute ln R less that of neighbours in throughput, and its noise; both (intervals,)."""
    known = (seen.concurrency > 0) & (seen.throughput > 0)
    n, x = np.where(known, seen.concurrency, 1.0), np.where(known, seen.throughput, 1.0)
    time = np.where(known, np.log(n) - np.log(x), np.nan)
    noise = np.hypot(QUERY_VARIATION, np.sqrt(seen.n_variance) / n)
    table, places = (np.where(groups >= 0, c[groups], np.nan) for c in (time, np.log(x)))
    middles, costs = medians(places, axis=1), medians(table, axis=1)
    there = np.isfinite(costs)
    if not there.any():
        return np.full(len(seen), np.nan), noise
    off = time - np.interp(np.log(x), middles[there], costs[there])
    return off, noise


def _ln_cost_excess(seen: Observations) -> Array:
    """Compute ln of each utilisation over a robust curve of the throughput.

    Groups of neighbours would not do here, because a backup can fill a whole group. Shape
    (intervals, resources), without configured limits, which queries hold rather than use.
    """
    resources = [r for r in seen.resources if not r.has_configured_limit]
    if not resources:
        return np.empty((len(seen), 0))
    u = np.array([r.relative_use for r in resources]).T
    # throughputs beyond all others may be glitches: the curve ends before them
    t = np.minimum(seen.throughput / quantile(seen.throughput, SEEN_QUANTILE), CLEAR_RATIO)
    design = np.array([np.ones_like(t), t, t * t]).T
    fits = fit_columns(design, u, np.isfinite(u).astype(np.float64), MIN_NOISE)
    curves = design @ np.array([f.coefficients for f in fits]).T
    over: Array = np.log((u + MIN_UTILISATION) / (np.clip(curves, 0, None) + MIN_UTILISATION))
    return over


def _groups(x: Array) -> NDArray[np.intp]:
    """Number the intervals in groups of neighbours in throughput, shape (groups, size), else −1."""
    order = np.argsort(x, kind="stable")
    count = max(1, min(GROUP_INTERVALS, len(order) // GROUP_INTERVALS))
    size = -(-len(order) // count)
    padded = np.full(count * size, -1, dtype=np.intp)
    padded[: len(order)] = order
    return padded.reshape(count, size)


def _is_extreme(excess: Array, floor: Array, groups: NDArray[np.intp]) -> Mask:
    """Mark what is clearly beyond the spread of its group and of all, shape as `excess`."""
    sizes, there = np.abs(excess), groups >= 0
    clear: Mask = sizes > np.log(CLEAR_RATIO)
    if not clear.any():
        return clear
    of_group = medians(np.where(there[:, :, None], sizes[groups], np.nan), axis=1)
    spread = MAD_TO_DEVIATION * np.fmax(of_group, medians(sizes))
    group = np.empty(len(excess), dtype=np.intp)
    group[groups[there]] = np.nonzero(there)[0]
    limit = CERTAIN_Z * np.fmax(spread[group], floor)
    return clear & (sizes > limit)
