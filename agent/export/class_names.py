"""Short names of query classes, where the text of their statements is not shown."""

from collections.abc import Mapping

from agent.query_classes.class_registry import NONE, OVERFLOW, ClassName
from models.attribution.class_interval_table import AGENT, OTHER

COMBINED_NAMES: Mapping[str, str] = {
    OTHER: "all others",
    AGENT: "mysql-headroom (agent)",
    OVERFLOW: "digest table full",
    NONE: "statements without a digest",
}
DIGEST_LENGTH = 16
"""Characters of a class's digest that are shown."""


def short_class_name(name: ClassName) -> str:
    """Return the schema and the start of the digest, or what several classes together are."""
    digest = name.digest[:DIGEST_LENGTH]
    shown = f"{name.schema}.{digest}" if name.schema else digest
    return COMBINED_NAMES.get(name.digest, shown)
