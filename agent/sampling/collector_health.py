"""The status of one collector of a target."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from collectors.base import FailureKind


@dataclass(frozen=True, slots=True)
class CollectorHealth:
    """The status of one collector. Durations in seconds; `last_at` in Unix seconds."""

    name: str
    success: bool | None = None  # None: not read yet, or cannot be read here
    duration: float | None = None
    skipped: int = 0
    failures: Mapping[FailureKind, int] = field(default_factory=dict)
    last_error: str = ""
    last_at: float | None = None
