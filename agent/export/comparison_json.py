"""A comparison of two periods as JSON; docs/compare.md lists every key."""

from typing import Any

from agent.compare.comparison import Compared, Comparison
from agent.compare.periods import AssessedPeriod
from agent.export.snapshot_json import without_non_finite
from models.estimate_difference import ComparedEstimate, EstimatedChange


def comparison_object(comparison: Comparison) -> Any:
    """Return the comparison as one document; what is not known is null."""
    return without_non_finite(
        {
            "target": comparison.target,
            "before": _period_object(comparison.before),
            "after": _period_object(comparison.after),
            "loads_differ": comparison.loads_differ,
            "quantities": [_quantity_object(row) for row in comparison.rows],
            "notes": list(comparison.source_notes),
        }
    )


def _period_object(side: AssessedPeriod) -> dict[str, object]:
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


def _quantity_object(row: Compared) -> dict[str, object]:
    return {
        "name": row.name,
        "unit": row.unit.value or None,
        "before": _estimate_object(row.before),
        "after": _estimate_object(row.after),
        "difference" if row.is_difference else "ratio": _estimate_object(row.change),
        "verdict": row.change.verdict,
        "why": row.why or None,
    }


def _estimate_object(known: ComparedEstimate | EstimatedChange) -> dict[str, float | None]:
    return {"value": known.value, "lower": known.low, "upper": known.high}
