"""Statements that wait on purpose, known by their digest text."""

import re
from collections.abc import Sequence

import numpy as np

from models.attribution.class_ticks import Array

WAIT_CALL_SECONDS = 50e-6
"""What a call that only waits costs: parsing, planning, the answer. Measured: 46 to 71 µs."""

WAIT_FUNCTIONS = (
    "SLEEP",
    "GET_LOCK",
    "WAIT_FOR_EXECUTED_GTID_SET",
    "WAIT_UNTIL_SQL_THREAD_AFTER_GTIDS",
    "MASTER_POS_WAIT",
    "SOURCE_POS_WAIT",
    "MASTER_GTID_WAIT",
)
"""BENCHMARK is not among them: it computes. RELEASE_LOCK does not wait."""

_WAITS = re.compile(rf"(?<![\w$`.])`?(?:{'|'.join(WAIT_FUNCTIONS)})`?\s*\(", re.IGNORECASE)
_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"")


def waits_by_text(texts: Sequence[str | None] | None, classes: int) -> "Mask":
    """Tell which classes call a wait function, shape (classes,)."""
    if texts is None:
        return np.zeros(classes, dtype=np.bool_)
    return np.array([bool(t and _WAITS.search(_QUOTED.sub("''", t))) for t in texts], dtype=bool)


def capped(work: Array, count: Array | None, waiting: "Mask") -> Array:
    """Cut the work time of waiting classes, s, shape (T, K), to what their calls can cost."""
    if count is None:
        return np.where(waiting, 0.0, work)
    return np.where(waiting, np.minimum(work, WAIT_CALL_SECONDS * count), work)


Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]
