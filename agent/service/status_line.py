"""The state of all targets in one line, for the status that the service manager shows."""

from collections import Counter
from collections.abc import Sequence

from agent.assessment.snapshot import Snapshot
from models.trust import Trust

MAX_NAMED = 5
"""Servers that are named with why they are down; the others are counted."""
STATES = {True: "up", False: "down", None: "not tried yet"}


def status_line(snapshots: Sequence[Snapshot], now: float) -> str:
    """Return the status line.

    For example: `watching 3 servers: 2 up, 1 down (replica: no answer); 2 trusted predictions`.
    """
    count = Counter(snapshot.health.up for snapshot in snapshots)
    states = ", ".join(f"{count[up]} {word}" for up, word in STATES.items() if count[up])
    down = [s for s in snapshots if s.health.up is False]
    named = [_why_down(snapshot) for snapshot in down[:MAX_NAMED]]
    more = [f"and {len(down) - MAX_NAMED} more"] if len(down) > MAX_NAMED else []
    reasons = f" ({'; '.join([*named, *more])})" if down else ""
    trusted = sum(_is_trusted(snapshot, now) for snapshot in snapshots)
    servers, predictions = _pluralised(len(snapshots), "server"), _pluralised(trusted, "prediction")
    return f"watching {servers}: {states}{reasons}; {predictions.replace(' ', ' trusted ', 1)}"


def _why_down(snapshot: Snapshot) -> str:
    reason = next((c.last_error for c in snapshot.health.collectors if c.name == "status"), "")
    return f"{snapshot.target}: {reason or 'no answer'}"


def _is_trusted(snapshot: Snapshot, now: float) -> bool:
    capacity = snapshot.capacity(now)
    return bool(snapshot.health.up) and capacity is not None and capacity.trust is Trust.TRUSTED


def _pluralised(count: int, thing: str) -> str:
    return f"{count or 'no'} {thing}{'' if count == 1 else 's'}"
