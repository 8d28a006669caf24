"""A comparison of two periods for people and for programs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agent.commands.replay_report import time_text
from agent.commands.text_table import DASH, table_lines
from agent.compare.comparison import Compared, Unit
from agent.compare.periods import Assessed
from agent.export.capacity_report import resource_words
from agent.export.fit_report import TIMES, quantity
from agent.export.snapshot_json import finite
from agent.query_classes.class_registry import name_of
from agent.support.escaping import json_text, printable
from models.comparison import Change, Estimate, Verdict

HEADER = ("", "before", "90 % interval", "after", "90 % interval", "change", "90 % interval", "")
RIGHT = (1, 3, 5)
VERDICTS = {
    Verdict.HIGHER: "HIGHER",
    Verdict.LOWER: "LOWER",
    Verdict.WITHIN: "within the uncertainty",
    Verdict.CANNOT_TELL: "cannot tell",
}
PARAMETERS = {
    "capacity": "capacity, queries/s",
    "sigma": "contention σ",
    "kappa": "coherency κ",
    "lambda": "one thread λ, queries/s",
}
DIGEST = 12
"""Characters of a class's digest that are shown."""


@dataclass(frozen=True, eq=False, slots=True)
class Comparison:
    """Two periods of one target, and every quantity of both."""

    target: str
    before: Assessed
    after: Assessed
    rows: tuple[Compared, ...]
    loads_differ: bool


def as_table(comparison: Comparison) -> Iterator[str]:
    """A row for each quantity, and what to mind in reading them."""
    yield printable(comparison.target)
    for name, side in (("before", comparison.before), ("after", comparison.after)):
        span = f"{time_text(side.period.start)} to {time_text(side.period.end)}"
        low, middle, high = map(quantity, side.loads)
        load = f"{middle} queries/s (5 to 95 %: {low} to {high})"
        yield printable(f"  {name:<7} {span}, {side.intervals:,} intervals, {load}")
    yield ""
    yield from map(printable, table_lines([HEADER, *map(_cells, comparison.rows)], RIGHT))
    yield ""
    if comparison.loads_differ:
        yield "The loads do not overlap: what a query costs may differ for that alone."
    changed = [row for row in comparison.rows if row.change.verdict in _CHANGED]
    if not changed:
        yield "Nothing changed beyond the uncertainty."


_CHANGED = (Verdict.HIGHER, Verdict.LOWER)


def as_json(comparison: Comparison) -> Iterator[str]:
    """One document."""
    yield json_text(
        finite(
            {
                "target": comparison.target,
                "before": _side(comparison.before),
                "after": _side(comparison.after),
                "loads_differ": comparison.loads_differ,
                "quantities": [_object(row) for row in comparison.rows],
            }
        )
    )


def _side(side: Assessed) -> dict[str, object]:
    capacity = side.capacity
    low, middle, high = side.loads
    return {
        "start": side.period.start,
        "end": side.period.end,
        "intervals": side.intervals,
        "throughput": {"lower": low, "median": middle, "upper": high},
        "limit": capacity and capacity.limit,
        "trust": capacity and capacity.trust,
        "reasons": [reason.value for reason in capacity.reasons] if capacity else [],
    }


def _object(row: Compared) -> dict[str, object]:
    return {
        "name": row.name,
        "unit": row.unit.value or None,
        "before": _values(row.before),
        "after": _values(row.after),
        "difference" if row.is_difference else "ratio": _values(row.change),
        "verdict": row.change.verdict,
        "why": row.why or None,
    }


def _values(known: Estimate | Change) -> dict[str, float | None]:
    return {"value": known.value, "lower": known.low, "upper": known.high}


def _cells(row: Compared) -> tuple[str, ...]:
    show = _number_of(row)
    verdict = VERDICTS[row.change.verdict] + (f": {row.why}" if row.why else "")
    before, after = ((_or_dash(show, e.value), _range(show, e)) for e in (row.before, row.after))
    change = _signed if row.is_difference else _percent
    shown = row.change if row.change.verdict is not Verdict.CANNOT_TELL else Change(Verdict.WITHIN)
    difference = _or_dash(change, shown.value), _range(change, shown)
    return (_title(row.name), *before, *after, *difference, verdict)


def _title(name: str) -> str:
    kind, _, rest = name.partition(":")
    if kind == "demand":
        return f"of {resource_words(rest)}, a query"
    if kind in ("statement_time", "cpu"):
        query = name_of(rest)
        digest = (
            f"{query.schema}.{query.digest[:DIGEST]}" if query.schema else query.digest[:DIGEST]
        )
        return f"{digest}, {'time' if kind == 'statement_time' else 'CPU'} of a call"
    return PARAMETERS[name]


def _number_of(row: Compared) -> Callable[[float], str]:
    """Seconds in one unit for the whole row, all else to three digits."""
    if row.unit is not Unit.SECONDS:
        return quantity
    known = [e.value for e in (row.before, row.after) if e.value]
    size, unit = next((t for t in TIMES if max(known, default=0.0) >= t[0]), TIMES[-1])
    return lambda value: f"{quantity(value / size)} {unit}"


def _or_dash(show: Callable[[float], str], value: float | None) -> str:
    return DASH if value is None else show(value)


def _range(show: Callable[[float], str], known: Estimate | Change) -> str:
    if known.low is None and known.high is None:
        return DASH
    return f"{_or_dash(show, known.low)} to {_or_dash(show, known.high)}"


def _percent(ratio: float) -> str:
    if ratio > 10:
        return f"×{quantity(ratio)}"
    return f"{100 * (ratio - 1):+.1f} %"


def _signed(difference: float) -> str:
    return f"{difference:+.3g}"
