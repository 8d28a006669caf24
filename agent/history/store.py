"""The history while the agent runs: a worker writes it, so sampling and assessing never wait."""

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

from agent.assessment.deploy_markers import Marker
from agent.assessment.load_by_time_step import LoadSum
from agent.config.history_settings import HistorySettings
from agent.history import history_file, prune
from agent.history.business_values import UnixValue, recent_values
from agent.history.failures import StoreError, StoreFailure, as_store_error
from agent.history.foreign_write_check import ForeignWriteCheck
from agent.history.marker_table import delete_markers_before, insert_markers, read_markers
from agent.history.open_database import open_to_read, open_to_write
from agent.history.retention_pace import RetentionPace
from agent.history.row_access import extents, insert_chunk, insert_rows, target_id
from agent.history.row_kinds import BUSINESS, CLASSES, FITS, INTERVALS, KINDS, SAMPLES
from agent.history.row_mapping import window_from_rows
from agent.history.stored_load_by_time import load_sums
from agent.history.target_rename import adopt_old_name
from agent.history.wall_clock_check import WallClockCheck
from agent.history.window_reader import WindowQuery, read_window
from agent.history.write_buffer import Batch, WriteBuffer
from agent.history.write_health import StatusTracker, StoreState
from agent.support.backoff import Backoff
from agent.support.logs import fields
from agent.support.scheduled_thread import Worker
from agent.window.intervals import Window

log = logging.getLogger(__name__)

POLL_SECONDS = 2.0
"""Seconds between two transactions, and checks whether another program changed the file."""
PRUNE_SECONDS = 60.0  # seconds between two deletions of old rows
RETRY_MIN, RETRY_MAX = 1.0, 30.0  # seconds after a failure
MAX_WAITING_BYTES = 16 * 2**20
BATCHES_PER_TRANSACTION = 400
KEEPS_CONNECTION = (StoreFailure.FULL, StoreFailure.BUSY)  # these are not caused by the file
STILL_READABLE = (StoreFailure.FULL, StoreFailure.READ_ONLY, StoreFailure.IO)

WindowFuture = Future[Window]
LoadFuture = Future[list[LoadSum]]
BusinessFuture = Future[dict[str, list[UnixValue]]]
Stored = TypeVar("Stored")


class Store:
    """Writes the history, and reads it back, in a worker of its own.

    The methods that queue a batch or return a future may be called by any thread and never wait;
    the worker calls the others. Data that cannot be written waits, up to a limit, and is tried
    again; `state` is the status.
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
        self.target_names: Collection[str] | None = None  # the targets' names, where they are known
        self.on_renamed: Callable[[str, str], None] | None = None
        """Called with the old and the new name of a target whose rows have been renamed."""
        self.worker = Worker("history", [self.tick], allowance=math.inf, at_end=self.close)
        self._clock = clock
        self._steady_clock = WallClockCheck()
        self._pace = RetentionPace()
        self._cutoffs: dict[str, int] = {}
        self._has_more_to_delete = False
        self._buffer = WriteBuffer(most_waiting)
        self._queries: SimpleQueue[
            tuple[WindowQuery | None, Callable[[sqlite3.Connection], None]]
        ] = SimpleQueue()
        self._lock = history_file.Lock(path)
        self._connection: sqlite3.Connection | None = None
        self._file_identity: tuple[int, int] | None = None
        self._log_identities: dict[Path, tuple[int, int] | None] = {}
        self._foreign_writes = ForeignWriteCheck(path)
        self._status = StatusTracker(path)
        self._backoff = Backoff(RETRY_MIN, RETRY_MAX)
        self._retry_at = 0.0
        self._prune_at = 0.0
        self._needs_check = True

    @property
    def state(self) -> StoreState:
        """The status, for /metrics."""
        return replace(self._status.state, dropped=self._buffer.dropped)

    def put(self, batch: Batch) -> None:
        """Queue a batch to be written with those of the next seconds, in one transaction."""
        self._buffer.put(batch)

    def read_window(self, wanted: WindowQuery) -> WindowFuture:
        """Request the stored intervals, in Unix time; they arrive once the file can be read."""
        return self._request(wanted, lambda c, w: window_from_rows(read_window(c, w)))

    def load(self, wanted: WindowQuery, width: float) -> LoadFuture:
        """Request the load of the stored intervals by steps of `width` seconds, in the same way."""
        return self._request(wanted, partial(load_sums, width=width))

    def business(self, wanted: WindowQuery) -> BusinessFuture:
        """Request the stored values of business metrics by name, in the same way."""
        return self._request(wanted, recent_values)

    def mark(self, marker: Marker) -> None:
        """Queue a deploy marker to be written at once."""
        self.put(Batch("", "", markers=(marker,)))
        self.worker.wake()

    def markers(self) -> Future[list[Marker]]:
        """Request the stored deploy markers; they arrive once the file can be read."""
        result: Future[list[Marker]] = Future()
        self._queries.put((None, lambda c: result.set_result(read_markers(c))))
        self.worker.wake()
        return result

    def _request(
        self, wanted: WindowQuery, read: Callable[[sqlite3.Connection, WindowQuery], Stored]
    ) -> Future[Stored]:
        result: Future[Stored] = Future()
        self._queries.put((wanted, lambda c: result.set_result(read(c, wanted))))
        self.worker.wake()
        return result

    def tick(self, now: float) -> float:
        """Open the file if need be, write, read, delete old rows; return when to be called next."""
        if now < self._retry_at:
            return self._retry_at
        self._status.dropped(self._buffer.dropped)
        try:
            connection = self._checked_connection() or self._open()
            before = connection.total_changes
            self._write(connection)  # first: the queries may want these rows
            self._run_queries(connection)
            has_more = self._delete_old_rows(connection, now)
            if connection.total_changes != before or history_file.log_size(self.path):
                self._foreign_writes.checkpoint(connection)
                self._measure(connection)  # after the checkpoint, which empties the log
        except (sqlite3.Error, OSError, StoreError) as error:
            self._handle_failure(as_store_error(self.path, error), now)
            return self._retry_at
        self._backoff.succeeded()
        self._status.succeeded()
        return now if has_more or len(self._buffer) else now + POLL_SECONDS

    def close(self) -> None:
        """Write what waits, if that succeeds at once, and close the file."""
        self._retry_at = 0.0
        while self._retry_at == 0.0 and len(self._buffer):
            self.tick(time.monotonic())
        self._close_connection()
        self._lock.release()

    def _checked_connection(self) -> sqlite3.Connection | None:
        """Return the connection, a new one if another program wrote into the file.

        The file is then checked; raises `StoreError` if it is not in order. Returns `None` if no
        connection is open.
        """
        if self._connection is None or history_file.file_identity(self.path) != self._file_identity:
            return self._connection
        if not self._foreign_writes.found:
            return self._connection
        if self.path.stat().st_size == 0:
            text = "another program has emptied the file"
            raise StoreError(StoreFailure.CORRUPT, f"{self.path}: {text}")
        log.info("another program wrote into the history: checking the file")
        self._close_connection()
        try:
            self._connection = open_to_write(self.path, check=True)
        except StoreError as error:
            if error.kind in (*KEEPS_CONNECTION, StoreFailure.READ_ONLY):
                raise
            raise StoreError(StoreFailure.CORRUPT, str(error)) from error  # it was valid before
        self._note_contents(self._connection)
        return self._connection

    def _open(self) -> sqlite3.Connection:
        """Open the history for writing; a corrupt file is renamed and replaced."""
        history_file.make_folder(self.path.parent)
        history_file.refuse_foreign_file(self.path)  # before our lock identifies it as a history
        self._lock.take()
        try:
            connection = open_to_write(self.path, check=self._needs_check)
        except StoreError as error:
            if error.kind is not StoreFailure.CORRUPT:
                raise
            self._rename_corrupt_file(error)
            connection = open_to_write(self.path)
        self._connection, self._needs_check = connection, False
        self._note_contents(connection)
        return connection

    def _note_contents(self, connection: sqlite3.Connection) -> None:
        """Record which file is open, and its number of rows of each kind."""
        self._file_identity = history_file.file_identity(self.path)
        self._status.opened(
            {
                name: sum(extent.rows for extent in extents(connection, kind))
                for name, kind in KINDS.items()
            }
        )
        self._foreign_writes.checkpoint(connection)
        self._measure(connection)
        self._log_identities = history_file.log_identities(self.path)

    def _run_queries(self, connection: sqlite3.Connection) -> None:
        """Answer the pending queries; one that fails stays pending."""
        while True:
            try:
                wanted, query = self._queries.get_nowait()
            except Empty:
                return
            try:
                if wanted is not None:
                    self._adopt_renamed_target(connection, wanted)
                query(connection)
            except (sqlite3.Error, StoreError):
                self._queries.put((wanted, query))  # to be answered when the file can be read
                raise

    def _adopt_renamed_target(self, connection: sqlite3.Connection, wanted: WindowQuery) -> None:
        """Let a renamed target keep its rows, unless the file is open for reading only."""
        if self.target_names is None or connection is not self._connection:
            return
        old_name = adopt_old_name(connection, wanted.target, wanted.server, self.target_names)
        if old_name is not None:
            if self.on_renamed is not None:
                self.on_renamed(old_name, wanted.target)
            facts = fields(target=wanted.target, before=old_name)
            log.info("target renamed: its history continues under the new name", extra=facts)

    def _write(self, connection: sqlite3.Connection) -> None:
        batches = self._buffer.oldest(BATCHES_PER_TRANSACTION)
        if not batches:
            return
        if history_file.file_identity(self.path) != self._file_identity:
            text = "the file was moved or deleted; a new one takes its place"
            raise StoreError(StoreFailure.IO, f"{self.path}: {text}")
        self._require_log(connection)
        started = time.monotonic()
        added = _commit(connection, batches)
        self._buffer.remove_written(batches)
        self._status.wrote(added, self._clock(), time.monotonic() - started)

    def _require_log(self, connection: sqlite3.Connection) -> None:
        """Raise `StoreError` if the log has lost its name, once its rows are in the file.

        SQLite would write on into it: others do not read it, nor does the next agent after a kill.
        """
        present = history_file.log_identities(self.path)
        lost = [
            file for file, identity in self._log_identities.items() if present[file] != identity
        ]
        if not lost:
            return
        if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            text = "the file was moved or deleted, and another program reads the history; end it"
            raise StoreError(StoreFailure.BUSY, f"{lost[0]}: {text}")
        text = "the file was moved or deleted; all rows are kept, and a new one takes its place"
        raise StoreError(StoreFailure.IO, f"{lost[0]}: {text}; leave it to the agent")

    def _delete_old_rows(self, connection: sqlite3.Connection, now: float) -> bool:
        """Delete some old rows, if due; return whether there are more."""
        unix = self._clock()
        if not self._steady_clock.is_steady(now, unix):
            self._pace.wait(now)
            self._cutoffs = {}
        if now < self._prune_at:
            return False
        milliseconds = round(1000 * unix)
        if not self._has_more_to_delete:
            self._cutoffs = self._new_cutoffs(connection, now, milliseconds)
        max_size = self.settings.max_size
        deleted, has_more = prune.step(connection, self.path, self._cutoffs, max_size, milliseconds)
        if {INTERVALS.name, FITS.name} <= self._cutoffs.keys():
            delete_markers_before(connection, min(self._cutoffs[k.name] for k in (INTERVALS, FITS)))
        self._has_more_to_delete = has_more
        self._status.deleted(deleted)
        self._prune_at = now if has_more else now + PRUNE_SECONDS
        return has_more

    def _new_cutoffs(self, connection: sqlite3.Connection, now: float, unix: int) -> dict[str, int]:
        """Return for each kind the time (ms) before which rows may be deleted now."""
        retention = self.settings.retention.in_milliseconds
        return self._pace.cutoffs(now, unix, retention, _oldest(connection))

    def _measure(self, connection: sqlite3.Connection) -> None:
        oldest = {name: at / 1000 for name, at in _oldest(connection).items()}
        self._status.measured(history_file.size_on_disk(self.path), oldest)

    def _handle_failure(self, error: StoreError, now: float) -> None:
        """Count and log a failure, schedule a retry, and rename a corrupt file."""
        self._retry_at = now + self._backoff.failed()
        self._status.failed(error)
        if self._connection is not None:
            if self._connection.in_transaction:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
            if error.kind not in KEEPS_CONNECTION:
                self._close_connection()
            else:
                self._foreign_writes.note()  # the failed write may have changed it
        if error.kind is StoreFailure.CORRUPT:
            with suppress(OSError):  # the next attempt finds it corrupt again, and reports that
                self._rename_corrupt_file(error)
        self._needs_check |= error.kind is StoreFailure.IO
        if error.kind in STILL_READABLE and not self._queries.empty():
            with suppress(sqlite3.Error, StoreError), closing(open_to_read(self.path)) as read_only:
                self._run_queries(read_only)

    def _rename_corrupt_file(self, error: StoreError) -> None:
        aside = history_file.rename_corrupt(self.path, self._clock())
        self._status.renamed_corrupt(error, aside)

    def _close_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):  # it is closed all the same
                connection.close()


def _oldest(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the time (ms) of the oldest row of each kind that has any."""
    times = ((name, prune.oldest(connection, kind)) for name, kind in KINDS.items())
    return {name: at for name, at in times if at is not None}


def _commit(connection: sqlite3.Connection, batches: list[Batch]) -> Counter[str]:
    """Write these batches in one transaction; return the number of new rows, by kind."""
    added: Counter[str] = Counter()
    connection.execute("BEGIN IMMEDIATE")
    for kind, rows in (
        (INTERVALS, [row for batch in batches for row in batch.intervals]),
        (FITS, [row for batch in batches for row in batch.fits]),
        (CLASSES, [row for batch in batches for row in batch.classes]),
        (BUSINESS, [row for batch in batches for row in batch.business]),
    ):
        added[kind.name] += insert_rows(connection, kind, rows)
    if markers := [marker for batch in batches for marker in batch.markers]:
        insert_markers(connection, markers)
    for batch in batches:
        for chunk in batch.chunks:
            target = target_id(connection, batch.target, batch.server)
            added[SAMPLES.name] += insert_chunk(connection, target, chunk)
    connection.execute("COMMIT")
    return added
