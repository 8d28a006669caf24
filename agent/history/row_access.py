"""Insertion and reading of rows. Existing rows are never changed."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import merge
from itertools import chain, groupby

from agent.assessment.deploy_markers import Marker
from agent.history import class_uses
from agent.history.failures import StoreError, StoreFailure
from agent.history.marker_table import insert_markers, read_markers
from agent.history.row_kinds import (
    CLASSES,
    MARKERS,
    SAMPLES,
    Cell,
    CellType,
    Column,
    Row,
    RowKind,
)
from agent.history.sample_compression import Chunk, pack, unpack

PAGE_ROWS = 1000  # rows read at once: between two pages no lock is held
CHUNK_ROWS = 60  # samples packed into a chunk if they come as single rows
MAX_TIME = 2**62  # ms; later than any time


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows: of all targets, one, or one of its servers; from `since` to `until` (ms)."""

    target: str | None = None
    server: str | None = None
    since: int = 0
    until: int = MAX_TIME


@dataclass(frozen=True, slots=True)
class Extent:
    """The number of rows of one kind and target, and the times (ms) of the first and the last."""

    target: str
    server: str
    kind: str
    rows: int
    first: int
    last: int


ALL_ROWS = RowFilter()


def insert_rows(connection: sqlite3.Connection, kind: RowKind, rows: Iterable[Row]) -> int:
    """Add rows of a kind; return how many of them are new."""
    if kind is SAMPLES:
        return _insert_samples(connection, rows)
    if kind is CLASSES:
        return _insert_class_uses(connection, rows)
    if kind is MARKERS:
        return insert_markers(connection, (_marker_of_row(row) for row in rows))
    names = ", ".join(("target", "at", *(column.name for column in kind.columns)))
    marks = ", ".join("?" * (2 + len(kind.columns)))
    sql = f"INSERT OR IGNORE INTO {kind.one} ({names}) VALUES ({marks})"  # noqa: S608  (our names)
    added = 0
    for labels, group in groupby(rows, key=lambda row: row.labels):
        target = target_id(connection, *labels)
        before = connection.total_changes
        connection.executemany(sql, ((target, row.at, *map(_to_sql, row.cells)) for row in group))
        added += connection.total_changes - before
    return added


def insert_chunk(connection: sqlite3.Connection, target: int, chunk: Chunk) -> int:
    """Add packed samples, unless they are stored already; return how many are new."""
    connection.execute("INSERT OR IGNORE INTO layout (names) VALUES (?)", (chunk.names,))
    added = connection.execute(
        "INSERT OR IGNORE INTO sample (target, collector, at, first, count, layout, data)"
        " SELECT ?, ?, ?, ?, ?, id, ? FROM layout WHERE names = ?",
        (target, chunk.collector, chunk.at, chunk.first, chunk.count, chunk.data, chunk.names),
    ).rowcount
    return chunk.count if added else 0


def target_id(connection: sqlite3.Connection, name: str, server: str) -> int:
    """Return the id of a target on a server, which is inserted if missing."""
    labels = (name, server)
    sql = "SELECT id FROM target WHERE name = ? AND server = ?"
    found = connection.execute(sql, labels).fetchone()
    if found is None:
        connection.execute("INSERT INTO target (name, server) VALUES (?, ?)", labels)
        found = connection.execute(sql, labels).fetchone()
    return int(found[0])


def select_rows(
    connection: sqlite3.Connection, kind: RowKind, choice: RowFilter = ALL_ROWS
) -> Iterator[Row]:
    """Yield rows of a kind, by label and then by time, a page at a time."""
    if kind is MARKERS:
        yield from _read_markers(connection, choice)
        return
    for target, *labels in _targets(connection, choice):
        if kind is CLASSES:
            times = (choice.since, choice.until)
            yield from class_uses.read(connection, target, tuple(labels), *times)
            continue
        read_kind = _read_samples if kind is SAMPLES else _read_rows
        yield from read_kind(connection, kind, target, tuple(labels), choice)


def extents(
    connection: sqlite3.Connection, kind: RowKind, choice: RowFilter = ALL_ROWS
) -> Iterator[Extent]:
    """Yield the extent of a kind for each target; targets without rows of it are left out.

    All rows of the chosen targets count, whatever their time.
    """
    count, first = ("SUM(count)", "MIN(first)") if kind is SAMPLES else ("COUNT(*)", "MIN(at)")
    sql = f"SELECT {count}, {first}, MAX(at) FROM {kind.one} WHERE target = ?"  # noqa: S608
    for target, name, server in _targets(connection, choice):
        rows, start, end = connection.execute(sql, (target,)).fetchone()
        if rows:
            yield Extent(name, server, kind.name, rows, start, end)


def target_names(connection: sqlite3.Connection) -> list[str]:
    """Return the names of the stored targets; one target may have been several servers."""
    return [name for (name,) in connection.execute("SELECT DISTINCT name FROM target ORDER BY 1")]


def _targets(connection: sqlite3.Connection, choice: RowFilter) -> list[tuple[int, str, str]]:
    return connection.execute(
        "SELECT id, name, server FROM target"
        " WHERE name = IFNULL(?, name) AND server = IFNULL(?, server) ORDER BY name, server",
        (choice.target, choice.server),
    ).fetchall()


def _read_rows(
    connection: sqlite3.Connection,
    kind: RowKind,
    target: int,
    labels: tuple[str, ...],
    choice: RowFilter,
) -> Iterator[Row]:
    """Yield the chosen rows of one target, by time, a page at a time."""
    names = ", ".join(column.name for column in kind.columns)
    sql = (
        f"SELECT at, {names} FROM {kind.one} WHERE target = ?"  # noqa: S608
        f" AND at > ? AND at <= ? ORDER BY at LIMIT {PAGE_ROWS}"
    )
    after = choice.since - 1
    while page := connection.execute(sql, (target, after, choice.until)).fetchall():
        for at, *cells in page:
            yield Row(labels, at, tuple(map(_from_sql, kind.columns, cells)))
        after = page[-1][0]


def _read_samples(
    connection: sqlite3.Connection,
    kind: RowKind,
    target: int,
    labels: tuple[str, ...],
    choice: RowFilter,
) -> Iterator[Row]:
    del kind
    yield from chain(*_streams_by_collector(connection, target, labels, choice))


def samples_by_time(connection: sqlite3.Connection, choice: RowFilter) -> Iterator[Row]:
    """Yield samples of all collectors, in the order of their time for each server of a target."""
    for target, *labels in _targets(connection, choice):
        streams = _streams_by_collector(connection, target, tuple(labels), choice)
        yield from merge(*streams, key=lambda row: row.at)


def _streams_by_collector(
    connection: sqlite3.Connection, target: int, labels: tuple[str, ...], choice: RowFilter
) -> list[Iterator[Row]]:
    """Return an iterator over the samples of each collector, by time."""
    collectors = connection.execute(
        "SELECT DISTINCT collector FROM sample WHERE target = ? ORDER BY collector", (target,)
    ).fetchall()
    return [_read_collector(connection, target, (*labels, name), choice) for (name,) in collectors]


def _read_collector(
    connection: sqlite3.Connection, target: int, labels: tuple[str, ...], choice: RowFilter
) -> Iterator[Row]:
    for chunk in _read_chunks(connection, target, labels[-1], choice):
        for at, values in unpack(chunk):
            if choice.since <= at <= choice.until:
                yield Row(labels, at, (values,))


def _read_chunks(
    connection: sqlite3.Connection, target: int, collector: str, choice: RowFilter
) -> Iterator[Chunk]:
    """Yield the chunks of one collector that may hold samples of that time, oldest first."""
    after = choice.since - 1
    sql = (
        "SELECT collector, at, first, count, names, data FROM sample"  # noqa: S608  (a number)
        " JOIN layout ON layout.id = sample.layout"
        " WHERE target = ? AND collector = ? AND at > ? AND first <= ?"
        f" ORDER BY at LIMIT {PAGE_ROWS // CHUNK_ROWS}"
    )
    while page := connection.execute(sql, (target, collector, after, choice.until)).fetchall():
        for row in page:
            yield Chunk(*row)
        after = page[-1][1]


def _insert_samples(connection: sqlite3.Connection, rows: Iterable[Row]) -> int:
    """Pack samples by collector and add them, except those that are stored already."""
    added = 0
    for (name, server, collector), group in groupby(rows, key=lambda row: row.labels):
        samples = sorted({row.at: row for row in group}.values(), key=lambda row: row.at)
        target = target_id(connection, name, server)
        span = RowFilter(since=samples[0].at, until=samples[-1].at)
        existing = {
            at
            for chunk in _read_chunks(connection, target, collector, span)
            for at, _ in unpack(chunk)
        }
        new = [(row.at, numbers_of(row.cells[0])) for row in samples if row.at not in existing]
        for start in range(0, len(new), CHUNK_ROWS):
            chunk = pack(collector, new[start : start + CHUNK_ROWS])
            added += insert_chunk(connection, target, chunk)
    return added


def _marker_of_row(row: Row) -> Marker:
    target, name = row.labels
    return Marker(row.at / 1000, name, target)


def _read_markers(connection: sqlite3.Connection, choice: RowFilter) -> Iterator[Row]:
    """Yield the markers of the chosen target, those for all targets included."""
    known = [
        marker
        for marker in read_markers(connection)
        if choice.target is None or marker.concerns(choice.target)
    ]
    for marker in sorted(known, key=lambda marker: (marker.target, marker.name, marker.at)):
        at = round(1000 * marker.at)
        if choice.since <= at <= choice.until:
            yield Row((marker.target, marker.name), at, (1.0,))


def _insert_class_uses(connection: sqlite3.Connection, rows: Iterable[Row]) -> int:
    added = 0
    for (name, server), group in groupby(rows, key=lambda row: row.labels[:2]):
        added += class_uses.insert(connection, target_id(connection, name, server), group)
    return added


def _to_sql(cell: Cell) -> float | str | None:
    if isinstance(cell, Mapping):
        return json.dumps(cell, sort_keys=True, allow_nan=False) if cell else None
    return cell


def _from_sql(column: Column, stored: float | str | None) -> Cell:
    if column.holds is not CellType.NUMBERS or stored is None:
        return stored
    try:
        return {str(name): float(value) for name, value in json.loads(str(stored)).items()}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        text = f"a cell of {column.name} has no numbers by name"
        raise StoreError(StoreFailure.CORRUPT, text) from None


def numbers_of(cell: Cell) -> Mapping[str, float]:
    """Return the numbers by name of a cell; empty if it has none."""
    return cell if isinstance(cell, Mapping) else {}
