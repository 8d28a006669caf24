"""Business metrics of a target: a number by SQL or from Prometheus, and the unit that it counts."""

import re
from typing import Annotated, ClassVar

from msgspec import Meta

from agent.config.base_model import Checked, InvalidValuesError, Parsed, Section, matching
from agent.config.durations import duration_in_seconds, within_bounds
from agent.config.http_source import HttpSource

MAX_METRICS = 8
"""The greatest number of business metrics of one target."""
MAX_QUERY_LENGTH = 4000  # characters
NAME = matching(
    r"[a-z_][a-z0-9_]{0,62}",
    "must have up to 63 small letters, digits and underscores, and begin with no digit",
)
UNIT = matching(r"[^\x00-\x1f\x7f]{1,40}", "must have 1 to 40 characters")

QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`[^`]*`", re.DOTALL)
COMMENT = re.compile(r"/\*|#|--(?:\s|$)")
LOCKING = re.compile(r"\bFOR\s+(UPDATE|SHARE)\b|\bLOCK\s+IN\s+SHARE\s+MODE\b", re.IGNORECASE)
INTO = re.compile(r"\bINTO\b", re.IGNORECASE)
READING_STATEMENT = re.compile(r"\s*(SELECT|WITH)\b", re.IGNORECASE)
NOT_ONE_SELECT = "must be a single SELECT that returns one number"

ReadingInterval = Annotated[float, Parsed(duration_in_seconds), within_bounds(1, 3600)]
Timeout = Annotated[float, Parsed(duration_in_seconds), within_bounds(0.1, 10)]


def check_one_select(query: str) -> str:
    """Check that a query only reads, to find mistakes; the session itself refuses all writes."""
    bare = QUOTED.sub("''", query)
    if COMMENT.search(bare):
        raise ValueError("comments and hints are not accepted; put comments into the YAML")
    if not READING_STATEMENT.match(bare) or ";" in bare.rstrip().removesuffix(";"):
        raise ValueError(NOT_ONE_SELECT)
    if LOCKING.search(bare):
        raise ValueError("must not lock rows; remove FOR UPDATE, FOR SHARE or LOCK IN SHARE MODE")
    if INTO.search(bare):
        raise ValueError("must not write a file or a variable; remove INTO")
    return query.strip().removesuffix(";").rstrip()


class PrometheusQuery(HttpSource, frozen=True, kw_only=True):
    """An instant query that gives one number, and the server that answers it."""

    EXAMPLE: ClassVar[str] = "http://HOST:9090"

    query: Annotated[str, Meta(min_length=1, max_length=MAX_QUERY_LENGTH)]


class BusinessMetric(Section, frozen=True):
    """One number of the business that grows with the load."""

    name: Annotated[str, NAME]
    unit: Annotated[str, UNIT]
    query: Annotated[str, Meta(max_length=MAX_QUERY_LENGTH), Checked(check_one_select)] | None = (
        None
    )
    prometheus: PrometheusQuery | None = None
    interval: ReadingInterval = 60.0
    timeout: Timeout = 1.0

    def __post_init__(self) -> None:
        """Raise ValueError unless it has one source, and a timeout that fits its interval."""
        if (self.query is None) == (self.prometheus is None):
            raise ValueError("give either a query or prometheus")
        if self.timeout > self.interval / 2:
            raise InvalidValuesError([(("timeout",), "must be at most half of interval")])


def _check_distinct(metrics: tuple[BusinessMetric, ...]) -> tuple[BusinessMetric, ...]:
    names = [metric.name for metric in metrics]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"the name {name!r} is given twice")
    return metrics


BusinessMetrics = Annotated[
    tuple[BusinessMetric, ...],
    Meta(max_length=MAX_METRICS),
    Checked(_check_distinct),
]
