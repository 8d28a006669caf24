"""Conversion between the agent's values and rows of a history, with wall-clock times."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent.assessment.snapshot import AssessmentState
from agent.history.row_kinds import CLASSES, FITS, INTERVALS, Cell, CellType, Row
from agent.history.sample_compression import Chunk, pack
from agent.query_classes.attribution_snapshot import IntervalUsage
from agent.query_classes.capacity_gain import CapacityGain
from agent.query_classes.class_registry import ClassName, class_name_of
from agent.support.clock_pair import UNIX, ClockPair
from agent.window.intervals import Interval, Window
from collectors.base import Sample
from models.usl.fit import UslFit

NUMBERS = [column.name for column in INTERVALS.columns if column.holds is CellType.NUMBER]


def in_milliseconds(unix: float) -> int:
    """Convert Unix seconds to the milliseconds of rows."""
    return round(1000 * unix)


def interval_row(labels: tuple[str, str], interval: Interval, now: ClockPair) -> Row:
    """Return an interval as a row, in which unknown values (NaN) are None."""
    numbers = [_finite_or_none(getattr(interval, name)) for name in NUMBERS]
    resources = {name: used for name, used in interval.resources.items() if math.isfinite(used)}
    at = in_milliseconds(now.to_unix(interval.end))
    return Row(labels, at, (*numbers, resources or None))


def interval_from_row(row: Row, stands_for: float, now: ClockPair) -> Interval:
    """Return a row as an interval, whose end may be before the start of the monotonic clock."""
    *numbers, resources = row.cells
    end = now.monotonic - (now.unix - row.at / 1000)
    known = [cell if isinstance(cell, float) else math.nan for cell in numbers]
    used = resources if isinstance(resources, Mapping) else {}
    return Interval._make([end, *known, used, stands_for])


def window_from_rows(rows: Iterable[tuple[Row, float]]) -> Window:
    """Return rows, each with the number of intervals that it stands for, as a window in Unix time.

    A window takes a tenth of the memory of its rows.
    """
    return Window(interval_from_row(row, count, UNIX) for row, count in rows)


def fit_row(labels: tuple[str, str], fitted: AssessmentState) -> Row | None:
    """Return an assessment as a row; None if there was too little data for one."""
    found = fitted.capacity
    if found is None or fitted.at is None:
        return None
    cells: dict[str, Cell] = {
        "trust": found.trust.value,
        "reasons": ",".join(reason.value for reason in found.reasons) or None,
        "limited_by": found.limit,
        "source": fitted.source.value if fitted.source else None,
        "points": float(len(fitted.intervals)) if fitted.intervals else None,
        "capacity": _finite_or_none(found.value),
        "capacity_lower": _finite_or_none(found.lower),
        "capacity_upper": _finite_or_none(found.upper),
        **_law_cells(found.usl),
    }
    at = in_milliseconds(fitted.at)
    return Row(labels, at, tuple(cells.get(column.name) for column in FITS.columns))


@dataclass(frozen=True, slots=True)
class ClassUses:
    """The use by query classes in one interval, and the capacity gain of each."""

    usage: IntervalUsage
    gains: Mapping[ClassName, CapacityGain]


def class_rows(labels: tuple[str, str], uses: ClassUses) -> list[Row]:
    """Return a row for each class that used anything, and one for what no class explains."""
    spent, at = uses.usage, in_milliseconds(uses.usage.at)
    rows = []
    for name, used in spent.uses.items():
        saved = uses.gains.get(class_name_of(name))
        cells: dict[str, Cell] = {
            "seconds": spent.seconds,
            **used,
            "cpu_error": spent.cpu_error.get(name),
            "cpu_source": spent.cpu_source.value if spent.cpu_source else None,
            "waits": float(name in spent.waits),
            "removed_gain": _finite_or_none(saved.removed) if saved else None,
            "halved_gain": _finite_or_none(saved.halved) if saved else None,
        }
        class_labels = (*labels, name)
        rows.append(
            Row(class_labels, at, tuple(cells.get(column.name) for column in CLASSES.columns))
        )
    return rows


def sample_chunks(samples: Sequence[Sample], now: ClockPair) -> list[Chunk]:
    """Pack samples of any collectors, by collector."""
    readings: dict[str, dict[int, Mapping[str, float]]] = {}
    for sample in samples:
        at = in_milliseconds(now.to_unix(sample.at))
        readings.setdefault(sample.collector, {})[at] = sample.values
    return [pack(name, sorted(by_time.items())) for name, by_time in readings.items()]


def _law_cells(fit: UslFit | None) -> dict[str, Cell]:
    """Return the numbers of the law; empty if there is none."""
    if fit is None:
        return {}
    n, x = fit.n_max_interval, fit.x_max_interval
    numbers = {
        "sigma": fit.law.sigma,
        "kappa": fit.law.kappa,
        "lambda": fit.law.lam,
        "n_max": fit.n_max,
        "n_max_lower": n.low if n else None,
        "n_max_upper": n.high if n else None,
        "x_max": fit.x_max,
        "x_max_lower": x.low if x else None,
        "x_max_upper": x.high if x else None,
        "r_squared": fit.r_squared,
    }
    return {name: _finite_or_none(number) for name, number in numbers.items()}


def _finite_or_none(number: float | None) -> float | None:
    return None if number is None or not math.isfinite(number) else float(number)
