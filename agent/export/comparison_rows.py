"""The rows of a comparison of two periods as cells of text, and notes on what they lack."""

from collections.abc import Callable, Iterator

from agent.compare.comparison import Compared, Comparison, Unit
from agent.compare.periods import AssessedPeriod
from agent.config.timestamps import time_text
from agent.export.capacity_sentences import resource_display_name
from agent.export.class_names import short_class_name
from agent.export.number_formats import DASH, TIME_UNITS, format_number, without_noise
from agent.query_classes.class_registry import class_name_of
from agent.window.resource_utilisation import PROCESSOR_COUNTS
from models.estimate_difference import ComparedEstimate, EstimatedChange, Verdict

HEADER = ("", "before", "90 % interval", "after", "90 % interval", "change", "90 % interval", "")
NUMBER_COLUMNS = (1, 3, 5)
"""The indices of the columns of numbers."""
VERDICTS = {
    Verdict.HIGHER: "HIGHER",
    Verdict.LOWER: "LOWER",
    Verdict.WITHIN: "not significant (99 %)",
    Verdict.CANNOT_TELL: "cannot tell",
}
PARAMETERS = {
    "capacity": "capacity, queries/s",
    "sigma": "contention σ",
    "kappa": "coherency κ",
    "lambda": "λ, throughput at N = 1, queries/s",
}


def period_text(side: AssessedPeriod) -> str:
    """Describe a period: its start and end, the number of intervals and the load."""
    span = f"{time_text(side.period.start)} to {time_text(side.period.end)}"
    low, middle, high = map(format_number, side.loads)
    load = f"{middle} queries/s (5 to 95 %: {low} to {high})"
    return f"{span}, {side.intervals:,} intervals, {load}"


def known_rows(comparison: Comparison) -> list[Compared]:
    """Return the rows of which something is known; `notes` name the others."""
    return [row for row in comparison.rows if row.is_known]


def notes(comparison: Comparison) -> Iterator[str]:
    """Yield notes on what the rows lack, and on how to read them."""
    unknown = [row for row in comparison.rows if not row.is_known]
    for why in dict.fromkeys(row.why for row in unknown):
        names = "; ".join(_row_title(row.name) for row in unknown if row.why == why)
        yield f"Not known in either period: {names} ({why})."
    yield from _limit_notes(comparison)
    if comparison.loads_differ:
        yield "The loads do not overlap: the cost per query may differ for that reason alone."
    verdicts = {row.change.verdict for row in comparison.rows}
    if verdicts <= {Verdict.CANNOT_TELL}:
        yield "Nothing can be compared yet: no quantity has a known uncertainty in both periods."
    elif not comparison.has_changed:
        yield "Nothing changed beyond the uncertainty."


def _limit_notes(comparison: Comparison) -> Iterator[str]:
    """Yield how limits changed of which rows are, within a period and from one to the other."""
    sides = {"before": comparison.before, "after": comparison.after}
    for row in comparison.rows:
        resource = row.name.removeprefix("demand:")
        name = resource_display_name(resource)
        if resource in PROCESSOR_COUNTS:
            name = f"Processors of {name}"
        limits = {
            side: period.changeable_limits[resource]
            for side, period in sides.items()
            if resource in period.changeable_limits
        }
        for side, (usual, successive) in limits.items():
            if len(successive) > 1:
                changes = ", then ".join(f"{limit:g}" for limit in successive)
                changed = f"{name} changed within {side}, {changes}"
                yield f"{changed}: only the intervals with {usual:g} count."
        if len({limit.usual for limit in limits.values()}) > 1:
            were, are = (f"{limits[side].usual:g}" for side in ("before", "after"))
            yield f"{name}: {were} before, {are} after; per query, the time of all {are} together."


def row_cells(row: Compared) -> tuple[str, ...]:
    """Return one quantity as a cell for each column of `HEADER`."""
    format_value = _number_format(row)
    verdict = VERDICTS[row.change.verdict] + (f": {row.why}" if row.why else "")
    before, after = (
        (_or_dash(format_value, e.value), _range(format_value, e)) for e in (row.before, row.after)
    )
    shown = (
        row.change
        if row.change.verdict is not Verdict.CANNOT_TELL
        else EstimatedChange(Verdict.WITHIN)
    )
    format_change = _signed_number if row.is_difference else _ratio_format(shown)
    difference = _or_dash(format_change, shown.value), _range(format_change, shown)
    return (_row_title(row.name), *before, *after, *difference, verdict)


def _row_title(name: str) -> str:
    kind, _, rest = name.partition(":")
    if kind == "demand":
        return f"{resource_display_name(rest)}, per query"
    if kind in ("statement_time", "cpu"):
        name = short_class_name(class_name_of(rest))
        return f"{name}, {'time' if kind == 'statement_time' else 'CPU'} of a call"
    return PARAMETERS[name]


def _number_format(row: Compared) -> Callable[[float], str]:
    """Return the row's number format: seconds in one unit, all else with three digits."""
    if row.unit is not Unit.SECONDS:
        return format_number
    known = [e.value for e in (row.before, row.after) if e.value]
    size, unit = next((t for t in TIME_UNITS if max(known, default=0.0) >= t[0]), TIME_UNITS[-1])
    return lambda value: f"{format_number(value / size)} {unit}"


def _or_dash(format_value: Callable[[float], str], value: float | None) -> str:
    return DASH if value is None else format_value(value)


def _range(format_value: Callable[[float], str], known: ComparedEstimate | EstimatedChange) -> str:
    if known.low is not None and known.high is not None:
        return f"{format_value(known.low)} to {format_value(known.high)}"
    if known.low is not None:
        return f"{format_value(known.low)} or more"
    return DASH if known.high is None else f"{format_value(known.high)} or less"


def _ratio_format(change: EstimatedChange) -> Callable[[float], str]:
    """Return the format of a change and its bounds: factors where one of them is above 10."""
    if max(change.value or 0.0, change.high or 0.0) > 10:
        return lambda ratio: f"×{format_number(ratio)}"
    return lambda ratio: f"{100 * (ratio - 1):+z.1f} %"


def _signed_number(difference: float) -> str:
    return f"{without_noise(difference):+.3g}"
