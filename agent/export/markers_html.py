"""The latest deploy markers of a target on the page, each with a link and a command to compare.

Both give the marker's time instead of its name, because a later one may have the same name.
"""

import shlex
from datetime import UTC, datetime
from html import escape
from urllib.parse import urlencode

from agent.assessment.deploy_markers import Marker
from agent.assessment.snapshot import Snapshot
from agent.config.durations import format_duration

SHOWN_MARKERS = 5
"""Number of markers shown; all are in the snapshot's JSON."""


def markers_section(snapshot: Snapshot, now: float, history: str | None, *, has_chart: bool) -> str:
    """Return a list of markers, latest first; empty if there is none.

    `history` is the path of the history file, from which periods are compared; None: none is kept.
    """
    shown = snapshot.markers[: -SHOWN_MARKERS - 1 : -1]
    if not shown:
        return ""
    items = "".join(_item(marker, snapshot.target, now, history) for marker in shown)
    note = f" (points since {escape(shown[0].name)} are blue)" if has_chart else ""
    return f"<p>Deploy markers{note}:</p><ul>{items}</ul>"


def _item(marker: Marker, target: str, now: float, history: str | None) -> str:
    at = datetime.fromtimestamp(marker.at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    age = format_duration(max(0.0, now - marker.at))
    text = f"<li>{escape(marker.name)}, {at} ({escape(age)} ago)"
    if history is None:
        return f"{text}<br>without a history (history.path) nothing can be compared</li>"
    options = f"--target {shlex.quote(target)} --around {marker.at:.3f}"
    command = f"mysql-headroom compare {shlex.quote(history)} {options}"
    link_to = "compare?" + urlencode({"target": target, "around": f"{marker.at:.3f}"})
    link = f'<a href="{escape(link_to)}">before and after</a>'
    return f"{text}: {link}<br>in a shell: <code>{escape(command)}</code></li>"
