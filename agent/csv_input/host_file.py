"""Reading the resource of a long class file from the host's file, joined by interval."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from agent.csv_input.class_file import MIN_INTERVALS, TIME, ClassFile, Table
from agent.csv_input.table_file import TableFileError
from models.attribution.class_time_series import Array
from models.attribution.result import HostUse

DEFAULT_RESOURCE = "mysqld_cpu_s"
MAX_CLOCK_DIFFERENCE = 0.25
"""The two files' clocks may differ by this part of an interval."""
KINDS = ("user", "nice", "sys", "idle", "iowait", "irq", "softirq", "steal")
JIFFIES = tuple(f"host_{kind}" for kind in KINDS)
STRETCH_SECONDS = 60.0
"""Seconds over which it is judged how busy the host was."""


@dataclass(frozen=True)
class HostFile:
    """A resource of the whole server per interval, and what the host did meanwhile."""

    name: str
    resource: str
    at: Array
    """When each interval ended, s, rising."""
    y: Array
    jiffies: Array | None
    """The host's time in each interval by its kinds, shape (T, 8), any unit; None: not known."""

    @property
    def use(self) -> HostUse:
        """How busy the host was, over all intervals of the file."""
        return self.use_at(np.arange(len(self.at)))

    def use_at(self, places: NDArray[np.intp]) -> HostUse:
        """The host's CPU use and IO wait in their worst minute of the intervals at these places.

        Places are rising, shape (k,); with less than a minute all of them count.
        """
        if self.jiffies is None:
            return HostUse()
        interval = (
            float(np.median(np.diff(self.at[places]))) if len(places) > 1 else STRETCH_SECONDS
        )
        width = min(max(round(STRETCH_SECONDS / interval), 1), len(places))
        sums = np.cumsum(np.vstack((np.zeros(len(KINDS)), self.jiffies[places])), axis=0)
        spent = dict(zip(KINDS, (sums[width:] - sums[:-width]).T, strict=True))
        total = sum(spent.values(), np.zeros(len(sums) - width))
        if not total.any():
            return HostUse()
        whole = np.where(total > 0, total, np.inf)
        busy = (total - spent["idle"] - spent["iowait"]) / whole
        return HostUse(float(busy.max()), float((spent["iowait"] / whole).max()))


def read_host(path: str, resource: str = DEFAULT_RESOURCE) -> HostFile:
    """Read `t_s`, the resource, and the host's jiffies where all their columns are there.

    Raises TableFileError for everything that keeps the file from being used.
    """
    table = Table(path)
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
    times = values[:, 2:] if known else None
    return HostFile(table.name, resource, values[:, 0], values[:, 1], times)


def joined(classes: ClassFile, host: HostFile) -> ClassFile:
    """Give a long class file its resource; intervals that only one of the two has are left out."""
    if classes.at is None:
        problem = "each row holds its resource itself"
        raise TableFileError(classes.name, None, problem, "leave --host out")
    near = MAX_CLOCK_DIFFERENCE * float(np.median(np.diff(classes.at)))
    right = np.clip(np.searchsorted(host.at, classes.at), 1, max(len(host.at) - 1, 1))
    left = right - 1
    right = np.minimum(right, len(host.at) - 1)
    nearer = np.abs(host.at[left] - classes.at) <= np.abs(host.at[right] - classes.at)
    place = np.where(nearer, left, right)
    kept = np.flatnonzero(np.abs(host.at[place] - classes.at) <= near)
    if len(kept) < MIN_INTERVALS:
        problem = f"it has {len(kept)} intervals at the same {TIME} as {classes.name}"
        raise TableFileError(host.name, None, problem, "record both at the same time")
    return replace(
        classes,
        intervals=classes.intervals.at(kept),
        resource=host.resource,
        y=host.y[place[kept]],
        at=classes.at[kept],
        truth=None if classes.truth is None else classes.truth[kept],
        host=host.use_at(np.unique(place[kept])),
    )
