"""The quality gate: bytes and rows go to classes only where the model predicts them well.

CPU follows the time of statements that compute. Bytes follow nothing that a server reports about
its classes except calls and rows: reads depend on the contents of the buffer pool, and most writes
happen long after the statement. A division that predicts badly would charge the wrong classes.
"""

import re
from dataclasses import replace

import numpy as np

from models.arrays import Array, Mask
from models.attribution.class_cost_fit import TYPICAL_NOISE
from models.attribution.class_interval_table import AGENT, ClassIntervals
from models.attribution.result import Attribution, AttributionReason, PredictionError
from models.numerics import NEGLIGIBLE

MIN_R_SQUARED, MAX_MAPE = 0.7, 0.5
"""Measured live: 0.98 and 0.1 for bytes of the network, 0 to 0.65 and 0.2 to 20 for those of disks;
at 0.65 a quarter of what was written went to classes that wrote nothing."""
DISK_RESOURCES = ("read", "written")
ROW_COUNTERS = ("rows_examined", "rows_affected")
FUNCTION_CALL = re.compile(r"[`\"]\s*\(|\.\s*\w+\s*\(")
"""The call of a function by a name that is quoted or has a schema."""


def is_predicted_well(held_out: PredictionError) -> bool:
    """Return whether the error is small and the prediction correlates with the actual use.

    No correlation is required of an error as small as an interval's noise.
    """
    error, moved = held_out.mape, held_out.r_squared
    if error is None or error > MAX_MAPE:
        return False
    return error <= TYPICAL_NOISE or (moved or 0.0) >= MIN_R_SQUARED


def varied_as_predicted(held_out: PredictionError) -> bool:
    """Return whether the use varied as predicted: of a steady load any division predicts well."""
    return is_predicted_well(held_out) and (held_out.r_squared or 0.0) >= MIN_R_SQUARED


def may_have_used(resource: str, intervals: ClassIntervals) -> Mask:
    """Find the classes that may have used it, shape (K,): no disk bytes if they only wait.

    The agent's own statements read tables in memory. A class that names no table moves no bytes,
    except by a stored function that touches rows of one. A class that touches no row reads nothing,
    but may write what other classes changed, as COMMIT does.
    """
    may = np.ones(len(intervals.names), dtype=np.bool_)
    if resource not in DISK_RESOURCES:
        return may
    may &= ~intervals.calls_wait_function
    may &= np.array([name != AGENT for name in intervals.names], dtype=np.bool_)
    touched = _rows_touched(intervals)
    if resource == "read" and touched is not None:
        may &= touched.sum(axis=0) > 0
    if intervals.texts is not None:
        without_table = np.array(
            [_names_no_table(text) for text in intervals.texts], dtype=np.bool_
        )
        calls_function = np.array(
            [_may_call_a_stored_function(text) for text in intervals.texts], np.bool_
        )
        may &= ~(without_table & ~(calls_function & _touch_table_rows(intervals)))
    return may


def _names_no_table(text: str | None) -> bool:
    """Return whether it is a SELECT without FROM, and not truncated."""
    if text is None or text.rstrip().endswith("..."):
        return False
    return text.startswith("SELECT") and " FROM " not in text


def _may_call_a_stored_function(text: str | None) -> bool:
    """Return whether it calls a quoted or qualified name; digests quote built-in ones too."""
    return text is not None and FUNCTION_CALL.search(text) is not None


def _touch_table_rows(intervals: ClassIntervals) -> Mask:
    """Find the classes that touch rows of a table, shape (K,).

    MySQL counts one row for each call without a table, so more than that are required.
    """
    touched = _rows_touched(intervals)
    if touched is None or intervals.count is None:
        return np.ones(len(intervals.names), dtype=np.bool_)
    examined, affected = touched
    touch: Mask = (examined > (1 + NEGLIGIBLE) * intervals.count.sum(axis=0)) | (affected > 0)
    return touch


def _rows_touched(intervals: ClassIntervals) -> Array | None:
    """Sum up the rows that each class touched, by `ROW_COUNTERS`, shape (R, K); None: not known."""
    sizes = {name: table.sum(axis=0) for name, table in intervals.sizes if name in ROW_COUNTERS}
    if len(sizes) < len(ROW_COUNTERS):
        return None
    return np.stack([sizes[name] for name in ROW_COUNTERS])


def gate_mask(resource: str, intervals: ClassIntervals, held_out: PredictionError) -> Array:
    """Return 1 for each class that keeps its part of the bytes or rows, else 0, shape (K,)."""
    if not is_predicted_well(held_out):
        return np.zeros(len(intervals.names))
    return may_have_used(resource, intervals).astype(np.float64)


def withhold_failing(resource: str, intervals: ClassIntervals, found: Attribution) -> Attribution:
    """Return the attribution with what does not pass unattributed; its lines are then invalid."""
    parts = gate_mask(resource, intervals, found.held_out)
    totals = found.totals * parts
    attributed = float(totals.sum()) or 1.0
    classes = tuple(
        replace(
            use,
            total=float(total),
            share=float(total) / attributed,
            stderr=use.stderr if part else None,
        )
        for use, total, part in zip(found.classes, totals, parts, strict=True)
    )
    added_reasons = () if is_predicted_well(found.held_out) else (AttributionReason.WITHHELD,)
    unattributed = found.unattributed + float((found.totals - totals).sum())
    return replace(
        found,
        classes=classes,
        unattributed=unattributed,
        reasons=(*found.reasons, *added_reasons),
    )
