"""`histograms`: response times of statements, from events_statements_histogram_by_digest.

The table counts, per schema and digest, statements by response time in buckets that are 4.7 % wide.
It has 450 rows for each class, and an index by schema and digest: the schemas that a digest was
seen in come from the summary, so that the server reads only these digests' rows. The counts are
sums since the server's start, returned unchanged. MariaDB has no such table.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from collectors.base import PICOSECOND, CollectorError, FailureKind, Feature, Prepared, Values
from collectors.connection import Connection
from collectors.digest_table import TABLE
from collectors.digest_texts import MAX_DIGEST_LENGTH
from collectors.result_cells import ResultCell, ResultLimits, number, text, whole_number
from collectors.statement_totals import (
    ENABLE_CONSUMER,
    consumers,
    missing_grant,
    performance_schema_off,
)

NAME = "histograms"
FEATURE = "digest_histograms"
HISTOGRAMS = "events_statements_histogram_by_digest"
TABLE_EXISTS = f"""
SELECT COUNT(*) FROM information_schema.TABLES
 WHERE TABLE_SCHEMA = 'performance_schema' AND TABLE_NAME = '{HISTOGRAMS}'"""  # noqa: S608
MAX_ROWS = 20_000
"""Buckets in use: a class uses some 60 of its 450, so that these suffice for 300 schemas."""
COUNTS = f"""
SELECT STRAIGHT_JOIN h.DIGEST, h.BUCKET_TIMER_LOW, h.BUCKET_TIMER_HIGH, h.COUNT_BUCKET
  FROM {TABLE} s
  JOIN performance_schema.{HISTOGRAMS} h
    ON h.SCHEMA_NAME <=> s.SCHEMA_NAME AND h.DIGEST = s.DIGEST
 WHERE s.DIGEST IN ({{digests}}) AND h.COUNT_BUCKET > 0
 LIMIT {MAX_ROWS + 1}"""  # noqa: S608  (hexadecimal digits of the configuration)
COUNTS_LIMITS = ResultLimits(
    columns=4, rows=MAX_ROWS + 1, bytes=(MAX_ROWS + 1) * (MAX_DIGEST_LENGTH + 60)
)
NO_TABLE = (
    "the server has no histograms per digest (MySQL has them from 8.0 on, MariaDB has none):"
    " class_slas give no result here"
)
CONSUMER = "statements_digest"

Edges = tuple[float, float]
"""Lower and upper edge in seconds; the last bucket ends at more than a hundred days."""
Buckets = Mapping[Edges, float]
"""Statements since the server's start by response time; an empty bucket is absent."""


class HistogramValues(dict[str, float]):
    """The number of digests that the server has, and their buckets, summed over schemas."""

    def __init__(self, buckets: Mapping[str, Buckets]) -> None:
        super().__init__({"digests": float(len(buckets))})
        self.buckets = buckets


def prepare(connection: Connection, digests: Sequence[str]) -> Prepared:
    """Check the table, the grant and the consumer; report an absent feature with its remedy.

    What no version of this server offers has no remedy.
    """
    absent = performance_schema_off(connection, FEATURE) or _absent_feature(connection)
    if absent is not None:
        return Prepared(None, (absent,))
    listed = ", ".join(f"'{digest}'" for digest in digests)
    read = partial(_read, connection, COUNTS.format(digests=listed))
    return Prepared(read, (Feature(FEATURE, enabled=True),))


def _absent_feature(connection: Connection) -> Feature | None:
    try:
        connection.query(f"SELECT 1 FROM {TABLE} LIMIT 1")  # noqa: S608
        active = consumers(connection)
    except CollectorError as error:
        if error.kind is not FailureKind.PRIVILEGE:
            raise
        return missing_grant(connection, FEATURE)
    if whole_number("the count of tables", connection.cell(TABLE_EXISTS)) == 0:
        return Feature(FEATURE, False, NO_TABLE)
    if CONSUMER not in active:
        reason, remedy = f"the consumer {CONSUMER} is off", ENABLE_CONSUMER.format(CONSUMER)
        return Feature(FEATURE, False, reason, remedy)
    return None


def _read(connection: Connection, query: str) -> Values:
    rows = connection.query(query, COUNTS_LIMITS)
    if len(rows) > MAX_ROWS:
        message = f"more than {MAX_ROWS:,} buckets of the digests are in use: in too many schemas"
        raise CollectorError(FailureKind.UNREADABLE, message)
    found: dict[str, dict[Edges, float]] = {}
    for digest, low, high, count in rows:
        buckets = found.setdefault(text(digest, MAX_DIGEST_LENGTH).lower(), {})
        edges = _seconds("BUCKET_TIMER_LOW", low), _seconds("BUCKET_TIMER_HIGH", high)
        buckets[edges] = buckets.get(edges, 0.0) + number("COUNT_BUCKET", count)
    return HistogramValues(found)


def _seconds(name: str, cell: ResultCell) -> float:
    return number(name, cell) * PICOSECOND
