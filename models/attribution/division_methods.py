"""The methods that divide a resource over classes: each returns parts z, (T, K), and errors.

A division in proportion to time charges a class for all the time that it runs. Waits that are not
counted (for the log, for latches, for a slow client) come in bursts, while the cost of a call stays
the same: so the median over time of what a call is charged estimates its cost better than the mean.
Calls are weighted by rows too: calls that read ten times as many rows may cost ten times as much.
"""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from models.arrays import Array, Mask
from models.attribution.call_and_row_costs import WHOLE_CPU, CpuBounds, call_counts
from models.attribution.class_cost_fit import COMPUTE_SPREAD
from models.attribution.class_interval_table import FOLDS, ClassIntervals
from models.attribution.cost_model import CostModel
from models.attribution.waiting_classes import cap_waiting_work
from models.attribution.weighted_linear_regression import Line, Wlr, divide_in_proportion, fit_wlr
from models.numerics import CONFIDENCE, NEGLIGIBLE

MODEL_WEIGHT = 0.2
"""Weight of the model's totals in the mean with the division of work time; their errors differ."""
WRITER_COMPUTING_SHARE = 0.9
"""Share of its work time that a statement that changes rows computes; for the rest it waits for the
log and for latches (measured: 0.1 to 0.4, more on a busier server)."""


@dataclass(frozen=True, slots=True)
class DividedResource:
    """A resource of the whole server that is divided over classes."""

    name: str
    is_cpu: bool = False
    """CPU seconds: no class uses more than its time."""
    is_part_of_cpu: bool = False
    """A part of the CPU: system or user CPU alone."""


class Predictor(Protocol):
    """Predicts y, shape (T,)."""

    def predict(self, intervals: ClassIntervals) -> Array:
        """Predict y of intervals of any classes, shape (T,), units of y."""
        ...


@dataclass(frozen=True)
class DividedUse:
    """The use of a resource that is divided."""

    y: Array
    """Shape (T,), at least 0."""
    is_cpu_seconds: bool = False
    """y is CPU time in seconds."""
    time_like: bool = True
    """Classes that compute use it in proportion to their time: true for CPU, false for bytes, and
    where the times are not known."""
    bounds: CpuBounds = WHOLE_CPU
    """The bounds of CPU time, if y is CPU time."""

    @property
    def cpu_bounds(self) -> CpuBounds | None:
        """The bounds; None if y is not CPU time."""
        return self.bounds if self.is_cpu_seconds else None

    @property
    def is_limited_by_time(self) -> bool:
        """Whether a class uses at most its statement time: both are in the same seconds."""
        return self.is_cpu_seconds and self.time_like


@dataclass(frozen=True)
class WlrPredictor:
    """Prediction by one line over time for each class, as published."""

    names: tuple[str, ...]
    wlr: Wlr
    work_time: bool

    def predict(self, intervals: ClassIntervals) -> Array:
        """Sum intercept + slope·time over the present classes, shape (T,); unknown ones add 0."""
        known = intervals.arranged(self.names)
        return self.wlr.predict(capped_work_time(known) if self.work_time else known.statement_time)


@dataclass(frozen=True)
class Parts:
    """The estimated use of each class in each interval, units of y, shape (T, K)."""

    z: Array
    x: Array
    """The times over which the lines are fitted, shape (T, K)."""
    error: Array
    """Standard error of each class's total, shape (K,); NaN where it has none."""
    waits: Mask
    predictor: Predictor


def divide_by_wlr(intervals: ClassIntervals, use: DividedUse) -> Parts:
    """Divide in proportion to statement time, as published."""
    x = intervals.statement_time
    wlr = fit_wlr(x, use.y)
    error = np.array([_total_error(line) for line in wlr.lines])
    predictor = WlrPredictor(intervals.names, wlr, work_time=False)
    return Parts(divide_in_proportion(x, use.y)[0], x, error, _none_waiting(intervals), predictor)


def divide_by_work_time(intervals: ClassIntervals, use: DividedUse) -> Parts:
    """Divide by statement time less lock time, with wait functions capped; else as published."""
    x = capped_work_time(intervals)
    wlr = fit_wlr(x, use.y)
    spread = COMPUTE_SPREAD * wlr.totals
    error = np.hypot([_total_error(line) for line in wlr.lines], spread)
    waits = intervals.calls_wait_function
    predictor = WlrPredictor(intervals.names, wlr, work_time=True)
    return Parts(divide_in_proportion(x, use.y)[0], x, error, waits, predictor)


def divide_by_model(
    model: CostModel, computing: Array, intervals: ClassIntervals, use: DividedUse
) -> Parts:
    """Average the model's parts and a division by work time that allows for classes that wait.

    `computing` is the computing part of the work time of each of the model's classes, 0..1. The
    intervals may have other classes, and need not be those of the fit: a class that the model does
    not know gets 0.
    """
    indices = model.indices_of(intervals.names)
    by_class = np.zeros((4, len(model.names) + 1))  # the last column is for those not known
    by_class[:, :-1] = model.mixture.totals, model.mixture.stderr, model.unit_costs, computing
    by_class[1, -1] = np.nan
    fitted, stderr, unit_costs, computing = by_class[:, indices]
    is_known, work, size = indices >= 0, capped_work_time(intervals), model.regressors(intervals)
    waits = is_known & intervals.calls_wait_function
    modelled = size * unit_costs
    if model.shared_costs is None or not model.mixture.level or not use.time_like:
        return Parts(modelled, work, stderr * _ratio(modelled.sum(axis=0), fitted), waits, model)
    explained = np.maximum(use.y - model.base_per_second * intervals.seconds, 0.0)
    divided = divide_in_proportion(computing * computing_time(intervals), explained)[0]
    divided = scaled_to_median_cost(divided, equivalent_calls(size, call_counts(intervals)))
    difference = (1 - MODEL_WEIGHT) * (modelled - divided).sum(axis=0)
    z = MODEL_WEIGHT * modelled + (1 - MODEL_WEIGHT) * divided
    error = np.hypot(stderr * _ratio(z.sum(axis=0), fitted), difference)
    return Parts(z, work, error, waits | (is_known & (computing < 0.5)), model)


def limit_parts(parts: Parts, intervals: ClassIntervals, use: DividedUse) -> Parts:
    """Limit totals to what is possible: a class's CPU to its time, the sum of all to Σy.

    No total is farther off than that. Measured CPU is not changed.
    """
    if parts.z is intervals.cpu:
        return parts
    totals, factor = parts.z.sum(axis=0), np.ones(len(intervals.names))
    most = np.full(len(totals), use.y.sum())
    if use.is_limited_by_time:
        time = intervals.statement_time.sum(axis=0)
        if intervals.inflight_delta is not None:
            time = np.maximum(time + intervals.inflight_delta.sum(axis=0), 0.0)
        factor = np.minimum(1.0, time / np.where(totals > 0, totals, 1.0))
        most = np.minimum(most, time)
    attributed = float((factor * totals).sum())
    factor *= min(1.0, float(use.y.sum()) / attributed) if attributed > 0 else 1.0
    return replace(parts, z=parts.z * factor, error=np.minimum(parts.error * factor, most))


def computing_share(model: CostModel, work: Array, impossible: Mask) -> Array:
    """Compute the part of its work time in which a class computes, 0..1, shape (K,).

    `work`, s, shape (K,), is that of the intervals that the model was fitted to; `impossible` are
    the classes that cannot have computed all that time. For classes that may wait, the fit is more
    reliable than the time.
    """
    mixture = model.mixture
    by_time = (mixture.level or 0.0) * work
    by_default, is_less = (mixture.totals > 0).astype(np.float64), mixture.totals < by_time
    share = np.divide(mixture.totals, by_time, out=by_default, where=is_less)
    return np.where((mixture.computing < CONFIDENCE) | impossible, share, 1.0)


def capped_work_time(intervals: ClassIntervals) -> Array:
    """Compute work time, s, shape (T, K), capped for classes that are known to wait."""
    return cap_waiting_work(intervals.work_time, intervals.count, intervals.calls_wait_function)


def computing_time(intervals: ClassIntervals) -> Array:
    """Compute the work time that counts as computing, s, shape (T, K): less for writing classes."""
    written = dict(intervals.sizes).get("rows_affected")
    work = capped_work_time(intervals)
    return work if written is None else np.where(written > 0, WRITER_COMPUTING_SHARE * work, work)


def _none_waiting(intervals: ClassIntervals) -> Mask:
    return np.zeros(len(intervals.names), dtype=np.bool_)


def _ratio(used: Array, fitted: Array) -> Array:
    """Divide the use of each class by what was fitted, shape (K,); 1 where unknown."""
    result: Array = np.divide(used, fitted, out=np.ones_like(used), where=fitted > 0)
    return result


def _total_error(line: Line) -> float:
    """Compute the standard error of the sum of n fitted values: residual·√n; NaN if n < 3."""
    return np.nan if line.residual is None else float(line.residual * np.sqrt(line.samples))


MIN_GROUP_CALLS = 30
"""Intervals with fewer calls are grouped: the median cost of few calls differs from their mean."""


def equivalent_calls(size: Array, count: Array) -> Array:
    """Convert calls and rows at their unit costs, `size`, to mean calls of the class, shape (T, K).

    Where nothing has a unit cost, calls are counted as they are.
    """
    total = size.sum(axis=0)
    part = size / np.where(total > 0, total, 1.0)
    return np.where(total > 0, part * count.sum(axis=0), count)


def scaled_to_median_cost(parts: Array, count: Array) -> Array:
    """Scale each class's parts to the median cost of its calls; the sum over all stays the same.

    Both have shape (T, K); `count` may be any measure of the work, in calls.
    """
    totals = parts.sum(axis=0)
    usual_totals = _median_call_costs(parts.T, count.T) * count.sum(axis=0)
    usual_sum = float(usual_totals.sum())
    factor = usual_totals / np.where(totals > 0, totals, 1.0)
    result: Array = parts * (factor * float(totals.sum()) / usual_sum if usual_sum > 0 else 1.0)
    return result


def _median_call_costs(parts: Array, count: Array) -> Array:
    """Compute the weighted median of the cost of a call, shape (K,), of classes by row, (K, T).

    The mean where there are fewer than `FOLDS` groups of calls. Ties, which whole numbers of calls
    often make, are broken alike whatever the rounding.
    """
    all_calls = count.sum(axis=1)
    result: Array = np.divide(
        parts.sum(axis=1), all_calls, out=np.zeros_like(all_calls), where=all_calls > 0
    )
    if count.shape[1] < FOLDS:
        return result
    calls, cost, of_class = _groups_of_calls(parts, count)
    order = np.lexsort((cost, of_class))
    cumulated = np.cumsum((calls / all_calls[of_class])[order])  # rises by 1 with each class
    groups = np.bincount(of_class, minlength=len(result))
    classes = np.flatnonzero(groups)
    middles = np.arange(len(classes)) + (1 + NEGLIGIBLE) / 2
    medians = cost[order][np.searchsorted(cumulated, middles)]
    result[classes] = np.where(groups[classes] >= FOLDS, medians, result[classes])
    return result


def _groups_of_calls(parts: Array, count: Array) -> tuple[Array, Array, NDArray[np.intp]]:
    """Group the intervals of each class, shape (K, T), to `MIN_GROUP_CALLS` calls.

    Returns the calls of each group, the cost of one, and the index of its class, shape (groups,).
    """
    middles = (1 - NEGLIGIBLE) * (np.cumsum(count, axis=1) - count / 2)
    group = middles // MIN_GROUP_CALLS
    is_first = np.ones(count.shape, dtype=np.bool_)
    is_first[:, 1:] = group[:, 1:] != group[:, :-1]
    starts = np.flatnonzero(is_first)
    calls, sums = (np.add.reduceat(each.ravel(), starts) for each in (count, parts))
    used = calls > 0
    return calls[used], sums[used] / calls[used], (starts // count.shape[1])[used]
