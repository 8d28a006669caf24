"""Deploy markers over HTTP: list them, and set one by POST; all is in the query string."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from http import HTTPStatus
from urllib.parse import parse_qs

from agent.assessment.markers import Marker, new_marker
from agent.assessment.snapshot import Snapshot
from agent.export.snapshot_json import marker_object
from agent.support.escaping import json_text
from agent.web.answers import Answer, bad_request, busy
from agent.web.handler import TEXT, Environ

MARKERS = "/api/v1/markers"
FIELDS = ("name", "target", "at")
MOST_A_MINUTE = 60
"""Markers set in a minute: a release of many targets fits, and a flood costs little."""
MINUTE = 60.0  # seconds
NO_SUCH_TARGET = (HTTPStatus.NOT_FOUND, TEXT, b"404 no such target\n")


class MarkerRequests:
    """Answers requests for markers; without `mark`, none can be set."""

    def __init__(
        self,
        snapshots: Callable[[], Iterable[Snapshot]],
        clock: Callable[[], float],
        mark: Callable[[Marker], None] | None,
        markers: Callable[[], Iterable[Marker]],
    ) -> None:
        self._snapshots = snapshots
        self._clock = clock
        self._mark = mark
        self._markers = markers
        self._set_at: deque[float] = deque(maxlen=MOST_A_MINUTE)
        self._lock = threading.Lock()

    def answer(self, environ: Environ) -> Answer:
        """Answer one request; a body is never read."""
        try:
            given = _fields(environ.get("QUERY_STRING", ""))
        except ValueError as error:
            return bad_request(str(error))
        target = given.get("target", "")
        snapshots = list(self._snapshots())
        if target and target not in {snapshot.target for snapshot in snapshots}:
            return NO_SUCH_TARGET
        if environ["REQUEST_METHOD"] == "POST":
            return self._set(given, target)
        known = (m for m in self._markers() if not target or m.concerns(target))
        return _json({"markers": [marker_object(marker) for marker in sorted(known)]})

    def _set(self, given: dict[str, str], target: str) -> Answer:
        if self._mark is None:
            return HTTPStatus.FORBIDDEN, TEXT, b"403 no marker can be set here\n"
        now = self._clock()
        try:
            at = float(given.get("at", now))
        except ValueError:
            return bad_request("at: give Unix seconds")
        try:
            marker = new_marker(given.get("name", ""), target, at, now)
        except ValueError as error:
            return bad_request(str(error))
        if not self._has_room():
            return busy(f"{MOST_A_MINUTE} markers were set within a minute")
        self._mark(marker)
        return _json(marker_object(marker))

    def _has_room(self) -> bool:
        """Count one more, unless there were too many within the last minute."""
        now = time.monotonic()
        with self._lock:
            oldest = self._set_at[0] if len(self._set_at) == MOST_A_MINUTE else -math.inf
            if now - oldest < MINUTE:
                return False
            self._set_at.append(now)
        return True


def _fields(query: str) -> dict[str, str]:
    """The fields by name, each once; raises ValueError with what would be right."""
    try:
        found = parse_qs(query, keep_blank_values=True, max_num_fields=len(FIELDS))
    except ValueError:
        raise ValueError(f"more than {len(FIELDS)} fields; give {', '.join(FIELDS)}") from None
    for name, values in found.items():
        if name not in FIELDS:
            raise ValueError(f"{name[:30]}: no such field; give {', '.join(FIELDS)}")
        if len(values) > 1:
            raise ValueError(f"{name}: given twice")
    return {name: values[0] for name, values in found.items()}


def _json(value: object) -> Answer:
    return HTTPStatus.OK, "application/json", json_text(value).encode()
