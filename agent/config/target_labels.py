"""Labels that the configuration gives a target, for its `target_info`."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from agent.config.base_model import Checked, matching

INFO_LABELS = ("host", "port", "version", "server_identity")
"""Labels of `target_info` besides the target."""
RESERVED_LABELS = ("target", "job", "instance", *INFO_LABELS)
MAX_LABELS = 16

LabelName = Annotated[
    str,
    matching(
        r"[a-zA-Z_][a-zA-Z0-9_]{0,62}",
        "a label has up to 63 letters, digits and underscores, and begins with no digit",
    ),
]
LabelValue = Annotated[str, Meta(min_length=1, max_length=128)]


def _check_reserved(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Raise ValueError for names that Prometheus or the metric itself uses."""
    for name in labels:
        if name in RESERVED_LABELS:
            raise ValueError(f"{name}: this label is reserved; choose another name")
        if name.startswith("__"):
            raise ValueError(f"{name}: names that begin with __ are Prometheus's own")
    return labels


TargetLabels = Annotated[
    Mapping[LabelName, LabelValue], Meta(max_length=MAX_LABELS), Checked(_check_reserved)
]
