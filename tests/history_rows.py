"""Made-up rows of a history, and functions to read its file; for the tests of the history."""

import sqlite3
from contextlib import closing
from pathlib import Path

from agent.config.history_settings import HistorySettings
from agent.history.open_database import open_to_read
from agent.history.row_access import select_rows
from agent.history.row_kinds import CLASSES, FITS, INTERVALS, KINDS, Row, RowKind
from agent.history.sample_compression import pack
from agent.history.store import Store
from agent.history.write_buffer import Batch

ZERO = 1_700_000_000_000  # ms since 1970
STEP = 15_000  # ms between two intervals
SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
SETTINGS = HistorySettings()


def interval(number: int, target: str = "db", server: str = SERVER) -> Row:
    """Return an interval whose numbers follow from its index."""
    cells = (
        15.0,
        100.0 + number,
        number / 7,
        3.5,
        15.0,
        1.0,
        None,
        0.25,
        {"cpu": 1 / (number + 2)},
    )
    assert len(cells) == len(INTERVALS.columns)
    return Row((target, server), ZERO + STEP * number, cells)


def fit(number: int, target: str = "db", server: str = SERVER) -> Row:
    """Return the assessment after that interval."""
    words = ("indicative", "wide_interval,no_wall", "cpu", "statement_time")
    cells = (*words, 20.0, 1000.0 + number, 900.0, None, *(0.01 * k for k in range(10)))
    assert len(cells) == len(FITS.columns)
    return Row((target, server), ZERO + STEP * number, cells)


def class_uses(number: int, target: str = "db", server: str = SERVER) -> list[Row]:
    """Return the use of two classes in that interval, and the unattributed use."""
    whole = (15.0, 30.0 + number, 4.5, 1.25, 0.125, "work-time", 0.0, 1.0, 0.25, None, 4096.0)
    part = (15.0, None, None, 0.5, None, "work-time", 0.0, *[None] * 7)
    of_a_class = (*whole, None, 500.0, 0.75, 0.25)
    assert len(of_a_class) == len(part) + 1 == len(CLASSES.columns)
    named = {"a1b2|=shop": of_a_class, "c3d4|": of_a_class, "unattributed": (*part, None)}
    at = ZERO + STEP * number
    return [Row((target, server, name), at, cells) for name, cells in named.items()]


def business(number: int, target: str = "db", server: str = SERVER) -> Row:
    """Return the values of two business metrics at that interval's end."""
    values = {"active_users": 200.0 + number, "orders": 1 / (number + 3)}
    return Row((target, server), ZERO + STEP * number, (values,))


def batch(number: int, target: str = "db", server: str = SERVER) -> Batch:
    """Return all rows written after that interval: it, its fit, fifteen samples, classes."""
    at = ZERO + STEP * number
    readings = [(at - 1000 * k, {"questions": 1e6 + at - k, "uptime": 5.0 * k}) for k in range(15)]
    chunk = pack("status", readings[::-1])
    return Batch(
        target,
        server,
        [interval(number, target, server)],
        [fit(number, target, server)],
        [chunk],
        class_uses(number, target, server),
        business=[business(number, target, server)],
    )


def filled(path: Path, count: int = 40, *targets: str) -> Path:
    """Write a history of that many intervals of each target, and close it."""
    store = Store(path, SETTINGS)
    for number in range(count):
        for target in targets or ("db",):
            store.put(batch(number, target))
    store.close()
    return path


def rows(path: Path, kind: RowKind) -> list[Row]:
    """Return all rows of a kind."""
    with closing(open_to_read(path)) as connection:
        return list(select_rows(connection, kind))


def everything(path: Path) -> dict[str, list[Row]]:
    """Return all rows of all kinds."""
    return {name: rows(path, kind) for name, kind in KINDS.items()}


def is_sound(path: Path) -> bool:
    """Return whether every page and index of the file is consistent."""
    with closing(sqlite3.connect(path)) as connection:
        return bool(connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)])
