"""The sources by which a resource can be divided: each returns parts z, shape (T, K), and errors.

A division in proportion to time charges a class for all the time that it runs. Waits that are not
counted (for the log, for latches, for a slow client) come in bursts, while the cost of a call stays
the same: so the median over time of what a call is charged estimates its cost better than the mean.
Calls are weighted by rows too: calls that read ten times as many rows may cost ten times as much.
"""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from models.attribution.class_cost_priors import COMPUTE_SPREAD
from models.attribution.class_time_series import Array, ClassIntervals, Mask
from models.attribution.cost_model import CostModel
from models.attribution.published_wlr import Line, Wlr, blame, fit_wlr
from models.attribution.shared_unit_costs import WHOLE_CPU, CpuBounds, calls
from models.attribution.waiting_classes import capped, waits_by_text

MODEL_WEIGHT = 0.2
"""Weight of the model's totals in the mean with the division of work time; their errors differ."""
WRITER_COMPUTING_SHARE = 0.9
"""A statement that changes rows waits a part of its work time for the log and for latches
(measured: 0.1 to 0.4, the more the busier the server)."""


MIN_COMPUTING_PROBABILITY = 0.9
"""A class that computes with a lower probability gets the model's share, not that of its time."""


@dataclass(frozen=True, slots=True)
class DividedResource:
    """A resource of the whole server."""

    name: str
    cpu: bool = False
    """CPU seconds: no class uses more than its time."""
    part: bool = False
    """Of the CPU: what was used in the kernel, or outside of it."""


class Predictor(Protocol):
    """Predicts y, shape (T,)."""

    def predict(self, intervals: ClassIntervals) -> Array:
        """Predict intervals of any classes."""
        ...


@dataclass(frozen=True)
class Target:
    """What is divided."""

    y: Array
    """Shape (T,), at least 0."""
    cpu_seconds: bool = False
    """It is CPU time in the seconds of the statements' times: no class uses more than its time."""
    time_like: bool = True
    """Classes that compute use it in proportion to their time. CPU is, bytes are not."""
    bounds: CpuBounds = WHOLE_CPU
    """Of CPU time, where it is that."""

    @property
    def cpu_bounds(self) -> CpuBounds | None:
        """The bounds; None where it is no CPU time."""
        return self.bounds if self.cpu_seconds else None


@dataclass(frozen=True)
class WlrPredictor:
    """Lines on time, as published."""

    names: tuple[str, ...]
    wlr: Wlr
    work_time: bool

    def predict(self, intervals: ClassIntervals) -> Array:
        """Sum intercept + slope·time over the present classes, shape (T,); unknown ones add 0."""
        known = intervals.arranged(self.names)
        return self.wlr.predict(work_of(known) if self.work_time else known.statement_time)


@dataclass(frozen=True)
class Parts:
    """The estimated use of each class in each interval, units of y, shape (T, K)."""

    z: Array
    x: Array
    """What the lines are fitted on."""
    error: Array
    """Standard error of each class's total, shape (K,); NaN where it has none."""
    waits: Mask
    predictor: Predictor


def by_wlr(intervals: ClassIntervals, target: Target) -> Parts:
    """Divide statement time, as published."""
    x = intervals.statement_time
    wlr = fit_wlr(x, target.y)
    error = np.array([_line_error(line) for line in wlr.lines])
    predictor = WlrPredictor(intervals.names, wlr, work_time=False)
    return Parts(blame(x, target.y)[0], x, error, _none_waiting(intervals), predictor)


def by_work_time(intervals: ClassIntervals, target: Target) -> Parts:
    """Divide statement time less lock time, wait functions capped; else as published."""
    x = work_of(intervals)
    wlr = fit_wlr(x, target.y)
    spread = COMPUTE_SPREAD * wlr.totals
    error = np.hypot([_line_error(line) for line in wlr.lines], spread)
    waits = waits_by_text(intervals.texts, len(intervals.names))
    predictor = WlrPredictor(intervals.names, wlr, work_time=True)
    return Parts(blame(x, target.y)[0], x, error, waits, predictor)


def by_model(
    model: CostModel, computing: Array, intervals: ClassIntervals, target: Target
) -> Parts:
    """Mean of the model's totals and a division of work time that knows which classes wait.

    `computing` is the computing part of each class's work time, 0..1, shape (K,). Intervals have
    the model's classes, in its order; they need not be those of the fit.
    """
    work, modelled = work_of(intervals), model.parts(intervals)
    waits = waits_by_text(intervals.texts, len(intervals.names))
    error, used = model.mixture.stderr, modelled.sum(axis=0)
    if model.shared_costs is None or not model.mixture.level or not target.time_like:
        return Parts(modelled, work, error * _ratio(used, model.mixture.totals), waits, model)
    explained = np.maximum(target.y - model.base_per_second * intervals.seconds, 0.0)
    divided = blame(computing * computing_time(intervals), explained)[0]
    divided = scaled_to_median_cost(
        divided, equivalent_calls(model.regressors(intervals), calls(intervals))
    )
    apart = (1 - MODEL_WEIGHT) * (modelled - divided).sum(axis=0)
    z = MODEL_WEIGHT * modelled + (1 - MODEL_WEIGHT) * divided
    error = np.hypot(error * _ratio(z.sum(axis=0), model.mixture.totals), apart)
    return Parts(z, work, error, waits | (computing < 0.5), model)


def bounded_parts(parts: Parts, intervals: ClassIntervals, target: Target) -> Parts:
    """Cut totals to what is possible: a class's CPU to its time, all together to Σy.

    Measured CPU is not changed.
    """
    if parts.z is intervals.cpu:
        return parts
    totals, factor = parts.z.sum(axis=0), np.ones(len(intervals.names))
    if target.cpu_seconds:
        time = intervals.statement_time.sum(axis=0)
        if intervals.inflight_delta is not None:
            time = np.maximum(time + intervals.inflight_delta.sum(axis=0), 0.0)
        factor = np.minimum(1.0, time / np.where(totals > 0, totals, 1.0))
    together = float((factor * totals).sum())
    factor *= min(1.0, float(target.y.sum()) / together) if together > 0 else 1.0
    return replace(parts, z=parts.z * factor, error=parts.error * factor)


def computing_share(model: CostModel, work: Array, impossible: Mask) -> Array:
    """Compute the part of its work time in which a class computes, 0..1, shape (K,).

    `work`, s, shape (K,), is that of the intervals that the model was fitted to; `impossible` are
    the classes that cannot have computed all that time. For classes that may wait, the fit is more
    reliable than the time.
    """
    mixture = model.mixture
    by_time = (mixture.level or 0.0) * work
    whole, less = (mixture.totals > 0).astype(np.float64), mixture.totals < by_time
    share = np.divide(mixture.totals, by_time, out=whole, where=less)
    return np.where((mixture.computing < MIN_COMPUTING_PROBABILITY) | impossible, share, 1.0)


def work_of(intervals: ClassIntervals) -> Array:
    """Compute work time, s, shape (T, K), that of classes known to wait capped."""
    return capped(
        intervals.work_time, intervals.count, waits_by_text(intervals.texts, len(intervals.names))
    )


def computing_time(intervals: ClassIntervals) -> Array:
    """Compute the work time that counts as computing, s, shape (T, K): less for writing classes."""
    written = dict(intervals.sizes).get("rows_affected")
    work = work_of(intervals)
    return work if written is None else np.where(written > 0, WRITER_COMPUTING_SHARE * work, work)


def _none_waiting(intervals: ClassIntervals) -> Mask:
    return np.zeros(len(intervals.names), dtype=np.bool_)


def _ratio(used: Array, fitted: Array) -> Array:
    """Compute how many times what was fitted each class used, shape (K,); 1 where unknown."""
    result: Array = np.divide(used, fitted, out=np.ones_like(used), where=fitted > 0)
    return result


def _line_error(line: Line) -> float:
    """Standard error of the sum of n fitted values: residual·√n; NaN below three samples."""
    return np.nan if line.residual is None else float(line.residual * np.sqrt(line.samples))


MIN_GROUP_CALLS = 30
"""Intervals with fewer calls are taken together: the median of few is not that of their mean."""

MIN_GROUPS = 8
"""With fewer groups of calls the mean counts."""


def equivalent_calls(size: Array, count: Array) -> Array:
    """Count calls and rows at their unit costs, `size`, in mean calls of the class; shape (T, K).

    Where nothing has a unit cost, calls count as they are.
    """
    total = size.sum(axis=0)
    part = size / np.where(total > 0, total, 1.0)
    return np.where(total > 0, part * count.sum(axis=0), count)


def scaled_to_median_cost(parts: Array, count: Array) -> Array:
    """Scale each class's parts to what its calls usually cost; all together stay what they were.

    Both have shape (T, K); `count` may be any measure of what was done, in calls.
    """
    had = parts.sum(axis=0)
    classes = zip(parts.T, count.T, strict=True)
    usual = np.array([_median_call_cost(z, n) for z, n in classes]) * count.sum(axis=0)
    together = float(usual.sum())
    factor = usual / np.where(had > 0, had, 1.0)
    result: Array = parts * (factor * float(had.sum()) / together if together > 0 else 1.0)
    return result


def _median_call_cost(parts: Array, count: Array) -> float:
    """Take the weighted median of what a call costs, of one class, shape (T,)."""
    made = np.cumsum(count)
    if not len(made) or made[-1] <= 0:
        return 0.0
    _, group = np.unique((made - count / 2) // MIN_GROUP_CALLS, return_inverse=True)
    calls, sums = np.bincount(group, count), np.bincount(group, parts)
    there = calls > 0
    if there.sum() < MIN_GROUPS:
        return float(parts.sum() / made[-1])
    calls, cost = calls[there], sums[there] / calls[there]
    order = np.argsort(cost)
    below = np.cumsum(calls[order])
    return float(cost[order][np.searchsorted(below, below[-1] / 2)])
