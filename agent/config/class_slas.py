"""SLAs of query classes: how long a share of a class's statements may take at most."""

import re
from typing import Annotated

from msgspec import Meta

from agent.config.base_model import Checked, Parsed, Section
from agent.config.durations import duration_in_seconds, within_bounds

MAX_CLASSES = 8
"""The greatest number of SLAs of one target; each is several series."""
DIGEST = re.compile(r"[0-9a-f]{64}|[0-9a-f]{32}")
INVALID_DIGEST = (
    "must be the 64 hexadecimal digits of a digest: column DIGEST of performance_schema."
    "events_statements_summary_by_digest, or the label of mysql_headroom_query_calls_total"
)
MIN_QUANTILE, MAX_QUANTILE = 0.5, 0.999
INVALID_QUANTILE = (
    f"must be a number from {MIN_QUANTILE:g} to {MAX_QUANTILE:g}; write 0.95 for 95 % of statements"
)


def _check_digest(value: str) -> str:
    """Return the digest as the server writes it; MariaDB's have 32 digits."""
    if not DIGEST.fullmatch(value.lower()):
        raise ValueError(INVALID_DIGEST)
    return value.lower()


def _parse_quantile(value: object) -> float:
    """Return a share of the statements."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not MIN_QUANTILE <= value <= MAX_QUANTILE:  # type: ignore[operator]
        raise ValueError(INVALID_QUANTILE)
    return float(value)  # type: ignore[arg-type]


class ClassSla(Section, frozen=True):
    """The limit in seconds for a share of the statements of a digest, over all schemas."""

    digest: Annotated[str, Checked(_check_digest)]
    seconds: Annotated[float, Parsed(duration_in_seconds), within_bounds(1e-6, 3600)]
    quantile: Annotated[float, Parsed(_parse_quantile)] = 0.95


def _check_distinct(slas: tuple[ClassSla, ...]) -> tuple[ClassSla, ...]:
    known = [(sla.digest, sla.quantile) for sla in slas]
    for digest, quantile in known:
        if known.count((digest, quantile)) > 1:
            raise ValueError(
                f"the digest {digest[:16]}… has two SLAs for the quantile {quantile:g};"
                " leave one out, or give it another quantile"
            )
    return slas


ClassSlas = Annotated[tuple[ClassSla, ...], Meta(max_length=MAX_CLASSES), Checked(_check_distinct)]
