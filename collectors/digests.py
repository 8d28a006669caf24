"""`digests`: resource use by query class, from events_statements_summary_by_digest.

A class is a schema and a digest. The table holds sums since each row's FIRST_SEEN; the caller
computes changes. Only rows that were used since the previous reading are requested, by the server's
own clock (it still scans every row), and all of them from time to time.

Running statements are read too, since the sums grow only when a statement ends; and the sums over
all statements, since some have no digest (MariaDB: those of the binary protocol).
"""

import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from collectors.all_statements import AllStatements
from collectors.base import PICOSECOND, CollectorError, FailureKind, Feature, Prepared, Values
from collectors.class_thread_states import (
    HASHED_CLASS,
    MAX_STATEMENTS,
    DigestHashes,
    StatementThreads,
    ThreadStateCounts,
    statement_threads,
)
from collectors.connection import Connection
from collectors.digest_table import (
    MAX_KEY_LENGTH,
    TABLE,
    Array,
    DigestTable,
    TableRows,
    counter_columns,
)
from collectors.digest_texts import (
    MAX_CHARACTERS,
    MAX_TEXTS,
    MAX_TEXTS_PER_QUERY,
    own_digests,
    rows_with_texts,
    texts_of,
)
from collectors.result_cells import ResultLimits, number, number_or_zero, text, whole_number
from collectors.statement_totals import (
    ENABLE_CONSUMER,
    NULL_EXPRESSION,
    RUNNING,
    WAITS_FOR_A_LOCK,
    consumers,
    cpu_feature,
    instruments_off,
    missing_grant,
    own_thread,
    performance_schema_off,
)

MAX_RUNNING = 10_000  # running statements
RECENTLY_SEEN = " WHERE LAST_SEEN >= NOW(6) - INTERVAL {seconds}000000 MICROSECOND"
OWN_DIGEST = """
SELECT DIGEST FROM performance_schema.events_statements_current WHERE THREAD_ID = {thread_id}"""
ALL_CLASSES = "*"
"""In place of a class, in the row that has the waits of all classes."""
LOCK_INSTRUMENT = "wait/lock/metadata/sql/mdl"
LOCK_WAITS_TIMED = f"""
SELECT COUNT(*) FROM performance_schema.setup_instruments
 WHERE NAME = '{LOCK_INSTRUMENT}' AND ENABLED = 'YES' AND TIMED = 'YES'"""  # noqa: S608
ENABLE_LOCK_WAITS = (
    "UPDATE performance_schema.setup_instruments SET ENABLED = 'YES', TIMED = 'YES'"  # noqa: S608
    f" WHERE NAME = '{LOCK_INSTRUMENT}'"
)
LOCK_WAITS = f"""
SELECT '{ALL_CLASSES}', {NULL_EXPRESSION}, SUM_TIMER_WAIT, 0
  FROM performance_schema.events_waits_summary_global_by_event_name
 WHERE EVENT_NAME = '{LOCK_INSTRUMENT}'
   AND COUNT_STAR > 0"""  # noqa: S608
"""The total time of finished waits for metadata locks, which MySQL counts by default, but not in
any statement's lock time."""
IN_FLIGHT = f"""
(SELECT CONCAT_WS('|', DIGEST, COALESCE(CONCAT('=', CURRENT_SCHEMA), '')), THREAD_OS_ID,
        TIMER_WAIT, COALESCE({WAITS_FOR_A_LOCK}, 0)
   FROM performance_schema.events_statements_current
   JOIN performance_schema.threads USING (THREAD_ID)
  WHERE {RUNNING}
    AND DIGEST IS NOT NULL
  LIMIT {MAX_RUNNING})"""  # noqa: S608
"""The statements in flight: class, thread, elapsed time, and whether it waits for a lock."""
IN_FLIGHT_BY_HASH = f"""
SELECT {HASHED_CLASS.format(text="SQL_TEXT", schema="CURRENT_SCHEMA")}, THREAD_OS_ID,
       GREATEST(TIMER_WAIT, LOCK_TIME) - LOCK_TIME, 0
  FROM performance_schema.events_statements_current
  JOIN performance_schema.threads USING (THREAD_ID)
 WHERE {RUNNING}
   AND SQL_TEXT <> ''
   AND NOT COALESCE({WAITS_FOR_A_LOCK}, 0)
 LIMIT {MAX_STATEMENTS}"""  # noqa: S608
"""The same of a MariaDB, which knows a running statement's text, but not its digest. Waits for
locks are left out of the elapsed time: a statement's LOCK_TIME has them, once it has the lock."""

EVER = 1e9
"""Seconds: a complete reading is by the same statement as others, for it is one digest less."""
LAST_SEEN_MARGIN = 2.0  # seconds that LAST_SEEN may be late; MariaDB's has no fraction
LAST_SEEN_STEP = 5.0  # seconds
COMPLETE_EVERY_SECONDS = 600.0  # seconds after which all rows are read again
RUNNING_LIMITS = ResultLimits(4, rows=MAX_RUNNING + 1, bytes=MAX_RUNNING * (MAX_KEY_LENGTH + 48))
STATE_KEY = "digests"


@dataclass(frozen=True, slots=True, eq=False)
class DigestRows:
    """Rows of the table at one instant: sums since each row's FIRST_SEEN."""

    names: tuple[str, ...]
    """Names of the columns of `counters`."""
    keys: Sequence[str]
    """`FIRST_SEEN|digest|=schema` per row; the digest of the overflow row is empty, and a row
    without a schema has no `=schema`."""
    counters: Array
    """Shape (rows, names); times in seconds."""
    age: Array
    """Seconds since FIRST_SEEN by the server's clock, shape (rows,); negative: unknown."""
    complete: bool
    """Whether these are all rows, not only the recently used ones."""
    since: float | None
    """Seconds since the previous reading; None for the first."""
    running: Mapping[str, float]
    """Elapsed seconds of statements in flight, by `digest|=schema`; on MariaDB without those in
    which they waited for locks that their lock time has when they end."""
    texts: Mapping[str, str]
    """Normalised texts by digest, each fetched once."""
    own_digests: frozenset[str]
    """Those of the digests in `texts` that are the agent's own statements."""
    all_statements: Array | None = None
    """Counters of all statements, with or without a digest, shape (names,): read just before the
    rows, in the first reading just after them, so that what ends in between has a digest."""
    waiting_for_locks: Mapping[str, float] = field(default_factory=dict)
    """Numbers of statements in flight that wait for locks that SUM_LOCK_TIME does not count, by
    `digest|=schema`."""
    lock_waits: float | None = None
    """Total time of waits for metadata locks since the server's start, s, present waits included;
    None where the server does not count it."""
    thread_states: ThreadStateCounts | None = None
    """States of the threads that run statements; None where the threads are not visible."""
    lock_time_includes_opening: bool = False
    """Whether the lock time starts with the statement, and so includes parsing it and opening its
    tables (MariaDB)."""


class DigestValues(dict[str, float]):
    """The usual numeric values of a collector, and the rows."""

    def __init__(self, rows: DigestRows, values: Values) -> None:
        super().__init__(values)
        self.rows = rows


@dataclass
class _PersistentState:
    """State that is kept between sessions: of the last reading, and the known texts."""

    read_at: float | None = None
    complete_at: float = 0.0
    rows: int = 0  # of the last reading
    texts: set[str] = field(default_factory=set)
    characters: int = 0  # total length of these texts
    hashes: DigestHashes = field(default_factory=DigestHashes)


def prepare(connection: Connection) -> Prepared:
    """Check grant, table, columns, instruments, consumers; report an absent one with its remedy.

    What no version of this server offers is not reported.
    """
    absent = performance_schema_off(connection, "digests") or _table_off(connection)
    if absent is not None:
        return Prepared(None, (absent,))
    try:
        connection.query(f"SELECT 1 FROM {TABLE} LIMIT 1")  # noqa: S608
        active = consumers(connection)
        absent = instruments_off(connection, "digests") or _absent_feature(active)
    except CollectorError as error:
        if error.kind is not FailureKind.PRIVILEGE:
            raise
        return Prepared(None, (missing_grant(connection, "digests"),))
    if absent is not None:
        return Prepared(None, (absent,))
    cpu = cpu_feature(connection, "digests_cpu", "CPU per class is estimated")
    columns = counter_columns(has_cpu=cpu is not None and cpu.enabled)
    thread = own_thread(connection)
    in_flight = _in_flight_feature(connection, active, thread)
    statement = IN_FLIGHT_BY_HASH if connection.is_mariadb else IN_FLIGHT
    running = statement.format(thread_id=thread) if in_flight.enabled else None
    lock_waits = None
    if running and not connection.is_mariadb:
        lock_waits = _lock_waits_feature(connection)
    if lock_waits is not None and lock_waits.enabled:
        running = f"{LOCK_WAITS}\n UNION ALL{running}"
    visible = in_flight.enabled or connection.is_mariadb
    threads = statement_threads(connection, thread) if visible else None
    read = DigestReader(connection, columns, running, threads)
    known = [
        each for each in (cpu, in_flight, lock_waits) if each and (each.enabled or each.remedy)
    ]
    return Prepared(read, (Feature("digests", enabled=True), *known))


def _in_flight_feature(connection: Connection, active: set[str], thread: int) -> Feature:
    """Check that the server reports the class of a running statement: of this one, as a test.

    MariaDB reports its text instead, with the same consumers.
    """
    name, late = "digests_in_flight", "a running statement is counted only when it ends"
    for consumer in ("thread_instrumentation", "events_statements_current"):
        if consumer not in active:
            remedy = ENABLE_CONSUMER.format(consumer)
            return Feature(name, False, f"the consumer {consumer} is off: {late}", remedy)
    if connection.is_mariadb:
        return Feature(name, enabled=True)
    rows = connection.query(OWN_DIGEST.format(thread_id=thread))
    if not rows or rows[0][0] is None:
        return Feature(
            name, False, f"this server does not report the class of a running statement: {late}"
        )
    return Feature(name, enabled=True)


def _lock_waits_feature(connection: Connection) -> Feature:
    """Check that the server times waits for metadata locks; else their sum stands still."""
    name = "digests_lock_waits"
    if whole_number("the count of instruments", connection.cell(LOCK_WAITS_TIMED)) > 0:
        return Feature(name, enabled=True)
    reason = f"the instrument {LOCK_INSTRUMENT} is off or untimed: waits for locks are only sampled"
    return Feature(name, False, reason, ENABLE_LOCK_WAITS)


def _table_off(connection: Connection) -> Feature | None:
    """Return the feature as absent if the server keeps no digests at all, else None."""
    for setting in ("performance_schema_digests_size", "max_digest_length"):
        if connection.variables.get(setting) == "0":
            remedy = f"start the server with {setting} above 0, or without that setting"
            reason = f"{setting} is 0: statements are not classified"
            return Feature("digests", False, reason, remedy)
    return None


def _absent_feature(active: set[str]) -> Feature | None:
    for consumer in ("global_instrumentation", "statements_digest"):
        if consumer not in active:
            remedy = ENABLE_CONSUMER.format(consumer)
            return Feature("digests", False, f"the consumer {consumer} is off", remedy)
    return None


class DigestReader:
    """Reads rows used since the previous reading, running statements, and new digests' texts."""

    def __init__(
        self,
        connection: Connection,
        columns: Mapping[str, str],
        in_flight: str | None,
        threads: StatementThreads | None,
    ) -> None:
        self._connection = connection
        self._table = DigestTable(connection, columns)
        self._all_statements = AllStatements(connection, columns)
        self._in_flight = connection.repeated(in_flight) if in_flight else None
        self._threads = threads
        self._thread_states = ThreadStateCounts()

    @property
    def _state(self) -> _PersistentState:
        """The connection's; another one once that was cleared, by any thread."""
        found: _PersistentState = self._connection.collector_state.setdefault(
            STATE_KEY, _PersistentState()
        )
        return found

    def __call__(self) -> Values:
        """Read them all; raises `CollectorError` where the server's answer is not usable."""
        # a clock that goes on while this machine is suspended, as the server's sums may do
        state, begun = self._state, time.clock_gettime(time.CLOCK_BOOTTIME)
        since = None if state.read_at is None else begun - state.read_at
        complete = since is None or begun >= state.complete_at + COMPLETE_EVERY_SECONDS
        where = _recently_seen(EVER if since is None or complete else since)
        everything = None if since is None else self._all_statements.recent_or_read()
        (keys, age, counters), texts = self._read_table(state, where)
        if since is None:
            everything = self._all_statements.read()
            rows_with_texts(self._table, where, limit=0)  # so that their own digests are
            texts_of(self._connection, (), limit=0)  # there at the next reading
        running, locked, lock_waits = self._read_running()
        if self._in_flight is None:
            self.sample_threads()
        seen, self._thread_states = self._thread_states, ThreadStateCounts()
        if since is not None:
            texts |= self._fetch_new_texts(state, keys, running)
        state.read_at, state.rows = begun, len(keys)
        state.complete_at = begun if complete else state.complete_at
        rows = DigestRows(
            names=self._table.names,
            keys=keys,
            counters=counters,
            age=age,
            complete=complete,
            since=since,
            running=running,
            texts=texts,
            own_digests=own_digests(self._connection, texts),
            all_statements=everything,
            waiting_for_locks=locked,
            lock_waits=lock_waits,
            thread_states=None if self._threads is None else seen,
            lock_time_includes_opening=self._connection.is_mariadb,
        )
        return DigestValues(rows, {"rows": float(len(keys)), "complete": float(complete)})

    def _read_table(self, state: _PersistentState, where: str) -> tuple[TableRows, dict[str, str]]:
        """Read the table's rows, and with them their texts in the second reading: all are new."""
        if state.read_at is not None and not state.texts and state.rows < MAX_TEXTS_PER_QUERY:
            found = rows_with_texts(self._table, where)
            if found is not None:
                self._note_texts(state, found[1])
                return found
        return self._table.read(where), {}

    def sample_threads(self) -> None:
        """Sample the states of the statements' threads; the next reading returns all samples."""
        if self._threads is None:
            return
        if self._in_flight is not None:
            self._read_running()
            return
        self._thread_states = self._thread_states + self._threads.read(self._state.hashes)

    def _read_running(self) -> tuple[Mapping[str, float], Mapping[str, float], float | None]:
        """Read the elapsed seconds of running statements and how many wait for locks, by class.

        The third result is the total of such waits in seconds: of finished and of present ones.
        The same rows tell which threads run what, so the states of threads are sampled too.
        """
        elapsed, locked = defaultdict[str, float](float), defaultdict[str, float](float)
        if self._in_flight is None:
            return elapsed, locked, None
        begun, states = time.monotonic(), self._threads.states() if self._threads else {}
        rows = self._connection.query(self._in_flight, RUNNING_LIMITS)
        took = time.monotonic() - begun
        if self._connection.is_mariadb:
            rows = self._state.hashes.with_classes(rows)
        ended, waiting = None, 0.0
        for name, _, wait, waits_for_a_lock in rows:
            seconds = number_or_zero("TIMER_WAIT", wait) * PICOSECOND
            key = text(name, MAX_KEY_LENGTH)
            if key == ALL_CLASSES:
                ended = seconds
                continue
            elapsed[key] += seconds
            if statements := number("the count of waits for locks", waits_for_a_lock):
                locked[key] += statements
                waiting += seconds
        if self._threads is not None and states:
            known = [row[:3] for row in rows if row[1] is not None]
            self._thread_states = self._thread_states + self._threads.counts(states, known, took)
        return elapsed, locked, None if ended is None else ended + waiting

    def _fetch_new_texts(
        self, state: _PersistentState, keys: Sequence[str], running: Mapping[str, float]
    ) -> Mapping[str, str]:
        """Fetch the texts of digests in use that were not fetched before."""
        known = state.texts
        if len(known) > MAX_TEXTS or state.characters > MAX_CHARACTERS:
            known.clear()
            state.characters = 0
            state.hashes.known.clear()
        digests = {key.split("|", 2)[1] for key in keys} | {key.split("|", 1)[0] for key in running}
        wanted = sorted(digests - known - {""})[:MAX_TEXTS_PER_QUERY]
        if not wanted:
            return {}
        found = texts_of(self._connection, wanted)
        self._note_texts(state, found)
        return found

    def _note_texts(self, state: _PersistentState, found: Mapping[str, str]) -> None:
        """Note the texts as known, which are not fetched again."""
        state.texts.update(found)
        state.characters += sum(map(len, found.values()))
        if self._connection.is_mariadb:
            state.hashes.add(found)


def _recently_seen(since: float) -> str:
    """Return the condition, mostly that of the last reading, whose statement is prepared."""
    steps = math.ceil((since + LAST_SEEN_MARGIN) / LAST_SEEN_STEP)
    return RECENTLY_SEEN.format(seconds=round(LAST_SEEN_STEP * steps))
