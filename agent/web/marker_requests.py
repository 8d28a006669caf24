"""Deploy markers over HTTP: list them, or set one by POST; all fields are in the query string."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from http import HTTPStatus

from agent.assessment.deploy_markers import Marker, new_marker
from agent.assessment.snapshot import Snapshot
from agent.export.snapshot_json import marker_object
from agent.support.safe_output import json_text
from agent.web.error_responses import NO_SUCH_TARGET, Response, bad_request, busy
from agent.web.http_request_handler import TEXT, Environ
from agent.web.query_fields import query_fields

MARKERS = "/api/v1/markers"
NO_NAME = "name: missing; give it in the query string, as ?name=release; a request body is ignored"
FIELDS = ("name", "target", "at")
MAX_PER_MINUTE = 60
"""Markers set in a minute: enough for a release of many targets, and a flood costs little."""
MINUTE = 60.0  # seconds


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
        self._set_at: deque[float] = deque(maxlen=MAX_PER_MINUTE)
        self._lock = threading.Lock()

    def answer(self, environ: Environ) -> Response:
        """Answer one request; a body is never read."""
        try:
            given = query_fields(environ.get("QUERY_STRING", ""), FIELDS)
        except ValueError as error:
            return bad_request(str(error))
        target = given.get("target", "")
        snapshots = list(self._snapshots())
        if target and target not in {snapshot.target for snapshot in snapshots}:
            return NO_SUCH_TARGET
        if environ["REQUEST_METHOD"] == "POST":
            return self._set_marker(given, target)
        known = (m for m in self._markers() if not target or m.concerns(target))
        return _json({"markers": [marker_object(marker) for marker in sorted(known)]})

    def _set_marker(self, given: dict[str, str], target: str) -> Response:
        if self._mark is None:
            return HTTPStatus.FORBIDDEN, TEXT, b"403 setting markers is not enabled\n"
        now = self._clock()
        try:
            at = float(given.get("at", now))
        except ValueError:
            return bad_request("at: must be Unix seconds")
        if "name" not in given:
            return bad_request(NO_NAME)
        try:
            marker = new_marker(given["name"], target, at, now)
        except ValueError as error:
            return bad_request(str(error))
        if not self._count_if_allowed():
            return busy(f"{MAX_PER_MINUTE} markers were set within a minute")
        self._mark(marker)
        if marker not in self._markers():
            return bad_request("at: markers of that time are no longer kept; give a later one")
        return _json(marker_object(marker))

    def _count_if_allowed(self) -> bool:
        """Count one more, or return False if too many were set within the last minute."""
        now = time.monotonic()
        with self._lock:
            oldest = self._set_at[0] if len(self._set_at) == MAX_PER_MINUTE else -math.inf
            if now - oldest < MINUTE:
                return False
            self._set_at.append(now)
        return True


def _json(value: object) -> Response:
    return HTTPStatus.OK, "application/json", json_text(value).encode()
