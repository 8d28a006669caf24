"""Statements that wait: on purpose, by their digest text or more time than CPU; for row locks.

The server counts row-lock waits for all statements together, not for each class:
`Innodb_row_lock_time` rises, when a wait ends, by the time that it took. MariaDB's LOCK_TIME of a
statement holds table and metadata locks only, so that a statement that queues for a hot row looks
as if it computed (measured: 37.2 s of the 38.3 s of such an UPDATE; its LOCK_TIME was 0.07 s).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from models.attribution.class_intervals import Array, Mask
from models.attribution.nnls import hold, minimise_non_negative
from models.attribution.sufficient_statistics import LEAST_SHARE

WAIT_CALL_SECONDS = 50e-6
"""What a call that only waits costs: parsing, planning, the answer. Measured: 46 to 71 µs."""

IO_BOUND = 0.1
"""Part of the host's time that waits for IO, beyond which times say nothing."""
LEAST_CALL_SECONDS = 30e-6
"""What any call costs at least."""


@dataclass(frozen=True)
class CpuBounds:
    """What is known of CPU time before any fit: it is in the seconds of the statements' times."""

    least_level: float = 0.0
    """CPU seconds that a computing class uses per second of its work time, at least; 0: unknown."""
    least_call: float = LEAST_CALL_SECONDS
    """CPU seconds that any call costs at least."""

    @property
    def is_of_a_part(self) -> bool:
        """Whether they are of user or system CPU alone."""
        return self == PART_OF_CPU


WHOLE_CPU = CpuBounds()
PART_OF_CPU = CpuBounds(least_call=0.0)
"""What is used in the kernel alone, or outside of it, is no more than the time."""


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

MOST_TEXTS = 1000
"""So many are remembered, with what was found in them: of five targets, 1 MiB at most."""

_WAITS = re.compile(rf"(?<![\w$`.])`?(?:{'|'.join(WAIT_FUNCTIONS)})`?\s*\(", re.IGNORECASE)
_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"")


def waits_by_text(texts: Sequence[str | None] | None, classes: int) -> Mask:
    """Tell which classes call a wait function, shape (classes,)."""
    if texts is None:
        return np.zeros(classes, dtype=np.bool_)
    return np.array([bool(text and _calls_wait_function(text)) for text in texts], dtype=bool)


@lru_cache(MOST_TEXTS)
def _calls_wait_function(text: str) -> bool:
    """Whether it does; each fit of each resource asks it of the same texts."""
    return _WAITS.search(_QUOTED.sub("''", text)) is not None


LEAST_LEVEL = 0.4
"""CPU seconds per second of work time of those who compute, at least, where threads get a CPU at
once (measured: 0.4 for a class that also writes or ships, 0.9 for one that only computes)."""


def least_level(running: float | None, io_wait: float | None) -> float:
    """Tell how much CPU a computing class uses at least per second of its work time.

    `running`: of the time in which threads could run, the part in which they had a CPU. 0 where
    nothing can be told: it is not known, or the host waits for IO.
    """
    return 0.0 if running is None or (io_wait or 0.0) > IO_BOUND else LEAST_LEVEL * running


def must_wait(work: Array, total: float, level: float) -> Mask:
    """Find classes whose time is more than computing can explain, shape (K,).

    Those that compute use `level`·work at least, together no more than the total: while they
    would, the one with most work is taken out. No text and no count of rows is needed for it.
    """
    waiting = np.zeros(len(work), dtype=np.bool_)
    if level <= 0:
        return waiting
    for k in np.argsort(-work, kind="stable"):
        if level * work[~waiting].sum() <= total:
            break
        waiting[k] = True
    return waiting


def capped(work: Array, count: Array | None, waiting: Mask) -> Array:
    """Cut the work time of waiting classes, s, shape (T, K), to what their calls can cost."""
    if count is None:
        return np.where(waiting, 0.0, work)
    return np.where(waiting, np.minimum(work, WAIT_CALL_SECONDS * count), work)


_LOCKS = re.compile(r"\bFOR\s+(?:UPDATE|SHARE)\b|\bLOCK\s+IN\s+SHARE\s+MODE\b", re.IGNORECASE)


def locks_rows(rows_affected: Array | None, texts: Sequence[str | None] | None) -> Mask | None:
    """Find the classes that lock rows, shape (K,): they change rows, or their text says so.

    `rows_affected` has shape (T, K). None where it is not known.
    """
    if rows_affected is None:
        return None
    words = texts or [None] * rows_affected.shape[1]
    pairs = zip(rows_affected.sum(axis=0), words, strict=True)
    return np.array(
        [bool(rows or (text and _LOCKS.search(text))) for rows, text in pairs], np.bool_
    )


def row_lock_waits(work: Array, waited: Array, locking: Mask) -> Array:
    """Divide the row-lock waits of all classes over those that lock rows, s, shape (T, K).

    `work`, s, shape (T, K), is statement time less the lock time that the server counts for the
    class; `waited`, s, shape (T,), the row-lock waits that are in `work`. Each class waits for a
    fraction of its work, between 0 and 1: least squares of the waits on the work, drawn to the
    fraction that all of them share as far as the intervals do not tell the classes apart.
    """
    result = np.zeros_like(work)
    classes = np.flatnonzero(locking & (work.sum(axis=0) > 0))
    total = float(work[:, classes].sum())
    if not len(classes) or total <= 0:
        return result
    x, y = work[:, classes], np.minimum(waited, work[:, classes].sum(axis=1))
    common = float(y.sum()) / total
    residual = y - common * x.sum(axis=1)
    ridge = float(np.sqrt(residual @ residual / max(len(y) - 1, 1))) + LEAST_SHARE * float(x.max())
    matrix = x.T @ x + ridge**2 * np.eye(len(classes))
    vector = x.T @ y + ridge**2 * common
    fraction = minimise_non_negative(matrix, vector)
    if len(whole := np.flatnonzero(fraction > 1)):
        hold(matrix, vector, whole, np.ones(len(classes)))
        fraction = minimise_non_negative(matrix, vector)
    result[:, classes] = np.minimum(fraction, 1.0) * x
    return result
