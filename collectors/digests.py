"""`digests`: the use by query class, from events_statements_summary_by_digest.

A class is a schema and a digest. The table holds sums since each row's FIRST_SEEN; the caller
computes changes. Only rows that were used since the previous reading are requested, by the server's
own clock (it still scans every row), and all of them from time to time.

What runs right now is read beside the sums, which move only when a statement ends; and before them
the sums of all statements, of which some have no digest (MariaDB: those of the binary protocol).
"""

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from collectors.base import CollectorError, FailureKind, Feature, Prepared, Values
from collectors.bounded_results import Shape, number_or_zero, text
from collectors.class_thread_states import DigestHashes, Looks, StatementThreads, statement_threads
from collectors.connection import Connection
from collectors.digest_table import (
    COLUMN_NAMES,
    COLUMNS,
    COUNTERS,
    MAX_KEY_LENGTH,
    PICOSECOND,
    TABLE,
    AllStatements,
    Array,
    DigestTable,
)
from collectors.statement_totals import (
    CONSUMER_ON,
    RUNNING,
    WAITS_FOR_A_LOCK,
    consumers,
    missing_grant,
    own_thread,
    performance_schema_off,
)

MAX_RUNNING = 10_000  # classes at once
RECENTLY_SEEN = " WHERE LAST_SEEN >= NOW(6) - INTERVAL {seconds}000000 MICROSECOND"
OWN_DIGEST = """
SELECT DIGEST FROM performance_schema.events_statements_current WHERE THREAD_ID = {thread_id}"""
MAX_DIGEST_LENGTH = 64  # characters
MAX_TEXT_LENGTH = 1024  # characters; the server's default is as many bytes
TEXTS = f"""
SELECT DIGEST, MAX(LEFT(DIGEST_TEXT, {MAX_TEXT_LENGTH})) FROM {TABLE}
 WHERE DIGEST IN ({{digests}}) GROUP BY DIGEST"""  # noqa: S608
ALL_WAITS = "*"
"""Stands for the class in the row that has the waits of all of them."""
IN_FLIGHT = f"""
SELECT '{ALL_WAITS}', 0, 0, SUM_TIMER_WAIT
  FROM performance_schema.events_waits_summary_global_by_event_name
 WHERE EVENT_NAME = 'wait/lock/metadata/sql/mdl'
   AND COUNT_STAR > 0
 UNION ALL
(SELECT CONCAT_WS('|', DIGEST, COALESCE(CONCAT('=', CURRENT_SCHEMA), '')), SUM(TIMER_WAIT),
       COALESCE(SUM({WAITS_FOR_A_LOCK}), 0), COALESCE(SUM(({WAITS_FOR_A_LOCK}) * TIMER_WAIT), 0)
  FROM performance_schema.events_statements_current
  JOIN performance_schema.threads USING (THREAD_ID)
 WHERE {RUNNING}
   AND DIGEST IS NOT NULL
 GROUP BY DIGEST, CURRENT_SCHEMA
 LIMIT {MAX_RUNNING})"""  # noqa: S608
"""The time of all waits for metadata locks that have ended, which MySQL counts by default, but in
the lock time of no statement; and statements in flight by class."""

MARGIN = 2.0  # seconds that LAST_SEEN may be behind; MariaDB's has no fraction
COMPLETE_SECONDS = 600.0  # seconds after which all rows are read again
TEXTS_AT_ONCE = 500
MAX_TEXTS = 30_000  # digests whose text was fetched that are remembered as such
MAX_CHARACTERS = 8 * 2**20  # of their texts in all
TEXT_SHAPE = Shape(2, rows=TEXTS_AT_ONCE, bytes=TEXTS_AT_ONCE * (4 * MAX_TEXT_LENGTH + 64))
RUNNING_SHAPE = Shape(4, rows=MAX_RUNNING + 1, bytes=MAX_RUNNING * (MAX_KEY_LENGTH + 48))
SHOWN_WORDS = 5  # of a cut text, that identify the statement
NOTES = "digests"


@dataclass(frozen=True, slots=True, eq=False)
class DigestRows:
    """Rows of the table at one instant: sums since each row's FIRST_SEEN."""

    names: tuple[str, ...]
    """Of the columns of `counters`."""
    keys: Sequence[str]
    """`FIRST_SEEN|digest|=schema` per row; an empty digest is the overflow row, and no `=schema`
    says that there was none."""
    counters: Array
    """Shape (rows, names); seconds where the name is a time's."""
    age: Array
    """Seconds since FIRST_SEEN by the server's clock, shape (rows,); negative: unknown."""
    complete: bool
    """Whether these are all rows, or those that were used lately."""
    since: float | None
    """Seconds since the reading before; None: this is the first."""
    running: Mapping[str, float]
    """Elapsed seconds of statements in flight, by `digest|=schema`."""
    texts: Mapping[str, str]
    """Normalised texts by digest, each once."""
    own: frozenset[str]
    """Digests among those texts that are this session's own statements."""
    everything: Array | None = None
    """All statements' counters, with a digest or without, shape (names,): just before the rows, and
    with the first reading just after them, so that what ends between both has a digest."""
    locked: Mapping[str, float] = field(default_factory=dict)
    """How many of the statements in flight wait for locks that SUM_LOCK_TIME does not count, by
    `digest|=schema`."""
    lock_waits: float | None = None
    """Time of all waits for metadata locks since the server's start, s, those in flight included;
    None where the server does not count it."""
    threads: Looks | None = None
    """States of the threads that run statements; None where they cannot be seen."""


class DigestValues(dict[str, float]):
    """Numbers about the reading, as every collector has them; and the rows."""

    def __init__(self, rows: DigestRows, values: Values) -> None:
        super().__init__(values)
        self.rows = rows


@dataclass
class _Notes:
    """State that is kept between sessions: the time of the last reading, and the known texts."""

    read_at: float | None = None
    complete_at: float = 0.0
    texts: set[str] = field(default_factory=set)
    characters: int = 0  # of them
    hashes: DigestHashes = field(default_factory=DigestHashes)


def prepare(connection: Connection) -> Prepared:
    """Look for grant, table, columns and consumers; a lack is reported with its remedy.

    What no version of this server offers is no lack.
    """
    lack = performance_schema_off(connection, "digests")
    if lack is not None:
        return Prepared(None, (lack,))
    try:
        found = [text(name).upper() for (name,) in connection.query(COLUMNS, COLUMN_NAMES)]
        connection.query(f"SELECT 1 FROM {TABLE} LIMIT 1")  # noqa: S608
        on = consumers(connection)
    except CollectorError as error:
        if error.kind is not FailureKind.PRIVILEGE:
            raise
        return Prepared(None, (missing_grant(connection, "digests"),))
    lack = _lack(on)
    if lack is not None:
        return Prepared(None, (lack,))
    cpu = _cpu(found, on)
    columns = {c: name for c, name in COUNTERS.items() if c in found}
    if not cpu.enabled:
        columns.pop("SUM_CPU_TIME", None)
    thread = own_thread(connection)
    in_flight = _in_flight(connection, on, thread)
    running = IN_FLIGHT.format(thread_id=thread) if in_flight.enabled else None
    threads = statement_threads(connection, thread)
    read = DigestReader(connection, columns, running, threads)
    known = [feature for feature in (cpu, in_flight) if feature.enabled or feature.remedy]
    return Prepared(read, (Feature("digests", enabled=True), *known))


def _in_flight(connection: Connection, on: set[str], thread: int) -> Feature:
    """Whether the server names the class of a statement while it runs, as it does of this one.

    MariaDB does not, with its consumers on or off: no remedy is offered there.
    """
    name, late = "digests_in_flight", "a running statement is counted only when it ends"
    for consumer in ("thread_instrumentation", "events_statements_current"):
        if consumer not in on and not connection.is_mariadb:
            remedy = CONSUMER_ON.format(consumer)
            return Feature(name, False, f"the consumer {consumer} is off: {late}", remedy)
    rows = connection.query(OWN_DIGEST.format(thread_id=thread))
    if not rows or rows[0][0] is None:
        return Feature(name, False, f"this server names no running statement's class: {late}")
    return Feature(name, enabled=True)


def _lack(on: set[str]) -> Feature | None:
    for consumer in ("global_instrumentation", "statements_digest"):
        if consumer not in on:
            remedy = CONSUMER_ON.format(consumer)
            return Feature("digests", False, f"the consumer {consumer} is off", remedy)
    return None


def _cpu(columns: Sequence[str], on: set[str]) -> Feature:
    if "SUM_CPU_TIME" not in columns:
        return Feature("digests_cpu", False, "this server does not account for CPU per statement")
    if "events_statements_cpu" not in on:
        reason = "the consumer events_statements_cpu is off: CPU per class is estimated"
        return Feature("digests_cpu", False, reason, CONSUMER_ON.format("events_statements_cpu"))
    return Feature("digests_cpu", enabled=True)


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
        self._all = AllStatements(connection, columns)
        self._in_flight = in_flight
        self._notes: _Notes = connection.notes.setdefault(NOTES, _Notes())
        self._threads = threads
        self._seen = Looks()
        if threads is not None and threads.hashes is not None:
            threads.hashes = self._notes.hashes

    def __call__(self) -> Values:
        """Read them; raises `CollectorError` where the server does not answer as it should."""
        notes, begun = self._notes, time.monotonic()
        since = None if notes.read_at is None else begun - notes.read_at
        complete = since is None or begun >= notes.complete_at + COMPLETE_SECONDS
        where = "" if since is None or complete else _lately(since)
        everything = None if since is None else self._all.read()
        keys, age, counters = self._table.read(where)
        if since is None:
            everything = self._all.read()
        running, locked, lock_waits = self._running()
        self.look()
        seen, self._seen = self._seen, Looks()
        texts = {} if since is None else self._texts(keys, running)
        notes.read_at = begun
        notes.complete_at = begun if complete else notes.complete_at
        rows = DigestRows(
            names=self._table.names,
            keys=keys,
            counters=counters,
            age=age,
            complete=complete,
            since=since,
            running=running,
            texts=texts,
            own=own_among(self._connection, texts),
            everything=everything,
            locked=locked,
            lock_waits=lock_waits,
            threads=None if self._threads is None else seen,
        )
        return DigestValues(rows, {"rows": float(len(keys)), "complete": float(complete)})

    def look(self) -> None:
        """Sample the states of the statements' threads; the next reading has all samples."""
        if self._threads is not None:
            self._seen = self._seen + self._threads.read()

    def _running(self) -> tuple[Mapping[str, float], Mapping[str, float], float | None]:
        """Elapsed seconds of running statements, and how many of them wait for locks, by class.

        And the seconds of all such waits: of those that have ended, and that run.
        """
        elapsed: dict[str, float] = {}
        locked: dict[str, float] = {}
        if self._in_flight is None:
            return elapsed, locked, None
        ended, waiting = None, 0.0
        for name, wait, count, waited in self._connection.query(self._in_flight, RUNNING_SHAPE):
            seconds = number_or_zero("the time of waits for locks", waited) * PICOSECOND
            key = text(name, MAX_KEY_LENGTH)
            if key == ALL_WAITS:
                ended = seconds
                continue
            waiting += seconds
            elapsed[key] = number_or_zero("TIMER_WAIT", wait) * PICOSECOND
            if statements := number_or_zero("the count of waits for locks", count):
                locked[key] = statements
        return elapsed, locked, None if ended is None else ended + waiting

    def _texts(self, keys: Sequence[str], running: Mapping[str, float]) -> Mapping[str, str]:
        """Fetch texts of digests in use that were not fetched before."""
        known = self._notes.texts
        if len(known) > MAX_TEXTS or self._notes.characters > MAX_CHARACTERS:
            known.clear()
            self._notes.characters = 0
            self._notes.hashes.known.clear()
        digests = {key.split("|", 2)[1] for key in keys} | {key.split("|", 1)[0] for key in running}
        wanted = sorted(digests - known - {""})[:TEXTS_AT_ONCE]
        if not wanted:
            return {}
        found = texts_of(self._connection, wanted)
        known.update(found)
        self._notes.characters += sum(map(len, found.values()))
        if self._connection.is_mariadb:
            self._notes.hashes.add(found)
        return found


def texts_of(connection: Connection, digests: Sequence[str]) -> dict[str, str]:
    """Texts of these digests, as the server normalises them."""
    asked = [d for d in digests if d.isascii() and d.isalnum()][:TEXTS_AT_ONCE]
    listed = ", ".join(f"'{digest}'" for digest in asked)
    rows = connection.query(TEXTS.format(digests=listed or "''"), TEXT_SHAPE)
    found = {
        text(digest, MAX_DIGEST_LENGTH): text(words, MAX_TEXT_LENGTH) for digest, words in rows
    }
    return {digest: found[digest] for digest in asked if digest in found}


def own_among(connection: Connection, texts: Mapping[str, str]) -> frozenset[str]:
    """Those of the digests whose texts are statements that this connection has sent."""
    ours = {shape(statement) for statement in connection.sent}
    return frozenset(digest for digest, text in texts.items() if is_one_of(text, ours))


def shape(statement: str) -> str:
    """The words of a statement or of its digest text, without literals and signs."""
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", " ", statement)
    return " ".join(re.findall(r"\b[A-Za-z_]\w*", bare)).upper()


def is_one_of(text: str, shapes: set[str]) -> bool:
    """Whether the text, which the server may have cut, is one of these; few words are anybody's."""
    words = shape(text)
    if not text.rstrip().endswith("...") and len(text) < MAX_TEXT_LENGTH:
        return words in shapes
    if len(words.split()) < SHOWN_WORDS:
        return False
    return any(own.startswith(words) for own in shapes)


def _lately(since: float) -> str:
    return RECENTLY_SEEN.format(seconds=math.ceil(since + MARGIN))
