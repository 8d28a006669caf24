"""Look at one server for a while, here and now, and divide what it used over its query classes."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from agent.config.ceilings import ResourceSettings
from agent.config.settings import Target
from agent.interval_buffer import IntervalBuffer
from agent.query_classes.class_intervals import (
    ClassInterval,
    ClassIntervalMaker,
    class_ticks,
    host_use,
)
from agent.query_classes.class_registry import ClassRegistry
from agent.query_classes.digest_deltas import Changes, DigestDeltas
from agent.query_classes.observations import ObservedClasses
from agent.query_classes.observed_time_split import with_times
from agent.query_classes.saturated_intervals import in_the_worst_spell, spells_of
from collectors import CollectorSpec, collectors_with
from collectors.base import CollectorError, FailureKind, Sample, Values
from collectors.connection import Connection
from collectors.digests import DigestValues, own_among, texts_of
from models.attribution.class_intervals import AGENT, OTHER, Array, ClassIntervals
from models.attribution.divide import Attribution, attribute
from models.attribution.estimators import Target as Resource
from models.attribution.quality_gate import OF_DISKS, withheld
from models.attribution.reasons import HostUse

EVERY = 1.0  # seconds between two readings
LONGEST = 3600.0  # seconds of intervals that are kept
NO_SETTINGS = ResourceSettings()
LIMIT = 1.0  # seconds that the server may spend on one statement
MOST_CLASSES = 300
LEAST_TICKS = 3
SOURCES = ("host", "status", "digests", "host", "status")
"""In this order, so that what the whole server used is known before and after each tick."""


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
    book = ClassRegistry()
    maker = _Recorder(book)
    ticks: list[ClassInterval] = []
    cut_off: CollectorError | None = None
    try:
        connection.open()
        readers = _readers(connection, resources)
        end = time.monotonic() + seconds + EVERY
        while (now := time.monotonic()) < end:
            cut_off = read_once(readers, maker) or cut_off
            maker.history.window(time.monotonic())  # it keeps few samples
            ticks += maker.ticks(time.monotonic())  # it holds few readings that wait
            pause(max(0.0, EVERY - (time.monotonic() - now)))
        ticks += maker.ticks(time.monotonic() + EVERY * 10)
    finally:
        connection.close()
    if cut_off is not None and not ticks:
        raise cut_off
    window = maker.history.window(time.monotonic())
    return with_times(divided(book, ticks), window, resources)


class _Recorder(ClassIntervalMaker):
    """Samples in, ticks out; and the intervals that the time split is made of."""

    def __init__(self, book: ClassRegistry) -> None:
        super().__init__(book)
        self.history = IntervalBuffer(EVERY, LONGEST, EVERY)

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


def observe_sums(target: Target) -> ObservedClasses:
    """Read the server's sums once: all since each class was first seen, or the table emptied.

    What can be estimated only from ticks is not known. Raises `CollectorError` as `observe` does.
    """
    connection = _connection(target)
    book = ClassRegistry()
    try:
        connection.open()
        values = _readers(connection)["digests"]()
        assert isinstance(values, DigestValues)  # noqa: S101  (what this collector reads)
        rows = values.rows
        zero = replace(rows, counters=np.zeros_like(rows.counters))
        deltas = DigestDeltas(book)
        deltas.take(zero)
        changes = deltas.take(replace(rows, since=0.0))
        seconds = float(rows.age.max(initial=0.0))
        tick = ClassInterval(seconds, seconds, changes, {})
        greatest = [key.partition("|")[0] for key in _greatest(book, [tick])]
        texts = texts_of(connection, greatest)
        book.learn_texts(texts, own_among(connection, texts))
    finally:
        connection.close()
    return divided(book, [tick])


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
    return Connection(target.endpoint, login, timeout=target.timeout, limit=LIMIT)


def divided(book: ClassRegistry, ticks: list[ClassInterval]) -> ObservedClasses:
    """Divide CPU and bytes of disks over the classes of these ticks."""
    whole = [tick for tick in ticks if tick.changes is not None]
    seen = [tick for tick in whole if "cpu" in tick.used]
    whole = seen if 2 * len(seen) >= len(whole) else whole
    names = (*_greatest(book, whole), OTHER, AGENT)
    column_of = np.full(len(book), names.index(OTHER), dtype=np.intp)
    for i, key in enumerate(book.keys):
        if book.is_own(key):
            column_of[i] = names.index(AGENT)
        elif key in names:
            column_of[i] = names.index(key)
    texts = tuple(None if name in (OTHER, AGENT) else book.text_for_models(name) for name in names)
    table = class_ticks(whole, column_of, names, texts)
    y = _used(whole, "cpu")
    is_sum = y is None
    if y is None and table.cpu is not None and table.cpu.any():
        y = table.cpu.sum(axis=1)  # of the classes, for want of the whole
    spells = spells_of(whole)
    host = in_the_worst_spell(host_use(whole), spells)
    measured = table.cpu is not None and bool(table.cpu.any())
    known = len(table) >= LEAST_TICKS or (measured and len(table) > 0)
    return ObservedClasses(
        book=book,
        seconds=float(table.seconds.sum()),
        ticks=table,
        cpu=attribute(table, Resource(y, cpu_seconds=True), host=host)
        if known and y is not None and y.any()
        else None,
        cpu_target=y,
        cpu_is_sum=is_sum,
        disk={name: found for name in OF_DISKS if (found := _bytes(name, table, whole, host))},
        spells=spells,
        network=_network(table, whole, host),
    )


def _bytes(
    name: str, table: ClassIntervals, ticks: list[ClassInterval], host: HostUse
) -> Attribution | None:
    """Divide a number of bytes, as far as the model has shown that it knows them."""
    y = _used(ticks, name)
    if len(table) < LEAST_TICKS or y is None or not y.any():
        return None
    return withheld(name, table, attribute(table, Resource(y, time_like=False), host=host))


def _network(
    table: ClassIntervals, ticks: list[ClassInterval], host: HostUse
) -> Attribution | None:
    y = _used(ticks, "network")
    if len(table) < LEAST_TICKS or y is None or not y.any():
        return None
    return attribute(table, Resource(y, time_like=False), host=host)


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


def _greatest(book: ClassRegistry, ticks: list[ClassInterval]) -> list[str]:
    """Keys of the classes that ran for the longest time."""
    spent = np.zeros(len(book))
    for tick in ticks:
        changes: Changes | None = tick.changes
        if changes is not None:
            spent[changes.classes] += changes.values[:, changes.names.index("statement_time")]
            spent[changes.classes] += np.maximum(changes.in_flight, 0.0)
    order = [int(n) for n in np.argsort(-spent, kind="stable") if spent[n] > 0]
    return [book.keys[n] for n in order if not book.is_own(book.keys[n])][:MOST_CLASSES]


def _used(ticks: list[ClassInterval], *names: str) -> Array | None:
    """The sum of these resources in each tick, None unless all are known in all."""
    if not ticks or any(name not in tick.used for tick in ticks for name in names):
        return None
    return np.array([sum(tick.used[name] for name in names) for tick in ticks])
