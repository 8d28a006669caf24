"""A live profile: one server observed for a while, its use divided over its query classes."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from agent.config.resources import ResourceSettings
from agent.config.settings import Target
from agent.query_classes.class_intervals import ClassInterval, ClassIntervalMaker
from agent.query_classes.class_registry import ClassRegistry
from agent.query_classes.digest_deltas import DigestDeltas
from agent.query_classes.period_attribution import (
    MAX_CLASSES,
    ObservedClasses,
    observed_classes,
    with_time_splits,
)
from agent.query_classes.tracked_classes import TrackedClasses
from agent.sampling.target_collectors import collectors_reading
from agent.window.interval_buffer import IntervalBuffer
from collectors import CollectorSpec
from collectors.base import CollectorError, FailureKind, Sample, Values
from collectors.connection import Connection
from collectors.digest_table import STATEMENT_TIME
from collectors.digest_texts import own_digests, texts_of
from collectors.digests import DigestReader, DigestRows, DigestValues

READING_SECONDS = 1.0  # seconds between two readings, on average
JITTER = (0.9, 1.1)
"""Factors of the time between readings, which is random. The kernel releases throttled reads every
tenth of a second (blk-throttle), so readings at a fixed phase would always see the same part."""
THREAD_SAMPLES = 4
"""Samples of the statements' threads for each reading."""
MAX_SECONDS = 3600.0  # seconds of intervals that are kept
NO_SETTINGS = ResourceSettings()
READ_TIMEOUT = 1.0  # seconds that the server may spend on one statement
SOURCES = ("host", "status", "digests", "host", "status")
"""Read in this order, so that the whole server's use is known before and after each interval."""


def observe_classes(
    target: Target,
    seconds: float,
    *,
    resources: ResourceSettings = NO_SETTINGS,
    pause: Callable[[float], None] = time.sleep,
) -> ObservedClasses:
    """Observe a server for `seconds`, one reading a second; readings that time out are left out.

    Raises `CollectorError` if the server or its digests cannot be read.
    """
    connection = _connection(target)
    registry = ClassRegistry()
    maker = _Recorder(registry)
    intervals: list[ClassInterval] = []
    timeout_error: CollectorError | None = None
    try:
        connection.open()
        readers = _readers(connection, target, resources)
        end = time.monotonic() + seconds + READING_SECONDS
        while (now := time.monotonic()) < end:
            timeout_error = read_once(readers, maker) or timeout_error
            maker.buffer.window(time.monotonic())  # makes it drop old samples
            intervals += maker.intervals(time.monotonic())  # few readings may wait in it
            next_at = now + READING_SECONDS * random.uniform(*JITTER)  # noqa: S311
            timeout_error = sample_threads_until(next_at, readers, pause) or timeout_error
        intervals += maker.intervals(time.monotonic() + READING_SECONDS * 10)
    finally:
        connection.close()
    if timeout_error is not None and not intervals:
        raise timeout_error
    window = maker.buffer.window(time.monotonic())
    return with_time_splits(observed_classes(registry, intervals), window, resources)


class _Recorder(ClassIntervalMaker):
    """Makes class intervals of samples, and keeps the server's intervals for the time split."""

    def __init__(self, registry: ClassRegistry) -> None:
        super().__init__(registry)
        self.buffer = IntervalBuffer(READING_SECONDS, MAX_SECONDS, READING_SECONDS)

    def append(self, sample: Sample) -> None:
        """Add a sample of any collector."""
        super().append(sample)
        if sample.collector in ("host", "status"):
            self.buffer.append(sample)


def read_once(
    readers: Mapping[str, Callable[[], Values]], maker: ClassIntervalMaker
) -> CollectorError | None:
    """Read each source in this order; return the error of one that timed out, if any.

    Raises `CollectorError` of any other kind.
    """
    timeout_error = None
    for name in SOURCES:
        try:
            if name in readers:
                values = readers[name]()
                maker.append(Sample(name, time.monotonic(), values))
        except CollectorError as error:
            if error.kind is not FailureKind.SLOW:
                raise
            timeout_error = error
    return timeout_error


def sample_threads_until(
    end: float, readers: Mapping[str, Callable[[], Values]], pause: Callable[[float], None]
) -> CollectorError | None:
    """Sample the statements' threads at even times until `end` (monotonic seconds).

    Returns the error of a sample that timed out, if any; raises `CollectorError` of any other kind.
    """
    digests, timeout_error = readers["digests"], None
    for remaining in range(THREAD_SAMPLES, 0, -1):
        pause(max(0.0, (end - time.monotonic()) / remaining))
        try:
            if isinstance(digests, DigestReader) and remaining > 1:
                digests.sample_threads()
        except CollectorError as error:
            if error.kind is not FailureKind.SLOW:
                raise
            timeout_error = error
    return timeout_error


def observe_totals(target: Target) -> ObservedClasses:
    """Read the server's sums once: those since a class was first seen, or the table was emptied.

    What only intervals can estimate is not known. Raises `CollectorError` as `observe_classes`
    does.
    """
    connection = _connection(target)
    registry = ClassRegistry()
    try:
        connection.open()
        readers = _readers(connection, target)
        values = readers["digests"]()
        for name in ("status", "digests"):
            readers[name]()  # sends what an agent sends; a later reading has another statement
        assert isinstance(values, DigestValues)  # noqa: S101  (what this collector reads)
        rows = values.rows
        zero = replace(rows, counters=np.zeros_like(rows.counters))
        deltas = DigestDeltas(registry)
        deltas.take(zero)
        changes = deltas.take(replace(rows, since=0.0))
        seconds = float(rows.age.max(initial=0.0))
        interval = ClassInterval(seconds, seconds, changes, {})
        tracked = TrackedClasses(registry, MAX_CLASSES)
        tracked.update([interval])
        texts = texts_of(connection, [key.partition("|")[0] for key in tracked.keys])
        registry.add_texts(texts, own_digests(connection, texts))
    finally:
        connection.close()
    observed = observed_classes(registry, [interval])
    return replace(observed, unclassified_share=_unclassified_share(rows))


def _unclassified_share(rows: DigestRows) -> float | None:
    """Return the share of all statement time since the server's start that is in no row."""
    if rows.all_statements is None:
        return None
    column = rows.names.index(STATEMENT_TIME)
    total, classified = rows.all_statements[column], rows.counters[:, column].sum()
    return float(max(0.0, 1 - classified / total)) if total > 0 else None


def read_texts(target: Target, digests: Sequence[str]) -> dict[str, str]:
    """Read the normalised texts of these digests; raises as `observe_classes` does."""
    connection = _connection(target)
    try:
        connection.open()
        return texts_of(connection, digests)
    finally:
        connection.close()


def _connection(target: Target) -> Connection:
    """Return a connection that is not open yet."""
    login = target.credentials.login
    return Connection(target.endpoint, login, timeout=target.timeout, limit=READ_TIMEOUT)


def _readers(
    connection: Connection, target: Target, resources: ResourceSettings = NO_SETTINGS
) -> dict[str, Callable[[], Values]]:
    """Return the function that reads each source.

    The other collectors read once, so that all statements that an agent sends to this server are
    known as its own, and those of a running agent are not classes of the load.
    """
    found: dict[str, Callable[[], Values]] = {}
    for spec in collectors_reading(target, resources.devices):
        if spec.name not in SOURCES:
            send_statements_once(spec, connection)
            continue
        prepared = spec.prepare(connection)
        if prepared.read is not None:
            found[spec.name] = prepared.read
        elif spec.name == "digests":
            missing = prepared.features[0]
            message = f"{connection.endpoint}: {missing.reason}; {missing.remedy}"
            raise CollectorError(FailureKind.UNREADABLE, message)
    return found


def send_statements_once(spec: CollectorSpec, connection: Connection) -> None:
    """Send a collector's statements, whether or not the server answers them.

    Raises `CollectorError` if that has ended the session.
    """
    try:
        prepared = spec.prepare(connection)
        if prepared.read is not None:
            prepared.read()
    except CollectorError as error:
        if error.kind.ends_session:
            raise
