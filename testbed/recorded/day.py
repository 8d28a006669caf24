"""A day of a real server that `bench/record_day.py` recorded, a second for each minute of it.

Only times and durations are those of the short day. All other columns are rates, averages and
shares, which are the same for a long one.
"""

import csv
import gzip
import io
from pathlib import Path

import numpy as np

HOUR = 3600.0
MINUTE = 60.0
"""Seconds of the day that a recorded second stands for."""
FIRST_HOUR, HOURS = 4.0, 18.0
"""When the day begins, and how long it is."""
PATTERN = {
    4.0: 0.12,
    6.0: 0.15,
    8.0: 0.40,
    10.0: 0.62,
    12.0: 0.74,
    13.0: 0.70,
    14.5: 0.58,
    16.0: 0.68,
    17.0: 0.80,
    18.0: 0.92,
    19.0: 1.15,
    20.0: 1.15,
    20.5: 0.80,
    22.0: 0.35,
}
"""Offered load by the hour, as a share of the throughput that the clients' connections reach."""
MIDNIGHT = 1_772_409_600.0
"""The Unix time of the day's beginning: 2026-03-02, a Monday."""


def day_share(hour: float) -> float:
    """Interpolate the offered load at that hour, as a share of the highest throughput."""
    return float(np.interp(hour, list(PATTERN), list(PATTERN.values())))


def day_of(file: Path) -> str:
    """Write the agent's intervals of a recording, with the times of the long day, as CSV."""
    rows = list(csv.DictReader(io.StringIO(gzip.decompress(file.read_bytes()).decode())))
    start = min(float(row["time"]) - float(row["seconds"]) for row in rows)
    output = io.StringIO()
    writer = csv.DictWriter(output, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        since = MINUTE * (float(row["time"]) - start)
        row["time"] = f"{MIDNIGHT + HOUR * FIRST_HOUR + since:.3f}"
        row["seconds"] = repr(MINUTE * float(row["seconds"]))
        writer.writerow(row)
    return output.getvalue()
