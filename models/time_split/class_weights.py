"""The columns by which a time on disk or network is divided over query classes."""

import numpy as np

from models.rates import Array

MIN_ATTRIBUTED = 0.5
"""Of a resource's bytes: where less is attributed to classes, it is not known whose they are."""


def read_weights(
    read: Array | None, attributed: float, rows_examined: Array | None
) -> Array | None:
    """The weights by which time on disk is divided over classes, shape (K,); None: not known.

    `attributed` is the part of the bytes read that the classes explain. Where that is little, rows
    examined are used instead: classes that compute have no room for more.
    """
    if read is not None and attributed >= MIN_ATTRIBUTED:
        return read
    return rows_examined


def rows_of_tables(
    rows: Array | None, calls: Array | None, lock_time: Array | None
) -> Array | None:
    """Rows examined in tables; shape (K,) each, None where not known of any class.

    MySQL counts a row for each call of a SELECT without a table. Opening a table takes lock time,
    on either server, so a class without any has none of its own.
    """
    if rows is None or calls is None:
        return rows
    opens = np.zeros(len(rows)) if lock_time is None else lock_time
    found: Array = np.where(opens > 0, rows, np.maximum(rows - calls, 0.0))
    return found


def first_known(*columns: Array | None) -> Array | None:
    """The first column, shape (K,), that is known; None where none is."""
    return next((column for column in columns if column is not None), None)
