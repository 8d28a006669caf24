"""Unit costs of a call, a row, a sort, shared by all classes and fitted to totals alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.arrays import Array
from models.attribution.class_cost_fit import BASE_SPREAD, TYPICAL_NOISE
from models.attribution.class_interval_table import ClassIntervals
from models.attribution.nnls import minimise_non_negative
from models.attribution.sufficient_statistics import MIN_SHARE, Moments
from models.numerics import NEGLIGIBLE, ROUNDING, TINY, median
from models.robust_regression import MAD_TO_DEVIATION, MIN_FREEDOM, REWEIGHTING_STEPS

USUAL_CPU = {
    "calls": 5e-5,
    "rows_examined": 3e-7,
    "rows_sent": 1e-6,
    "rows_affected": 3e-5,
    "sort_rows": 1e-6,
    "tmp_tables": 6e-5,
}
"""Approximate CPU seconds that one of each costs. Their proportions are the prior, which decides if
the load hardly varies. A call costs as much if it only waits (parsing, planning, the result: 46 to
71 µs were measured), and no less if it computes."""
BASE_PRIOR_WEIGHT = (TYPICAL_NOISE / BASE_SPREAD) ** 2
"""Relative to an interval's noise; the prior decides only if the load hardly varies."""
MIN_CALL_SHARE = 0.3
"""Share of the mean cost of a call, if only the calls distinguish classes."""


@dataclass(frozen=True)
class CpuBounds:
    """Bounds of CPU time that hold before any fit, in the seconds of the statements' times."""

    min_computing_level: float = 0.0
    """CPU seconds that a computing class uses per second of its work time, at least; 0: unknown."""
    min_call_cpu: float = USUAL_CPU["calls"]
    """CPU seconds that any call costs at least."""

    @property
    def is_part_of_cpu(self) -> bool:
        """Whether these are the bounds of user or system CPU alone."""
        return self == PART_OF_CPU


WHOLE_CPU = CpuBounds()


PART_OF_CPU = CpuBounds(min_call_cpu=0.0)
"""Bounds of user or system CPU alone: at most the statements' time."""


@dataclass(frozen=True)
class UnitCosts:
    """Units of y per call and per unit of each known size; all at least 0."""

    per_call: float
    sizes: tuple[tuple[str, float], ...]
    per_second: float
    """The base use, independent of the calls."""

    def costs(self, intervals: ClassIntervals) -> Array:
        """Compute what each class costs in each interval, shape (T, K), units of y."""
        known = dict(intervals.sizes)
        result = self.per_call * call_counts(intervals)
        for name, unit_cost in self.sizes:
            if name in known:
                result = result + unit_cost * known[name]
        return result

    def total(self, intervals: ClassIntervals) -> Array:
        """Compute what each whole interval costs, shape (T,)."""
        result: Array = self.costs(intervals).sum(axis=1) + self.per_second * intervals.seconds
        return result


def fit_unit_costs(
    intervals: ClassIntervals,
    y: Array,
    least_share: float = MIN_SHARE,
    bounds: CpuBounds | None = None,
) -> UnitCosts:
    """Fit y ≈ Σ_f cost_f·(sum over classes of f) + b·Δt with costs ≥ 0, robust weights.

    y has shape (T,), units of the resource. A call costs `least_share` of the mean cost at least.
    With `bounds` y is CPU seconds, and a call costs no less than is possible.
    """
    names = tuple(name for name, _ in intervals.sizes)
    call_count, features = float(call_counts(intervals).sum()), intervals.features
    weights = interval_weights(y)
    solved = np.zeros(features.shape[1] + 1)
    usual = _usual_unit_costs(names, bounds)
    for _ in range(REWEIGHTING_STEPS):
        moments = Moments.of(features, intervals.seconds, y, weights)
        solved = _solve(moments, usual, 0.0 if usual is None else BASE_PRIOR_WEIGHT)
        weights = robust_weights(y, features @ solved[:-1] + intervals.seconds * solved[-1])
    return _as_unit_costs(solved, names, call_count, float(y.sum()), least_share, bounds)


def unit_costs_from_sums(
    pooled: Moments, sizes: Sequence[str], least_share: float, bounds: CpuBounds | None
) -> UnitCosts:
    """Fit unit costs to moments whose columns are calls and these sizes, summed over classes.

    The weights of the moments must be robust ones already.
    """
    call_count = float(pooled.totals[0])
    solved = _solve(pooled, _usual_unit_costs(sizes, bounds), BASE_PRIOR_WEIGHT)
    return _as_unit_costs(solved, tuple(sizes), call_count, pooled.y_total, least_share, bounds)


def _usual_unit_costs(sizes: Sequence[str], bounds: CpuBounds | None) -> Array | None:
    """Return the usual cost of calls and these sizes; None if y is not CPU, or a part of it."""
    if bounds is None or bounds.is_part_of_cpu:
        return None
    return np.array([USUAL_CPU.get(name, 0.0) for name in ("calls", *sizes)])


def _as_unit_costs(
    solved: Array,
    names: tuple[str, ...],
    count: float,
    y_total: float,
    least_share: float,
    bounds: CpuBounds | None,
) -> UnitCosts:
    """Convert the solution (call, sizes, base); a call costs at least `least_share` of the mean."""
    least_call = bounds.min_call_cpu if bounds else 0.0
    least = max(least_share * y_total / count, min(least_call, y_total / count)) if count else 0.0
    sizes = tuple(zip(names, map(float, solved[1:-1]), strict=True))
    return UnitCosts(max(float(solved[0]), least), sizes, float(solved[-1]))


def call_counts(intervals: ClassIntervals) -> Array:
    """Return the counts of calls, shape (T, K); raise ValueError if they are not known."""
    if intervals.count is None:
        raise ValueError("unit costs of calls cannot be fitted without counts of calls")
    return intervals.count


def interval_weights(y: Array) -> Array:
    """Compute weights 1/y, shape (T,): the spread of y grows at least with its square root."""
    mean = float(y.mean()) or 1.0
    return 1 / np.maximum(y, MIN_SHARE * mean)


def robust_weights(y: Array, fitted: Array) -> Array:
    """Compute weights 1/ŷ, lower for large errors, shape (T,).

    Errors are taken to have Student's t distribution with 4 degrees of freedom: K. Lange, R.
    Little, J. Taylor, "Robust Statistical Modeling Using the t Distribution", JASA 84 (1989); the
    scale comes from the median.
    """
    weights = interval_weights(fitted)
    weighted_squares = weights * (y - fitted) ** 2
    scale = median(weighted_squares) * MAD_TO_DEVIATION**2
    if scale <= ROUNDING * float((weights * y**2).mean()):
        return weights
    result: Array = weights * (MIN_FREEDOM + 1) / (MIN_FREEDOM + weighted_squares / scale)
    return result


def _solve(moments: Moments, usual: Array | None, base_prior: float) -> Array:
    """Fit unit costs ≥ 0, drawn towards the proportions of the `usual` ones."""
    scaled = moments.scaled()
    size = len(scaled.projection)
    ridge = NEGLIGIBLE * max(float(np.trace(scaled.gram)), TINY)
    gram, vector = scaled.gram + ridge * np.eye(size), scaled.projection.copy()
    gram[-1, -1] += base_prior
    unit = np.where(moments.totals > 0, moments.totals, 1.0) / (moments.y_total or 1.0)
    if usual is not None:
        share = usual * unit[:-1]
        share = share / max(float(share.sum()), TINY)
        deviation = np.maximum(share, MIN_SHARE)  # the deviation is the share itself
        precision = np.append((TYPICAL_NOISE / deviation) ** 2, 0.0)
        gram[np.diag_indices(size)] += precision
        vector += precision * np.append(share, 0.0)
    shares = minimise_non_negative(gram, vector)
    result: Array = np.where(moments.totals > 0, shares / unit, 0.0)
    return result
