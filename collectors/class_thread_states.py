"""States of the threads that run statements, by query class: waiting for a disk, or ready (Linux).

The kernel shows for every thread whether it waits for a disk or could run (proc(5), /proc/PID/stat:
D and R), to any account. The server reports which thread runs a statement of which class. The
states are read first: a statement that has run for longer than both readings took was running then
(where a MariaDB does not report for how long, the thread may have run an earlier statement).

MySQL reports the digest of a running statement. MariaDB reports only its text: the query makes the
server strip literals, comments and punctuation from it and return a hash, so that no text leaves
the server. The words of a known digest's text have the same hash. Digests with the same words are
left out, since their hash does not tell which of them it is.

With a thread pool the threads that run statements are not known: MariaDB reports the one that
opened the connection.
"""

import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Self

import psutil

from collectors.base import PICOSECOND
from collectors.connection import Connection
from collectors.process_lookup import ProcessNotFound, find_server_process
from collectors.result_cells import ResultLimits, ResultRow, number, text, whole_number
from collectors.thread_times import MAX_THREADS, is_in_sample

LITERALS = (
    r"(?is)(?:/\*.*?\*/|(?:--\s|#)[^\n]*|'(?:[^'\\]|\\.|'')*'"
    r'|"(?:[^"\\]|\\.|"")*"|\b[0-9]\w*|\bNULL\b|\W)+'
)
"""Matches everything between two words of a statement: literals, comments, operators."""
LITERALS_HEX = f"0x{LITERALS.encode().hex()}"
"""In hexadecimal, since the meaning of quotes and backslashes depends on sql_mode."""
MAX_STATEMENT_LENGTH = 1024  # characters, as many as a digest's text has
MAX_STATEMENTS, MAX_NAME_LENGTH = 1000, 400
"""A hash takes the server 0.08 ms for a short statement, 0.5 ms for the longest."""
HASHED_CLASS = f"""CONCAT_WS('|', SHA2(TRIM(UPPER(CONVERT(REGEXP_REPLACE(
           LEFT({{text}}, {MAX_STATEMENT_LENGTH}), {LITERALS_HEX}, ' ')
           USING utf8mb4))), 256),
       COALESCE(CONCAT('=', {{schema}}), ''))"""
"""SQL of `hash|=schema`, from a statement's text and its schema."""
MARIADB = f"""
SELECT {HASHED_CLASS.format(text="PROCESSLIST_INFO", schema="PROCESSLIST_DB")}, THREAD_OS_ID,
       NULLIF(0, 0)
  FROM performance_schema.threads
 WHERE PROCESSLIST_COMMAND = 'Query'
   AND PROCESSLIST_INFO <> ''
   AND THREAD_OS_ID > 0
   AND THREAD_ID <> {{thread_id}}
 LIMIT {MAX_STATEMENTS}"""  # noqa: S608  (constants only)
"""Where the consumer `events_statements_current` is off, its default: no elapsed time is known, and
of a procedure this is the statement inside."""
LIMITS = ResultLimits(3, rows=MAX_STATEMENTS, bytes=MAX_STATEMENTS * (MAX_NAME_LENGTH + 64))
ON_DISK, READY = "D", "R"
PER_CONNECTION = "one-thread-per-connection"
"""The usual `thread_handling`."""


@dataclass(frozen=True)
class ThreadStateCounts:
    """How many threads of statements waited for a disk, and how many were ready to run."""

    on_disk: Counter[str] = field(default_factory=Counter)
    """By `digest|=schema`."""
    ready: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Self) -> "ThreadStateCounts":
        """Add the counts of two samples."""
        return ThreadStateCounts(self.on_disk + other.on_disk, self.ready + other.ready)


@dataclass
class DigestHashes:
    """Digests by the hash of their words; None where several digests have the same hash."""

    known: dict[str, str | None] = field(default_factory=dict)

    def add(self, texts: Mapping[str, str]) -> None:
        """Add the hashes of the normalised texts of digests."""
        for digest, words in texts.items():
            found = words_hash(words)
            self.known[found] = digest if self.known.get(found, digest) == digest else None

    def class_of(self, name: str) -> str | None:
        """Return `digest|=schema` for `hash|=schema`; None unless that is exactly one class."""
        found, _, schema = name.partition("|")
        digest = self.known.get(found)
        return None if digest is None else f"{digest}|{schema}"

    def with_classes(self, rows: Iterable[ResultRow]) -> list[ResultRow]:
        """Return the rows of known classes, with `digest|=schema` instead of `hash|=schema`."""
        named = ((self.class_of(text(name, MAX_NAME_LENGTH)), others) for name, *others in rows)
        return [(key.encode(), *others) for key, others in named if key is not None]


def words_hash(words: str) -> str:
    """Compute the hash of a normalised text, as MariaDB computes it of a statement."""
    return sha256(re.sub(LITERALS, " ", words).strip().upper().encode()).hexdigest()


class StatementThreads:
    """Samples the threads of one server that runs on this machine."""

    def __init__(self, connection: Connection, pid: int, own_thread: int) -> None:
        self._query = MARIADB.format(thread_id=own_thread)
        self._connection, self._tasks = connection, f"/proc/{pid}/task"

    def read(self, hashes: DigestHashes) -> ThreadStateCounts:
        """Count a MariaDB's statements whose threads wait for a disk, or are ready, by class."""
        begun, states = time.monotonic(), self.states()
        if not states:
            return ThreadStateCounts()
        rows = self._connection.query(self._query, LIMITS)
        return self.counts(states, hashes.with_classes(rows), time.monotonic() - begun)

    def states(self) -> dict[int, str]:
        """Read the state of each thread; empty where they cannot be read."""
        return thread_states(self._tasks)

    def counts(
        self, states: Mapping[int, str], rows: Iterable[ResultRow], took: float
    ) -> ThreadStateCounts:
        """Count by class the statements in `rows`: class, thread, elapsed time (ps; NULL: unknown).

        `took`: the seconds since the `states` of their threads were read.
        """
        found = ThreadStateCounts()
        seen = {ON_DISK: found.on_disk, READY: found.ready}
        for name, thread, elapsed in rows:
            state = states.get(whole_number("THREAD_OS_ID", thread))
            was_running = elapsed is None or number("TIMER_WAIT", elapsed) * PICOSECOND > took
            if was_running and state in seen:
                seen[state][text(name, MAX_NAME_LENGTH)] += 1
        return found


def statement_threads(connection: Connection, own_thread: int) -> StatementThreads | None:
    """Return the threads of the server's process; None where it is not on this machine.

    None with a thread pool, too.
    """
    if connection.variables.get("thread_handling", PER_CONNECTION) != PER_CONNECTION:
        return None
    try:
        process = find_server_process(connection)
    except (psutil.Error, OSError):
        return None
    if isinstance(process, ProcessNotFound):
        return None
    return StatementThreads(connection, process.pid, own_thread)


def thread_states(tasks: str) -> dict[int, str]:
    """Read the state of each thread, of many an even sample; empty where they cannot be read."""
    try:
        found = [int(task) for task in os.listdir(tasks)]  # noqa: PTH208
    except OSError:
        return {}
    step = -(-len(found) // MAX_THREADS)
    chosen = (task for task in found if is_in_sample(task, step))
    states = ((task, _thread_state(f"{tasks}/{task}/stat")) for task in chosen)
    return {task: state for task, state in states if state is not None}


def _thread_state(path: str) -> str | None:
    """Read the letter after the thread's name; None for a thread that has just ended."""
    try:
        file = os.open(path, os.O_RDONLY)  # half the time of a file object
        try:
            return os.read(file, 200).rpartition(b") ")[2][:1].decode("ascii", "replace")
        finally:
            os.close(file)
    except OSError:
        return None
