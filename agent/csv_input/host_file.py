"""Reader of a host's CSV file, whose resource is joined by interval to a long class file."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from agent.csv_input.class_file import (
    MIN_INTERVALS,
    SERVER_SAMPLE_COLUMNS,
    TIME,
    ClassFile,
    Table,
)
from agent.csv_input.table_file import TableFileError
from models.arrays import Array
from models.attribution.result import HostUse

DEFAULT_RESOURCE = "mysqld_cpu_s"
MAX_CLOCK_DIFFERENCE = 0.25
"""The two files' clocks may differ by this part of an interval."""
KINDS = ("user", "nice", "sys", "idle", "iowait", "irq", "softirq", "steal")
MAX_LENGTH_RATIO = 1.5
"""The ratio of the lengths of the two files' intervals, either way; one may miss a few rows."""
JIFFIES = tuple(f"host_{kind}" for kind in KINDS)
AVERAGING_SECONDS = 60.0
"""Seconds over which the host's CPU use is averaged; the worst such minute counts."""


@dataclass(frozen=True)
class HostFile:
    """The whole server's use of a resource in each interval, and the host's CPU time by kind."""

    name: str
    resource: str
    at: Array
    """When each interval ended, s, rising, shape (T,)."""
    y: Array
    """The use of the resource, shape (T,), in the file's unit."""
    jiffies: Array | None
    """The host's CPU time in each interval by `KINDS`, shape (T, 8), any unit; None: unknown."""

    def worst_minute_use_of(self, indexes: NDArray[np.intp]) -> HostUse:
        """Return the host's CPU use and IO wait, each in the worst minute of some intervals.

        `indexes`, rising, shape (k,), selects them; if they last less than a minute, all count.
        """
        if self.jiffies is None:
            return HostUse()
        interval = (
            float(np.median(np.diff(self.at[indexes]))) if len(indexes) > 1 else AVERAGING_SECONDS
        )
        width = min(max(round(AVERAGING_SECONDS / interval), 1), len(indexes))
        sums = np.cumsum(np.vstack((np.zeros(len(KINDS)), self.jiffies[indexes])), axis=0)
        spent = dict(zip(KINDS, (sums[width:] - sums[:-width]).T, strict=True))
        total = sum(spent.values(), np.zeros(len(sums) - width))
        if not total.any():
            return HostUse()
        whole = np.where(total > 0, total, np.inf)
        busy = (total - spent["idle"] - spent["iowait"]) / whole
        return HostUse(float(busy.max()), float((spent["iowait"] / whole).max()))


def read_host(path: str, resource: str = DEFAULT_RESOURCE) -> HostFile:
    """Read `t_s`, the resource and, if all of its columns exist, the host's CPU time by kind.

    The columns that this module names may be in upper case. Raises TableFileError if it cannot be
    used.
    """
    table = Table(path, name_of=_column_name)
    if {TIME, *SERVER_SAMPLE_COLUMNS} <= set(table.header):
        problem = "these are samples of a server, whose columns are counters"
        raise table.error(problem, "give the use of the resource in each interval")
    at_column = table.column(TIME, f"{TIME} says when each interval ended, as in the class file")
    remedy = f"its columns are {', '.join(table.header[:20])}: name one with --resource"
    y_column = table.column(resource, remedy)
    known = set(JIFFIES) <= set(table.header)
    jiffies = [table.header.index(name) for name in JIFFIES if known]
    rows = []
    for cells in table.rows():
        at = table.number(cells, at_column, signed=True)
        rows.append([at, *(table.number(cells, i) for i in (y_column, *jiffies))])
    if not rows:
        raise table.error("no intervals", "record two or more")
    values = np.array(rows)
    values = values[np.argsort(values[:, 0], kind="stable")]
    if (np.diff(values[:, 0]) <= 0).any():
        raise table.error(f"two rows have the same {TIME}", "keep one row per interval")
    cpu_times = values[:, 2:] if known else None
    return HostFile(table.name, resource, values[:, 0], values[:, 1], cpu_times)


def _column_name(name: str) -> str:
    """Return a column of this module in lower case, any other as it is written."""
    folded = name.casefold()
    return folded if folded in (TIME, DEFAULT_RESOURCE, *SERVER_SAMPLE_COLUMNS, *JIFFIES) else name


def join_host_file(classes: ClassFile, host: HostFile) -> ClassFile:
    """Return a long class file with its resource, restricted to the intervals of both files."""
    if classes.at is None:
        problem = "each row holds its resource itself"
        raise TableFileError(classes.name, None, problem, "omit --host")
    _require_equal_intervals(classes, host)
    tolerance = MAX_CLOCK_DIFFERENCE * float(np.median(np.diff(classes.at)))
    right = np.clip(np.searchsorted(host.at, classes.at), 1, max(len(host.at) - 1, 1))
    left = right - 1
    right = np.minimum(right, len(host.at) - 1)
    left_is_nearer = np.abs(host.at[left] - classes.at) <= np.abs(host.at[right] - classes.at)
    nearest = np.where(left_is_nearer, left, right)
    kept = np.flatnonzero(np.abs(host.at[nearest] - classes.at) <= tolerance)
    if len(kept) < MIN_INTERVALS:
        problem = f"it has {len(kept)} intervals at the same {TIME} as {classes.name}"
        raise TableFileError(host.name, None, problem, "record both at the same time")
    return replace(
        classes,
        intervals=classes.intervals.at(kept),
        resource=host.resource,
        y=host.y[nearest[kept]],
        at=classes.at[kept],
        truth=None if classes.truth is None else classes.truth[kept],
        host=host.worst_minute_use_of(np.unique(nearest[kept])),
    )


def _require_equal_intervals(classes: ClassFile, host: HostFile) -> None:
    """Raise `TableFileError` if a row of the host is not of as long a time as one of the classes.

    An interval without a class, or a row that is missing, makes a few longer.
    """
    length = float(np.quantile(classes.intervals.seconds, 0.1))
    distance = float(np.quantile(np.diff(host.at), 0.1)) if len(host.at) > 1 else length
    if not 1 / MAX_LENGTH_RATIO <= distance / length <= MAX_LENGTH_RATIO:
        own = f"its rows are {distance:.3g} s apart"
        problem = f"{own}, and an interval of {classes.name} lasts {length:.3g} s"
        raise TableFileError(host.name, None, problem, "record both in the same intervals")
