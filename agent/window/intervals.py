"""Computes intervals from raw samples; a window holds intervals as arrays."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from math import isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.window.resource_utilisation import is_rate, utilisations_and_rates
from agent.window.sample_columns import SampleColumns
from collectors.base import Sample
from models import rates
from models.arrays import Array, Mask

EXCLUDED = ("agent", "binlog_dump", "system")
MIN_STATEMENTS = 1e-3
"""Fewer statements of clients in an interval are rounding: the difference of two counts."""
MIN_TIMED_SHARE = 0.9
"""The least share of the queries that the counted statement time is of: those of users whom
performance_schema leaves out (setup_actors), or during which it was off, have none."""


class Interval(NamedTuple):
    """One interval of one target. Rates per second, NaN for what is not known."""

    end: float  # monotonic seconds
    seconds: float
    throughput: float  # queries/s, without the agent's own
    statement_time: float  # concurrency by Little's law
    threads_running: float  # concurrency as the average of Threads_running, raw
    thread_samples: float
    excluded_agent: float  # threads in threads_running that do not work for a client
    excluded_binlog_dump: float
    excluded_system: float
    resources: Mapping[str, float]  # utilisations, 0..1; rates where no ceiling is known
    stands_for: float = 1.0  # how many intervals it represents, since others were dropped


MAX_SINGLE = float(np.finfo(np.float32).max)  # a window has it in place of anything beyond
NUMBERS = tuple(name for name in Interval._fields if name not in {"end", "resources"})


class Window:
    """Intervals as arrays: the numbers of `Interval`, shape (k,), oldest first. Immutable.

    An `Interval` takes a dozen times the memory of its numbers here. All but the ends are kept in
    single precision: its seven digits are more than any of them is measured to.
    """

    def __init__(self, intervals: Iterable[Interval] = ()) -> None:
        rows = list(intervals)
        resources = sorted({name for row in rows for name in row.resources})
        table = [[getattr(row, name) for row in rows] for name in NUMBERS]
        table += [[row.resources.get(name, np.nan) for row in rows] for name in resources]
        self._names = (*NUMBERS, *resources)
        self._ends: Array = np.array([row.end for row in rows], dtype=np.float64)
        self._table: NDArray[np.float32] = np.clip(table, -MAX_SINGLE, MAX_SINGLE).astype(
            np.float32
        )
        """Shape (names, k)."""

    @classmethod
    def _of_table(cls, names: tuple[str, ...], ends: Array, table: NDArray[np.float32]) -> "Window":
        window = cls.__new__(cls)
        window._names, window._ends, window._table = names, ends, table
        return window

    def followed_by(self, later: "Window") -> "Window":
        """Return a window of these intervals and then the later ones."""
        names = (*NUMBERS, *sorted({*self.resources, *later.resources}))
        table = np.concatenate([part._table_of(names) for part in (self, later)], axis=1)
        return Window._of_table(names, np.concatenate((self._ends, later._ends)), table)

    def _table_of(self, names: tuple[str, ...]) -> NDArray[np.float32]:
        """Return a row for each of these names, NaN where one is not known; shape (names, k)."""
        if names == self._names:
            return self._table
        table = np.full((len(names), len(self)), np.nan, dtype=np.float32)
        table[[names.index(name) for name in self._names]] = self._table
        return table

    def select(self, which: Mask | NDArray[np.intp]) -> "Window":
        """Return the intervals of a mask (k,), or at indices; drop resources known in none."""
        table, names = self._table[:, which], self._names
        is_known = np.any(np.isfinite(table), axis=1)
        is_known[: len(NUMBERS)] = True
        if not is_known.all():
            table, names = table[is_known], tuple(compress(names, is_known))
        return Window._of_table(names, self._ends[which], table)

    def with_counts(self, counts: Array) -> "Window":
        """Return the same intervals, with new numbers of intervals that each represents, (k,)."""
        table = self._table.copy()
        table[NUMBERS.index("stands_for")] = counts
        return Window._of_table(self._names, self._ends, table)

    def shifted(self, seconds: float) -> "Window":
        """Return the same intervals, each that many seconds later: on another clock."""
        return Window._of_table(self._names, self._ends + seconds, self._table)

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources that are known in an interval, in alphabetical order."""
        return self._names[len(NUMBERS) :]

    @property
    def as_intervals(self) -> list[Interval]:
        """The intervals one by one."""
        numbers = self._table[: len(NUMBERS)].T.tolist()
        used = self._table[len(NUMBERS) :].T.tolist()
        return [
            Interval(end, **dict(zip(NUMBERS, row, strict=True)), resources=known)
            for end, row, known in zip(
                self._ends.tolist(), numbers, map(self._known_resources, used), strict=True
            )
        ]

    def _known_resources(self, used: Iterable[float]) -> Mapping[str, float]:
        """Return by name what is known of these uses, one for each resource."""
        return {name: u for name, u in zip(self.resources, used, strict=True) if isfinite(u)}

    @property
    def utilisations(self) -> Mapping[str, Array]:
        """The utilisation (1 is full) of each resource with a known ceiling, shape (k,), or NaN."""
        return {name: self[name] for name in self.resources if not is_rate(name)}

    @property
    def rates(self) -> Mapping[str, Array]:
        """Rates per second of whatever has no known ceiling, shape (k,), NaN where not known."""
        return {name: self[name] for name in self.resources if is_rate(name)}

    def utilisation_or_rate(self, name: str) -> Array:
        """Return a utilisation or a rate, shape (k,); all NaN where it was never known."""
        return self[name] if name in self._names else np.full(len(self), np.nan)

    def __getitem__(self, name: str) -> Array:
        """Return the numbers or the use of that name, shape (k,)."""
        if name == "end":
            return self._ends
        column: Array = self._table[self._names.index(name)].astype(np.float64)
        return column

    def __len__(self) -> int:
        """Return the number of intervals."""
        return len(self._ends)

    @property
    def excluded(self) -> Array:
        """Threads in Threads_running that do not work for a client, shape (k,)."""
        total: Array = np.nansum([self[f"excluded_{kind}"] for kind in EXCLUDED], axis=0)
        return total

    @property
    def client_threads(self) -> Array:
        """Concurrency of the clients by Threads_running, never below zero, shape (k,)."""
        return np.maximum(self["threads_running"] - self.excluded, 0.0)

    @property
    def statements_at_once(self) -> Array:
        """Concurrency by statement time, by Threads_running where that is not known, shape (k,)."""
        by_time = self["statement_time"]
        return np.where(np.isfinite(by_time), by_time, self.client_threads)


def compute_intervals(
    raw: Mapping[str, Sequence[Sample]], edges: Array, max_gap: float
) -> Iterable[Interval]:
    """Compute the intervals between consecutive edges (s, shape (k+1,)) that have a throughput."""
    columns = {name: SampleColumns(samples, edges, max_gap) for name, samples in raw.items()}
    status = columns["status"]
    epoch = rates.epochs(status.at, status["uptime"])
    epoch = epoch + rates.epochs(status.at, status["uptime_since_flush"])
    questions = status.increases(status["questions"], epoch)
    clients = questions - status.increases(status["own_statements"])
    statement_time = _statement_time(columns, epoch, questions)
    table = np.column_stack(
        (
            edges[1:],
            status.seconds,
            np.where(clients < MIN_STATEMENTS, 0.0, clients) / status.seconds,
            statement_time,
            *rates.averages(edges, status.at, status["threads_running"]),
            *_excluded_threads(columns),
        )
    )
    used = utilisations_and_rates(columns, statement_time)
    for k, row in enumerate(table):
        if np.isfinite(row[2]):
            known = {name: float(u[k]) for name, u in used.items() if np.isfinite(u[k])}
            yield Interval._make([*map(float, row), known, 1.0])


def _statement_time(columns: Mapping[str, SampleColumns], epoch: Array, questions: Array) -> Array:
    """Compute the concurrency by Little's law; NaN where it exceeds the number of connections.

    It may exceed it where statements in flight cannot be read: a long one's time comes at its end.
    It is not known either where clearly fewer statements were timed than the server answered
    `questions`, shape (edges − 1,): those that still run at the end may be missing, no others. Nor
    where statements were counted without any time: their instruments are not timed.
    """
    status, source = columns["status"], columns.get("statements")
    if source is None:
        return np.full(len(questions), np.nan)
    ended = source["statement_seconds"]
    in_flight = np.nan_to_num(source["in_flight_seconds"])
    restarts = np.interp(source.at, status.at, epoch)  # one may show as a fraction
    counted = source["statements"]
    if np.isnan(counted).all():  # a recording has only the server's answers
        counted = np.interp(source.at, status.at, status["questions"])
    epochs = restarts + source.stalls("statement_seconds", counted)
    spent = source.increases(ended + in_flight, epochs, monotonic=ended)
    found = rates.concurrency_by_littles_law(spent, source.seconds)
    is_possible = found <= status.maximum("threads_connected")
    timed = source.increases(source["statements"], epochs) + status.maximum("threads_running")
    return np.where(is_possible & ~(timed < MIN_TIMED_SHARE * questions), found, np.nan)


def _excluded_threads(columns: Mapping[str, SampleColumns]) -> tuple[Array, Array, Array]:
    """Return the last known number of each kind at each interval's end; the agent is always one."""
    replicas = columns["status"].last("replicas_connected")
    one = np.ones_like(replicas)
    threads = columns.get("threads")
    if threads is None:
        return one, replicas, np.full_like(one, np.nan)
    dumps = threads.last("binlog_dump")
    return one, np.where(np.isnan(dumps), replicas, dumps), threads.last("system")
