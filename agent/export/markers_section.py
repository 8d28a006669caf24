"""The latest deploy markers of a target on the page, each with the command that compares."""

import shlex
from datetime import UTC, datetime
from html import escape

from agent.assessment.markers import Marker
from agent.assessment.snapshot import Snapshot
from agent.config.durations import words

LATEST = 5
"""So many are shown; all are in the snapshot's JSON."""


def markers_section(snapshot: Snapshot, now: float) -> str:
    """A list, the latest first; empty where there is no marker."""
    shown = snapshot.markers[: -LATEST - 1 : -1]
    if not shown:
        return ""
    items = "".join(_item(marker, snapshot.target, now) for marker in shown)
    key = f"Blue points: since {escape(shown[0].name)}." if snapshot.fitted.points else ""
    return f"<p>Deploy markers: {key}</p><ul>{items}</ul>"


def _item(marker: Marker, target: str, now: float) -> str:
    at = datetime.fromtimestamp(marker.at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    options = f"--target {shlex.quote(target)} --around-marker={shlex.quote(marker.name)}"
    command = f"mysql-headroom compare HISTORY {options}"
    age = words(max(0.0, now - marker.at))
    return (
        f"<li>{escape(marker.name)}, {at} ({escape(age)} ago)"
        f"<br>compare: <code>{escape(command)}</code></li>"
    )
