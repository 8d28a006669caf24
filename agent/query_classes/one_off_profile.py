"""Look at one server for a while, here and now, and divide what it used over its query classes."""

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
    with_times,
)
from agent.query_classes.tracked_classes import TrackedClasses
from agent.window.interval_buffer import IntervalBuffer
from collectors import CollectorSpec, collectors_with
from collectors.base import CollectorError, FailureKind, Sample, Values
from collectors.connection import Connection
from collectors.digests import DigestReader, DigestValues, own_among, texts_of

READING_SECONDS = 1.0  # seconds between two readings, on average
JITTER = (0.9, 1.1)
"""Readings come at random moments. The kernel lets throttled reads through every tenth of a second
(blk-throttle), so readings at a fixed moment would always meet the same part of it."""
THREAD_SAMPLES = 4
"""At the threads of statements, for each reading."""
MAX_SECONDS = 3600.0  # seconds of intervals that are kept
NO_SETTINGS = ResourceSettings()
READ_TIMEOUT = 1.0  # seconds that the server may spend on one statement
SOURCES = ("host", "status", "digests", "host", "status")
"""In this order, so that what the whole server used is known before and after each interval."""


def observe(
    target: Target,
    seconds: float,
    *,
    resources: ResourceSettings = NO_SETTINGS,
    pause: Callable[[float], None] = time.sleep,
) -> ObservedClasses:
    """Read once a second for so long; a reading that the server cuts off is left out.

    Raises `CollectorError` where the server or its digests cannot be read.
    """
    connection = _connection(target)
    registry = ClassRegistry()
    maker = _Recorder(registry)
    intervals: list[ClassInterval] = []
    cut_off: CollectorError | None = None
    try:
        connection.open()
        readers = _readers(connection, resources)
        end = time.monotonic() + seconds + READING_SECONDS
        while (now := time.monotonic()) < end:
            cut_off = read_once(readers, maker) or cut_off
            maker.history.window(time.monotonic())  # it keeps few samples
            intervals += maker.intervals(time.monotonic())  # it holds few readings that wait
            next_at = now + READING_SECONDS * random.uniform(*JITTER)  # noqa: S311
            cut_off = look_until(next_at, readers, pause) or cut_off
        intervals += maker.intervals(time.monotonic() + READING_SECONDS * 10)
    finally:
        connection.close()
    if cut_off is not None and not intervals:
        raise cut_off
    window = maker.history.window(time.monotonic())
    return with_times(observed_classes(registry, intervals), window, resources)


class _Recorder(ClassIntervalMaker):
    """Samples in, intervals out; and the intervals that the time split is made of."""

    def __init__(self, registry: ClassRegistry) -> None:
        super().__init__(registry)
        self.history = IntervalBuffer(READING_SECONDS, MAX_SECONDS, READING_SECONDS)

    def append(self, sample: Sample) -> None:
        """Take in a sample of any collector."""
        super().append(sample)
        if sample.collector in ("host", "status"):
            self.history.append(sample)


def read_once(
    readers: Mapping[str, Callable[[], Values]], maker: ClassIntervalMaker
) -> CollectorError | None:
    """Read each source in its order; answers with the error of one that the server cut off.

    Raises `CollectorError` of any other kind.
    """
    cut_off = None
    for name in SOURCES:
        try:
            if name in readers:
                values = readers[name]()
                maker.append(Sample(name, time.monotonic(), values))
        except CollectorError as error:
            if error.kind is not FailureKind.SLOW:
                raise
            cut_off = error
    return cut_off


def look_until(
    end: float, readers: Mapping[str, Callable[[], Values]], pause: Callable[[float], None]
) -> CollectorError | None:
    """Sample the threads of statements at random moments, until a time in monotonic seconds.

    Answers with the error of a look that the server cut off; raises `CollectorError` of any other.
    """
    digests, cut_off = readers["digests"], None
    for left in range(THREAD_SAMPLES, 0, -1):
        pause(max(0.0, (end - time.monotonic()) / left))
        try:
            if isinstance(digests, DigestReader) and left > 1:
                digests.look()
        except CollectorError as error:
            if error.kind is not FailureKind.SLOW:
                raise
            cut_off = error
    return cut_off


def observe_sums(target: Target) -> ObservedClasses:
    """Read the server's sums once: all since each class was first seen, or the table emptied.

    What only intervals can estimate is not known. Raises `CollectorError` as `observe` does.
    """
    connection = _connection(target)
    registry = ClassRegistry()
    try:
        connection.open()
        values = _readers(connection)["digests"]()
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
        registry.add_texts(texts, own_among(connection, texts))
    finally:
        connection.close()
    return observed_classes(registry, [interval])


def texts_from(target: Target, digests: Sequence[str]) -> dict[str, str]:
    """Normalised texts of these digests; raises `CollectorError` as `observe` does."""
    connection = _connection(target)
    try:
        connection.open()
        return texts_of(connection, digests)
    finally:
        connection.close()


def _connection(target: Target) -> Connection:
    """A session that is yet to be opened."""
    login = target.credentials.login
    return Connection(target.endpoint, login, timeout=target.timeout, limit=READ_TIMEOUT)


def _readers(
    connection: Connection, resources: ResourceSettings = NO_SETTINGS
) -> dict[str, Callable[[], Values]]:
    """The function that reads each source.

    The other collectors read once: all that an agent asks this server is then known as its own, and
    a running agent's statements are no classes of the load.
    """
    found: dict[str, Callable[[], Values]] = {}
    for spec in collectors_with(resources.devices):
        if spec.name not in SOURCES:
            send_once(spec, connection)
            continue
        prepared = spec.prepare(connection)
        if prepared.read is not None:
            found[spec.name] = prepared.read
        elif spec.name == "digests":
            lack = prepared.features[0]
            message = f"{connection.endpoint}: {lack.reason}; {lack.remedy}"
            raise CollectorError(FailureKind.UNREADABLE, message)
    return found


def send_once(spec: CollectorSpec, connection: Connection) -> None:
    """Send a collector's statements, whether or not the server answers them.

    Raises `CollectorError` where the session has ended by that.
    """
    try:
        prepared = spec.prepare(connection)
        if prepared.read is not None:
            prepared.read()
    except CollectorError as error:
        if error.kind.ends_session:
            raise
