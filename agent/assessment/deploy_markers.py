"""Deploy markers: a time and a name, for one target or for all of them."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

MAX_MARKERS = 1000
"""Markers that are kept; the oldest are removed for new ones."""
MAX_NAME_LENGTH = 100
"""Characters of a marker's name."""
MAX_SECONDS_AHEAD = 60.0
"""Seconds that a marker's time may be later than this machine's clock."""


@dataclass(frozen=True, slots=True, order=True)
class Marker:
    """A deploy or other event at a time (Unix s); `target` is empty if it concerns all targets."""

    at: float
    name: str
    target: str = ""

    def concerns(self, target: str) -> bool:
        """Return whether the marker concerns the target."""
        return self.target in ("", target)


def new_marker(name: str, target: str, at: float, now: float) -> Marker:
    """Create a marker from a user's input; raises ValueError with what would be valid."""
    if not 0 < len(name) <= MAX_NAME_LENGTH or not name.isprintable() or name != name.strip():
        rule = f"1 to {MAX_NAME_LENGTH} printable characters, with no space around them"
        raise ValueError(f"name: {name[:30]!r} is not a marker name; give {rule}")
    if not at > 0:
        raise ValueError("at: must be Unix seconds")
    if at > now + MAX_SECONDS_AHEAD:
        raise ValueError("at: this time is in the future; give a past one")
    return Marker(round(at, 3), name, target)


class Markers:
    """The markers of the last `kept` seconds, limited in number; thread-safe."""

    def __init__(self, kept: float, clock: Callable[[], float] = time.time) -> None:
        self.kept_seconds = kept
        self._clock = clock
        self._known: tuple[Marker, ...] = ()
        self._lock = threading.Lock()

    def add(self, markers: Iterable[Marker]) -> None:
        """Add markers; those that are known already are ignored."""
        with self._lock:
            self._known = tuple(sorted({*self._known, *markers})[-MAX_MARKERS:])

    def rename_target(self, old_name: str, name: str) -> None:
        """Let the markers of a target have its new name."""
        with self._lock:
            renamed = (
                replace(marker, target=name) if marker.target == old_name else marker
                for marker in self._known
            )
            self._known = tuple(sorted(set(renamed)))

    def known(self) -> tuple[Marker, ...]:
        """Return the markers, oldest first."""
        since = self._clock() - self.kept_seconds
        return tuple(marker for marker in self._known if marker.at >= since)
