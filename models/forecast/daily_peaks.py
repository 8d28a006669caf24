"""Daily peaks of a load: the busiest hour of each 24, counted back from the latest hour.

Blocks of 24 hours that end now contain every hour of the day once, whatever the time zone: the
daily pattern does not affect their differences, and the present day is in the last one.
"""

import numpy as np

from models.arrays import Array

DAY_HOURS = 24


def daily_peaks(hours: Array) -> Array:
    """Find the highest hourly mean (queries/s) of each day; NaN for a gap.

    hours: hourly means, shape (hours,), oldest first, NaN where not known. Returns shape (days,),
    oldest first; an incomplete first day is left out.
    """
    days = len(hours) // DAY_HOURS
    blocks = hours[len(hours) - days * DAY_HOURS :].reshape(days, DAY_HOURS)
    known = np.isfinite(blocks)
    highest = np.max(np.where(known, blocks, -np.inf), axis=1, initial=-np.inf)
    peaks = np.where(known.sum(axis=1) >= DAY_HOURS / 2, highest, np.nan)
    seen = np.flatnonzero(np.isfinite(peaks))
    return peaks[seen[0] :] if seen.size else peaks[:0]
