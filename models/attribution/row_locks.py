"""Row-lock waits: the server counts them for all statements together, not for each class.

`Innodb_row_lock_time` rises, when a wait ends, by the time that it took. MariaDB's LOCK_TIME of a
statement holds table and metadata locks only, so that a statement that queues for a hot row looks
as if it computed (measured: 37.2 s of the 38.3 s of such an UPDATE; its LOCK_TIME was 0.07 s).
"""

import re
from collections.abc import Sequence

import numpy as np

from models.attribution.class_intervals import Array
from models.attribution.deliberate_waits import Mask
from models.attribution.nnls import hold, minimise_non_negative

LEAST_PULL = 1e-4
"""Of the largest work: keeps the equations regular where every tick is alike."""

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
    fraction that all of them share as far as the ticks do not tell the classes apart.
    """
    answer = np.zeros_like(work)
    classes = np.flatnonzero(locking & (work.sum(axis=0) > 0))
    total = float(work[:, classes].sum())
    if not len(classes) or total <= 0:
        return answer
    x, y = work[:, classes], np.minimum(waited, work[:, classes].sum(axis=1))
    common = float(y.sum()) / total
    residual = y - common * x.sum(axis=1)
    ridge = float(np.sqrt(residual @ residual / max(len(y) - 1, 1))) + LEAST_PULL * float(x.max())
    matrix = x.T @ x + ridge**2 * np.eye(len(classes))
    vector = x.T @ y + ridge**2 * common
    fraction = minimise_non_negative(matrix, vector)
    if len(whole := np.flatnonzero(fraction > 1)):
        hold(matrix, vector, whole, np.ones(len(classes)))
        fraction = minimise_non_negative(matrix, vector)
    answer[:, classes] = np.minimum(fraction, 1.0) * x
    return answer
