"""The kinds of rows that a history holds, with their labels and columns."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from models.attribution.result import DivisionMethod
from models.trust import Trust

Cell = float | str | Mapping[str, float] | None
"""A number, a word, numbers by name, or None if unknown."""


class CellType(StrEnum):
    """The type of the cells of a column."""

    NUMBER = "number"
    WORDS = "words"
    NUMBERS = "numbers"  # by name


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a kind of rows. A row that lacks a `required` cell is invalid.

    `minimum` is the smallest valid number; a word must be one of `choices`, if there are any.
    """

    name: str
    holds: CellType = CellType.NUMBER
    required: bool = False
    minimum: float = -math.inf
    choices: tuple[str, ...] = ()


class Row(NamedTuple):
    """The values for `labels` at one time: a cell for each column of the kind."""

    labels: tuple[str, ...]
    at: int  # milliseconds since 1970
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class RowKind:
    """A kind of rows: its singular and plural names, its labels and its columns."""

    name: str
    one: str
    labels: tuple[str, ...]
    columns: tuple[Column, ...]


SERVER_KEY = ("target", "server")

INTERVALS = RowKind(
    "intervals",
    "interval",
    SERVER_KEY,
    (
        Column("seconds", required=True, minimum=0.001),
        Column("throughput", required=True, minimum=0.0),
        *(
            Column(name, minimum=0.0)
            for name in (
                "statement_time",
                "threads_running",
                "thread_samples",
                "excluded_agent",
                "excluded_binlog_dump",
                "excluded_system",
            )
        ),
        Column("resources", CellType.NUMBERS),
    ),
)
"""Rates and averages of one interval, as `Interval` (agent.window.intervals); `at` is its end."""

FITS = RowKind(
    "fits",
    "fit",
    SERVER_KEY,
    (
        Column("trust", CellType.WORDS, required=True, choices=tuple(Trust)),
        Column("reasons", CellType.WORDS),
        Column("limited_by", CellType.WORDS),
        Column("source", CellType.WORDS),
        *(
            Column(name)
            for name in (
                "points",
                "capacity",
                "capacity_lower",
                "capacity_upper",
                "sigma",
                "kappa",
                "lambda",
                "n_max",
                "n_max_lower",
                "n_max_upper",
                "x_max",
                "x_max_lower",
                "x_max_upper",
                "r_squared",
            )
        ),
    ),
)
"""The assessment after an interval: the capacity, its trust, the law and its peak."""

SAMPLES = RowKind(
    "samples",
    "sample",
    (*SERVER_KEY, "collector"),
    (Column("value", CellType.NUMBERS, required=True),),
)
"""The values that one collector read at one time, by name."""

CLASSES = RowKind(
    "classes",
    "class_use",
    (*SERVER_KEY, "class"),
    (
        Column("seconds", required=True, minimum=0.001),
        *(Column(name, minimum=0.0) for name in ("calls", "statement_time", "cpu", "cpu_error")),
        Column("cpu_source", CellType.WORDS, choices=tuple(DivisionMethod)),
        *(
            Column(name, minimum=0.0)
            for name in (
                "waits",
                "user_cpu",
                "system_cpu",
                "read",
                "written",
                "network",
                "row_operations",
                "removed_gain",
                "halved_gain",
            )
        ),
    ),
)
"""The use by the displayed classes in one interval of `classes.interval`, the others as one, and
what no class explains (`unattributed`); units as in `ClassState.totals`."""

BUSINESS = RowKind(
    "business",
    "business",
    SERVER_KEY,
    (Column("value", CellType.NUMBERS, required=True),),
)
"""Values of business metrics read at one time, by name."""

MARKERS = RowKind("markers", "marker", ("target", "name"), (Column("set", required=True),))
"""Deploy markers; an empty target means all targets, and `set` is always 1."""

KINDS = {kind.name: kind for kind in (INTERVALS, FITS, SAMPLES, CLASSES, BUSINESS)}
"""The kinds that are stored by target and server."""
TEXT_KINDS = {**KINDS, MARKERS.name: MARKERS}
"""The kinds that are exported and imported."""
