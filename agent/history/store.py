"""The history while the agent runs: a worker writes it, so that sampling and fits never wait."""

import logging
import math
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar

from agent.assessment.load_by_time_step import LoadSum
from agent.assessment.markers import Marker
from agent.config.retention import HistorySettings
from agent.history import history_file, prune
from agent.history.business_values import UnixValue, recent_values
from agent.history.database import open_to_read, open_to_write
from agent.history.failures import StoreError, StoreFailure, as_store_error
from agent.history.foreign_write_check import ForeignWriteCheck
from agent.history.marker_table import forget_markers, insert_markers, read_markers
from agent.history.record_types import BUSINESS, CLASSES, FITS, INTERVALS, KINDS, SAMPLES
from agent.history.retention_clock_guard import RetentionPace
from agent.history.row_access import extents, insert, insert_chunk, target_id
from agent.history.status import StatusTracker, StoreState
from agent.history.stored_load_by_time import load_sums
from agent.history.target_rename import take_along
from agent.history.wall_clock_check import SteadyClock
from agent.history.window_reader import Wanted, WindowRow, read_window
from agent.history.write_buffer import Batch, WriteBuffer
from agent.support.backoff import Backoff
from agent.support.logs import fields
from agent.support.scheduled_thread import Worker

log = logging.getLogger(__name__)

POLL_SECONDS = 2.0  # seconds between two looks whether the file is still as it was left
PRUNE_SECONDS = 60.0  # seconds
RETRY_MIN, RETRY_MAX = 1.0, 30.0  # seconds after a failure
MAX_WAITING_BYTES = 16 * 2**20  # bytes
ROWS_PER_TRANSACTION = 400  # batches in one transaction
STAYS_OPEN = (StoreFailure.FULL, StoreFailure.BUSY)  # what is no fault of the file
STILL_READABLE = (StoreFailure.FULL, StoreFailure.READ_ONLY, StoreFailure.IO)

WindowFuture = Future[list[WindowRow]]
LoadFuture = Future[list[LoadSum]]
BusinessFuture = Future[dict[str, list[UnixValue]]]
Found = TypeVar("Found")


class Store:
    """`put`, `read_window` and `load` are for every thread and never wait; else the worker does it.

    What cannot be written waits, up to a bound, and is tried again; `state` says how it goes.
    """

    def __init__(
        self,
        path: Path,
        settings: HistorySettings,
        clock: Callable[[], float] = time.time,
        most_waiting: int = MAX_WAITING_BYTES,
    ) -> None:
        self.path = path
        self.settings = settings
        self.watched: Collection[str] | None = None  # the targets' names, where they are known
        self.worker = Worker("history", [self.tick], allowance=math.inf, at_end=self.close)
        self._clock = clock
        self._steady = SteadyClock()
        self._pace = RetentionPace()
        self._cutoffs: dict[str, int] = {}
        self._more_to_forget = False
        self._waiting = WriteBuffer(most_waiting)
        self._queries: SimpleQueue[tuple[Wanted | None, Callable[[sqlite3.Connection], None]]] = (
            SimpleQueue()
        )
        self._lock = history_file.Lock(path)
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._foreign_writes = ForeignWriteCheck(path)
        self._status = StatusTracker(path)
        self._backoff = Backoff(RETRY_MIN, RETRY_MAX)
        self._retry_at = 0.0
        self._prune_at = 0.0
        self._to_check = True

    @property
    def state(self) -> StoreState:
        """Its status."""
        return replace(self._status.state, dropped=self._waiting.dropped)

    def put(self, batch: Batch) -> None:
        """Queue it to be written soon."""
        self._waiting.put(batch)
        self.worker.wake()

    def read_window(self, wanted: Wanted) -> WindowFuture:
        """The intervals that were written, oldest first, as soon as the file can be read."""
        return self._ask(wanted, read_window)

    def load(self, wanted: Wanted, width: float) -> LoadFuture:
        """The load of the intervals that were written, by steps of `width` seconds, likewise."""
        return self._ask(wanted, partial(load_sums, width=width))

    def business(self, wanted: Wanted) -> BusinessFuture:
        """The values of business metrics that were written, by name, likewise."""
        return self._ask(wanted, recent_values)

    def mark(self, marker: Marker) -> None:
        """Have a deploy marker written soon."""
        self.put(Batch("", "", markers=(marker,)))

    def markers(self) -> Future[list[Marker]]:
        """The deploy markers that were written, as soon as the file can be read."""
        result: Future[list[Marker]] = Future()
        self._queries.put((None, lambda c: result.set_result(read_markers(c))))
        self.worker.wake()
        return result

    def _ask(
        self, wanted: Wanted, read: Callable[[sqlite3.Connection, Wanted], Found]
    ) -> Future[Found]:
        result: Future[Found] = Future()
        self._queries.put((wanted, lambda c: result.set_result(read(c, wanted))))
        self.worker.wake()
        return result

    def tick(self, now: float) -> float:
        """Open the file if need be, read, write, forget; answers when to be called next."""
        if now < self._retry_at:
            return self._retry_at
        self._status.dropped(self._waiting.dropped)
        try:
            connection = self._sound() or self._open()
            before = connection.total_changes
            self._write(connection)  # first: what is read back may have just ended
            self._run_queries(connection)
            more = self._forget(connection, now)
            if connection.total_changes != before or history_file.log_size(self.path):
                self._foreign_writes.checkpoint(connection)
                self._measure(connection)  # after the checkpoint, which empties the log
        except (sqlite3.Error, OSError, StoreError) as error:
            self._failed(as_store_error(self.path, error), now)
            return self._retry_at
        self._backoff.succeeded()
        self._status.well()
        return now if more or len(self._waiting) else now + POLL_SECONDS

    def close(self) -> None:
        """Write what waits, if that can be done at once, and close the file."""
        self._retry_at = 0.0
        while self._retry_at == 0.0 and len(self._waiting):
            self.tick(time.monotonic())
        self._let_go()
        self._lock.release()

    def _sound(self) -> sqlite3.Connection | None:
        """The connection, a new one where another program wrote into the file and it is in order.

        Raises `StoreError` where it is not; `None` where none is open.
        """
        if self._connection is None or history_file.identity(self.path) != self._file:
            return self._connection
        if not self._foreign_writes.found:
            return self._connection
        if self.path.stat().st_size == 0:
            text = "another program has emptied the file"
            raise StoreError(StoreFailure.CORRUPT, f"{self.path}: {text}")
        log.info("another program wrote into the history: it is checked")
        self._let_go()
        try:
            self._connection = open_to_write(self.path, check=True)
        except StoreError as error:
            if error.kind in (*STAYS_OPEN, StoreFailure.READ_ONLY):
                raise
            raise StoreError(StoreFailure.CORRUPT, str(error)) from error  # it was in order before
        self._take_in(self._connection)
        return self._connection

    def _open(self) -> sqlite3.Connection:
        history_file.make_folder(self.path.parent)
        history_file.refuse_another_kind(self.path)  # before our lock says that it is ours
        self._lock.take()
        try:
            connection = open_to_write(self.path, check=self._to_check)
        except StoreError as error:
            if error.kind is not StoreFailure.CORRUPT:
                raise
            self._put_aside(error)
            connection = open_to_write(self.path)
        self._connection, self._to_check = connection, False
        self._take_in(connection)
        return connection

    def _take_in(self, connection: sqlite3.Connection) -> None:
        """Note which file it is, and what is in it."""
        self._file = history_file.identity(self.path)
        self._status.opened(
            {
                name: sum(extent.rows for extent in extents(connection, kind))
                for name, kind in KINDS.items()
            }
        )
        self._foreign_writes.checkpoint(connection)
        self._measure(connection)

    def _run_queries(self, connection: sqlite3.Connection) -> None:
        while True:
            try:
                wanted, query = self._queries.get_nowait()
            except Empty:
                return
            try:
                if wanted is not None:
                    self._mind_its_name(connection, wanted)
                query(connection)
            except (sqlite3.Error, StoreError):
                self._queries.put((wanted, query))  # for when the file is in order
                raise

    def _mind_its_name(self, connection: sqlite3.Connection, wanted: Wanted) -> None:
        """A renamed target keeps its rows; not if the file is read only."""
        if self.watched is None or connection is not self._connection:
            return
        before = take_along(connection, wanted.target, wanted.server, self.watched)
        if before is not None:
            facts = fields(target=wanted.target, before=before)
            log.info("renamed: its history has the new name too", extra=facts)

    def _write(self, connection: sqlite3.Connection) -> None:
        batches = self._waiting.first(ROWS_PER_TRANSACTION)
        if not batches:
            return
        if history_file.identity(self.path) != self._file:
            text = "the file was moved or deleted; a new one takes its place"
            raise StoreError(StoreFailure.IO, f"{self.path}: {text}")
        started = time.monotonic()
        added = _commit(connection, batches)
        self._waiting.done(batches)
        self._status.wrote(added, self._clock(), time.monotonic() - started)

    def _forget(self, connection: sqlite3.Connection, now: float) -> bool:
        """Delete some old rows, when due; returns whether there are more."""
        unix = self._clock()
        if not self._steady.is_steady(now, unix):
            self._pace.wait(now)
            self._cutoffs = {}
        if now < self._prune_at:
            return False
        milliseconds = round(1000 * unix)
        if not self._more_to_forget:
            self._cutoffs = self._too_old(connection, now, milliseconds)
        most = self.settings.max_size
        gone, more = prune.step(connection, self.path, self._cutoffs, most, milliseconds)
        if {INTERVALS.name, FITS.name} <= self._cutoffs.keys():
            forget_markers(connection, min(self._cutoffs[k.name] for k in (INTERVALS, FITS)))
        self._more_to_forget = more
        self._status.forgot(gone)
        self._prune_at = now if more else now + PRUNE_SECONDS
        return more

    def _too_old(self, connection: sqlite3.Connection, now: float, unix: int) -> dict[str, int]:
        """Before when (ms) rows of each kind may go now."""
        kept = self.settings.retention.in_milliseconds
        return self._pace.cutoffs(now, unix, kept, _oldest(connection))

    def _measure(self, connection: sqlite3.Connection) -> None:
        oldest = {name: at / 1000 for name, at in _oldest(connection).items()}
        self._status.measured(history_file.size(self.path), oldest)

    def _failed(self, error: StoreError, now: float) -> None:
        """Count and log it, and try again later; a corrupt file is replaced by a new one."""
        self._retry_at = now + self._backoff.failed()
        self._status.failed(error)
        if self._connection is not None:
            if self._connection.in_transaction:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
            if error.kind not in STAYS_OPEN:
                self._let_go()
            else:
                self._foreign_writes.note()  # what was tried may have changed it
        if error.kind is StoreFailure.CORRUPT:
            with suppress(OSError):  # the next try finds it corrupt again, and says why
                self._put_aside(error)
        self._to_check |= error.kind is StoreFailure.IO
        if error.kind in STILL_READABLE and not self._queries.empty():
            with suppress(sqlite3.Error, StoreError), closing(open_to_read(self.path)) as reading:
                self._run_queries(reading)

    def _put_aside(self, error: StoreError) -> None:
        aside = history_file.put_aside(self.path, self._clock())
        self._status.put_aside(error, aside)

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):  # it ends all the same
                connection.close()


def _oldest(connection: sqlite3.Connection) -> dict[str, int]:
    """The time (ms) of the oldest row of each kind that has any."""
    times = ((name, prune.oldest(connection, kind)) for name, kind in KINDS.items())
    return {name: at for name, at in times if at is not None}


def _commit(connection: sqlite3.Connection, batches: list[Batch]) -> Counter[str]:
    """All of these batches in one transaction; the rows that are new, by kind."""
    added: Counter[str] = Counter()
    connection.execute("BEGIN IMMEDIATE")
    for batch in batches:
        added[INTERVALS.name] += insert(connection, INTERVALS, batch.intervals)
        added[FITS.name] += insert(connection, FITS, batch.fits)
        added[CLASSES.name] += insert(connection, CLASSES, batch.classes)
        added[BUSINESS.name] += insert(connection, BUSINESS, batch.business)
        if batch.markers:
            insert_markers(connection, batch.markers)
        for chunk in batch.chunks:
            target = target_id(connection, batch.target, batch.server)
            added[SAMPLES.name] += insert_chunk(connection, target, chunk)
    connection.execute("COMMIT")
    return added
