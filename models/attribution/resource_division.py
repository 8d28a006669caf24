"""Division of the use of a resource over query classes, by the best source available.

Measured CPU where the server accounts for it; otherwise work time, corrected by the learned model;
otherwise the learned model alone. `wlr` is the published method, for comparison. For each source
the result is a matrix of parts z, shape (T, K), and one regression line of z on time per class.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from models.arrays import Array
from models.attribution.block_model import fit_intervals
from models.attribution.class_interval_table import FOLDS, ClassIntervals
from models.attribution.cost_model import CostModel
from models.attribution.division_methods import (
    DividedUse,
    Parts,
    capped_work_time,
    divide_by_wlr,
    divide_by_work_time,
    limit_parts,
)
from models.attribution.long_statements import LongStatements
from models.attribution.result import (
    Attribution,
    AttributionReason,
    ClassUse,
    DivisionMethod,
    HostUse,
    PredictionError,
    ReasonInputs,
    disagreement,
    find_reasons,
)
from models.attribution.waiting_classes import min_computing_level
from models.attribution.weighted_linear_regression import fit_line
from models.numerics import ROUNDING

Progress = Callable[[int, int], None]
"""Called with the number of steps done, and of all steps."""


def attribute(
    intervals: ClassIntervals,
    use: DividedUse,
    method: DivisionMethod = DivisionMethod.AUTO,
    host: HostUse | None = None,
    progress: Progress | None = None,
    worst: HostUse | None = None,
) -> Attribution:
    """Divide the use over the classes; `progress` receives the steps done.

    `worst` is the host's use in its worst period, from which the reasons follow; None: `host`.

    Raises ValueError if the shapes differ, if a value of y is negative or not finite, or if
    `measured` is requested and no CPU was measured.
    """
    host = host or HostUse()
    worst = worst or host
    intervals = LongStatements().moved(intervals) if use.time_like else intervals
    use, y = _with_computing_level(use, host), use.y
    _check_values(y, len(intervals))
    chosen = choose_method(intervals, use) if method is DivisionMethod.AUTO else method
    steps = FOLDS + 1
    progress = progress or _no_progress
    progress(0, steps)
    parts = limit_parts(_divide(intervals, use, method, chosen), intervals, use)
    held_out = _predict_held_out(intervals, use, method, lambda fold: progress(1 + fold, steps))
    unexplained = float(y.sum() - parts.z.sum())
    other = _comparison_method(intervals, use, method, chosen)
    return Attribution(
        method=chosen,
        total=float(y.sum()),
        classes=_class_uses(intervals.names, parts),
        unattributed=unexplained if unexplained > ROUNDING * y.sum() else 0.0,
        predictor=parts.predictor,
        fit=PredictionError.of(y, parts.predictor.predict(intervals)),
        held_out=held_out,
        disagreement=_disagreement(intervals, use, parts, other),
        compared_with=other,
        reasons=_reasons(intervals, use, chosen, parts, held_out, worst),
        intervals=len(intervals),
    )


def _with_computing_level(use: DividedUse, host: HostUse) -> DividedUse:
    """Return the whole CPU's use with the least CPU per work time that the host's use allows."""
    if not use.is_cpu_seconds or use.bounds.is_part_of_cpu:
        return use
    level = min_computing_level(host.running, host.io_wait)
    return replace(use, bounds=replace(use.bounds, min_computing_level=level))


def _check_values(y: Array, intervals: int) -> None:
    if y.shape != (intervals,) or not np.isfinite(y).all() or (y < 0).any():
        raise ValueError(
            "the resource must have one value for each interval, finite and not negative"
        )


def _disagreement(
    intervals: ClassIntervals, use: DividedUse, parts: Parts, other: DivisionMethod | None
) -> float | None:
    """Compare the classes' shares with those by another method; None without one."""
    if other is None:
        return None
    second = limit_parts(_divide(intervals, use, other, other), intervals, use)
    return disagreement(parts.z.sum(axis=0), second.z.sum(axis=0))


def line_samples(
    intervals: ClassIntervals, y: Array, method: DivisionMethod
) -> tuple[Array, Array]:
    """Return what the lines of a division of CPU by `method` are fitted to: x, z, shape (T, K)."""
    use, intervals = DividedUse(y, is_cpu_seconds=True), LongStatements().moved(intervals)
    asked = DivisionMethod.AUTO if method is DivisionMethod.WORK_TIME else method
    parts = limit_parts(_divide(intervals, use, asked, method), intervals, use)
    return parts.x, parts.z


def choose_method(intervals: ClassIntervals, use: DividedUse) -> DivisionMethod:
    """Choose the best source: measured, then work time with known waits, then the learned model."""
    if use.is_cpu_seconds and intervals.cpu is not None and intervals.cpu.any():
        return DivisionMethod.MEASURED
    if use.time_like and intervals.texts is not None and any(intervals.texts):
        return DivisionMethod.WORK_TIME
    return DivisionMethod.LEARNED


def _divide(
    intervals: ClassIntervals, use: DividedUse, asked: DivisionMethod, chosen: DivisionMethod
) -> Parts:
    """Divide by the chosen method; `asked` is the requested one, which may be `auto`."""
    if chosen is DivisionMethod.WLR:
        return divide_by_wlr(intervals, use)
    if chosen is DivisionMethod.MEASURED:
        return _use_measured_cpu(intervals, use)
    if chosen is DivisionMethod.WORK_TIME and (
        asked is DivisionMethod.WORK_TIME or intervals.count is None
    ):
        return divide_by_work_time(intervals, use)
    return fit_intervals(intervals, use).divide(intervals, use)


def _use_measured_cpu(intervals: ClassIntervals, use: DividedUse) -> Parts:
    """Return the CPU that the server accounts for; the rest stays unattributed."""
    if intervals.cpu is None:
        raise ValueError("no CPU was measured per class")
    no_error = np.full(len(intervals.names), np.nan)
    return Parts(
        intervals.cpu,
        capped_work_time(intervals),
        no_error,
        intervals.calls_wait_function,
        fit_intervals(intervals, use).model,
    )


def _class_uses(names: tuple[str, ...], parts: Parts) -> tuple[ClassUse, ...]:
    """Return the total, the share and the line of each class."""
    totals = parts.z.sum(axis=0)
    attributed = float(totals.sum()) or 1.0
    return tuple(
        ClassUse(
            name=name,
            total=float(totals[k]),
            share=float(totals[k]) / attributed,
            stderr=float(parts.error[k]) if np.isfinite(parts.error[k]) else None,
            line=fit_line(parts.x[:, k], parts.z[:, k]),
            waits=bool(parts.waits[k]),
        )
        for k, name in enumerate(names)
    )


def _predict_held_out(
    intervals: ClassIntervals,
    use: DividedUse,
    method: DivisionMethod,
    on_fold: Callable[[int], None],
) -> PredictionError:
    """Predict each quarter of the intervals from the others, and return the error."""
    if len(intervals) < 2 * FOLDS:
        return PredictionError(None, None, None)
    everything = np.arange(len(intervals))
    predicted = np.zeros(len(intervals))
    for fold, unknown in enumerate(np.array_split(everything, FOLDS)):
        on_fold(fold)
        known = np.setdiff1d(everything, unknown)
        known_use = replace(use, y=use.y[known])
        known_intervals = intervals.at(known)
        chosen = (
            choose_method(known_intervals, known_use) if method is DivisionMethod.AUTO else method
        )
        predictor = _divide(known_intervals, known_use, method, chosen).predictor
        predicted[unknown] = predictor.predict(intervals.at(unknown))
    return PredictionError.of(use.y, predicted)


def _comparison_method(
    intervals: ClassIntervals, use: DividedUse, asked: DivisionMethod, chosen: DivisionMethod
) -> DivisionMethod | None:
    """Choose the method to compare with: the best other; for `auto` by work time, that alone.

    Without calls `auto` is that alone.
    """
    if len(intervals.names) < 2:
        return None
    if (
        asked is DivisionMethod.AUTO
        and chosen is DivisionMethod.WORK_TIME
        and intervals.count is not None
    ):
        return DivisionMethod.WORK_TIME
    if chosen is DivisionMethod.MEASURED:
        return choose_method(replace(intervals, cpu=None), use)
    best = choose_method(intervals, use)
    if best is not chosen:
        return best
    if intervals.count is None:
        return DivisionMethod.WLR
    return (
        DivisionMethod.LEARNED if chosen is DivisionMethod.WORK_TIME else DivisionMethod.WORK_TIME
    )


def _no_progress(_done: int, _steps: int) -> None:
    """Do nothing."""


def _reasons(
    intervals: ClassIntervals,
    use: DividedUse,
    method: DivisionMethod,
    parts: Parts,
    held_out: PredictionError,
    host: HostUse,
) -> tuple[AttributionReason, ...]:
    """Find the reasons why this division is less reliable."""
    model = parts.predictor
    level = model.mixture.level if isinstance(model, CostModel) else None
    has_counts = intervals.count is not None
    return find_reasons(
        ReasonInputs(
            intervals=len(intervals),
            held_out_mape=held_out.mape if isinstance(model, CostModel) else None,
            level=level if use.is_limited_by_time else None,
            host=host,
            time_is_work=has_counts
            and (method is DivisionMethod.WLR or _ignores_texts(intervals, method)),
            is_measured=method is DivisionMethod.MEASURED,
        )
    )


def _ignores_texts(intervals: ClassIntervals, method: DivisionMethod) -> bool:
    return method is DivisionMethod.WORK_TIME and not (intervals.texts and any(intervals.texts))
