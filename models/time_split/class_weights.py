"""The weights by which time on disk or network is divided over query classes."""

import numpy as np

from models.arrays import Array
from models.shared_constants import MAJORITY


def read_weights(
    read: Array | None, attributed: float, rows_examined: Array | None
) -> Array | None:
    """Return the weights to divide time on disk over classes, shape (K,); None if not known.

    `attributed` is the part of the bytes read that the classes explain. If it is not most, rows
    examined are used instead: classes that compute have no statement time left for the disk.
    """
    if read is not None and attributed >= MAJORITY:
        return read
    return rows_examined


def rows_of_tables(
    rows: Array | None, calls: Array | None, lock_time: Array | None
) -> Array | None:
    """Return the rows examined in tables; shape (K,) each, None if not known of any class.

    MySQL counts a row for each call of a SELECT without a table. Opening a table takes lock time,
    on either server, so a class without lock time opens no table.
    """
    if rows is None or calls is None:
        return rows
    opens = np.zeros(len(rows)) if lock_time is None else lock_time
    found: Array = np.where(opens > 0, rows, np.maximum(rows - calls, 0.0))
    return found


def first_known(*columns: Array | None) -> Array | None:
    """Return the first column, shape (K,), that is known; None if there is none."""
    return next((column for column in columns if column is not None), None)
