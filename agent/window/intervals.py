"""From raw samples to intervals, and intervals as a window of arrays."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.window.interval_rates import Columns
from agent.window.resource_utilisation import is_rate, usage
from collectors.base import Sample
from models import rates
from models.rates import Array

EXCLUDED = ("agent", "binlog_dump", "system")


class Interval(NamedTuple):
    """One interval of one target. Rates per second, NaN for what is not known."""

    end: float  # monotonic seconds
    seconds: float
    throughput: float  # queries/s, without the agent's own
    statement_time: float  # concurrency by Little's law
    threads_running: float  # concurrency as the average of Threads_running, raw
    thread_samples: float
    excluded_agent: float  # threads within threads_running that are no client's work
    excluded_binlog_dump: float
    excluded_system: float
    resources: Mapping[str, float]  # utilisations, 0..1, and rates of what has no known ceiling
    stands_for: float = 1.0  # how many intervals it stands for, since others were let go


NUMBERS = tuple(name for name in Interval._fields if name != "resources")


class Window:
    """Intervals as arrays: the numbers of `Interval`, shape (k,), oldest first. Immutable.

    They are kept so: an `Interval` takes six times the memory of its numbers.
    """

    def __init__(self, intervals: Iterable[Interval] = ()) -> None:
        rows = list(intervals)
        table = np.array([[getattr(row, name) for name in NUMBERS] for row in rows], np.float64)
        columns = table.reshape(-1, len(NUMBERS)).T.copy()
        self._columns = dict(zip(NUMBERS, columns, strict=True))
        names = sorted({name for row in rows for name in row.resources})
        self._used = {n: np.array([row.resources.get(n, np.nan) for row in rows]) for n in names}

    @classmethod
    def _of(cls, columns: dict[str, Array], used: dict[str, Array]) -> "Window":
        window = cls.__new__(cls)
        window._columns, window._used = columns, used
        return window

    def followed_by(self, later: "Window") -> "Window":
        """Both, one after the other."""
        columns = {n: np.concatenate((self[n], later[n])) for n in NUMBERS}
        names = sorted({*self._used, *later._used})
        parts = [(part._used, np.full(len(part), np.nan)) for part in (self, later)]
        used = {
            name: np.concatenate([used.get(name, unknown) for used, unknown in parts])
            for name in names
        }
        return Window._of(columns, used)

    def select(self, which: NDArray[np.bool_] | NDArray[np.intp]) -> "Window":
        """The intervals of this mask or at these indices; what is known of none is left out."""
        columns = {name: column[which] for name, column in self._columns.items()}
        used = {name: column[which] for name, column in self._used.items()}
        return Window._of(columns, {name: u for name, u in used.items() if np.isfinite(u).any()})

    def standing_for(self, counts: Array) -> "Window":
        """The same intervals, with the number of intervals that each represents."""
        return Window._of({**self._columns, "stands_for": counts}, self._used)

    @property
    def rows(self) -> list[Interval]:
        """One by one."""
        numbers = np.array([self[name] for name in NUMBERS]).T.tolist()
        used = [
            {name: float(u[k]) for name, u in self._used.items() if np.isfinite(u[k])}
            for k in range(len(self))
        ]
        return [
            Interval(**dict(zip(NUMBERS, row, strict=True)), resources=known)
            for row, known in zip(numbers, used, strict=True)
        ]

    @property
    def utilisations(self) -> Mapping[str, Array]:
        """Of each resource whose ceiling is known, NaN where not known."""
        return {name: used for name, used in self._used.items() if not is_rate(name)}

    @property
    def rates(self) -> Mapping[str, Array]:
        """The same of what has no known ceiling, per second."""
        return {name: rate for name, rate in self._used.items() if is_rate(name)}

    def used(self, name: str) -> Array:
        """Return a utilisation or a rate, shape (k,); all NaN where it was never known."""
        known = self._used.get(name)
        return np.full(len(self), np.nan) if known is None else known

    def __getitem__(self, name: str) -> Array:
        """The column of that name."""
        return self._columns[name]

    def __len__(self) -> int:
        """How many intervals there are."""
        return len(self["end"])

    @property
    def excluded(self) -> Array:
        """Threads within Threads_running that are no client's work, shape (k,)."""
        total: Array = np.nansum([self[f"excluded_{kind}"] for kind in EXCLUDED], axis=0)
        return total

    @property
    def client_threads(self) -> Array:
        """Concurrency of the clients by Threads_running, never below zero, shape (k,)."""
        return np.maximum(self["threads_running"] - self.excluded, 0.0)


def intervals(
    raw: Mapping[str, Sequence[Sample]], edges: Array, max_gap: float
) -> Iterable[Interval]:
    """The intervals between consecutive edges (s, shape (k+1,)) that have a throughput."""
    columns = {name: Columns(samples, max_gap) for name, samples in raw.items()}
    status = columns["status"]
    seconds = np.diff(edges)
    epoch = rates.epochs(status.at, status["uptime"])
    asked = rates.increases(edges, status.at, status["questions"], max_gap=max_gap, epoch=epoch)
    own = rates.increases(edges, status.at, status["own_statements"], max_gap=max_gap)
    statement_time = _statement_time(columns, edges, epoch)
    table = np.column_stack(
        (
            edges[1:],
            seconds,
            np.maximum(asked - own, 0.0) / seconds,
            statement_time,
            *rates.averages(edges, status.at, status["threads_running"]),
            *_excluded(columns, edges),
        )
    )
    used = usage(columns, statement_time, edges)
    for k, row in enumerate(table):
        if np.isfinite(row[2]):
            known = {name: float(u[k]) for name, u in used.items() if np.isfinite(u[k])}
            yield Interval._make([*map(float, row), known, 1.0])


def _statement_time(columns: Mapping[str, Columns], edges: Array, epoch: Array) -> Array:
    """Concurrency by Little's law; more than there are connections is not possible.

    It would be where statements in flight cannot be read: the time of a long one comes at its end.
    """
    source = columns.get("statements")
    if source is None:
        return np.full(edges.size - 1, np.nan)
    ended = source["statement_seconds"]
    in_flight = np.nan_to_num(source["in_flight_seconds"])
    life = np.interp(source.at, columns["status"].at, epoch)  # a restart shows as a fraction
    spent = rates.increases(
        edges, source.at, ended + in_flight, max_gap=source.max_gap, epoch=life, monotonic=ended
    )
    found = rates.concurrency_by_littles_law(spent, np.diff(edges))
    return np.where(found <= columns["status"].greatest(edges, "threads_connected"), found, np.nan)


def _excluded(columns: Mapping[str, Columns], edges: Array) -> tuple[Array, Array, Array]:
    """The last known number of each kind at the end of each interval; the agent is always one."""
    one = np.ones(edges.size - 1)
    replicas = columns["status"].last(edges, "replicas_connected")
    threads = columns.get("threads")
    if threads is None:
        return one, replicas, np.full_like(one, np.nan)
    dumps = threads.last(edges, "binlog_dump")
    return one, np.where(np.isnan(dumps), replicas, dumps), threads.last(edges, "system")
