"""The latest deploy markers of a target on the page, each with a link and a command that compare.

They name the time and not the marker, for a later one may have the same name.
"""

import shlex
from datetime import UTC, datetime
from html import escape
from urllib.parse import urlencode

from agent.assessment.markers import Marker
from agent.assessment.snapshot import Snapshot
from agent.config.durations import words

SHOWN_MARKERS = 5
"""Number of markers shown; all are in the snapshot's JSON."""


def markers_section(snapshot: Snapshot, now: float, history: str | None) -> str:
    """A list, the latest first; empty where there is no marker.

    `history` is the file that is compared in, None where there is none.
    """
    shown = snapshot.markers[: -SHOWN_MARKERS - 1 : -1]
    if not shown:
        return ""
    items = "".join(_item(marker, snapshot.target, now, history) for marker in shown)
    key = f"Blue points: since {escape(shown[0].name)}." if snapshot.fitted.points else ""
    return f"<p>Deploy markers: {key}</p><ul>{items}</ul>"


def _item(marker: Marker, target: str, now: float, history: str | None) -> str:
    at = datetime.fromtimestamp(marker.at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    age = words(max(0.0, now - marker.at))
    said = f"<li>{escape(marker.name)}, {at} ({escape(age)} ago)"
    if history is None:
        return f"{said}<br>without a history (history.path) nothing can be compared</li>"
    options = f"--target {shlex.quote(target)} --around {marker.at:.3f}"
    command = f"mysql-headroom compare {shlex.quote(history)} {options}"
    path = "/compare?" + urlencode({"target": target, "around": f"{marker.at:.3f}"})
    link = f'<a href="{escape(path)}">before and after</a>'
    return f"{said}: {link}<br>in a shell: <code>{escape(command)}</code></li>"
