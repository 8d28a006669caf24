"""The HTTP routes: metrics, the page, JSON, health, readiness. None waits for MySQL.

What only the page, a comparison or a what-if question needs is loaded at the first request for it:
an agent that is only scraped does without.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from prometheus_client import CollectorRegistry

from agent.assessment.deploy_markers import Marker
from agent.assessment.snapshot import Snapshot
from agent.export.metrics_text import encode_metrics
from agent.export.snapshot_json import snapshots_as_json
from agent.export.target_group_json import groups_as_json
from agent.groups.group_monitor import GroupState
from agent.support.safe_output import json_text
from agent.web.access_middleware import AccessControl
from agent.web.compare_paths import COMPARE, COMPARE_PAGE
from agent.web.compressed_body import Body
from agent.web.cross_site import HostNames
from agent.web.error_responses import NO_SUCH_TARGET, Response, bad_request, busy
from agent.web.http_listener import WebServer
from agent.web.http_request_handler import (
    RETRY_AFTER,
    SECURITY_HEADERS,
    TEXT,
    Environ,
    StartResponse,
)
from agent.web.marker_requests import MARKERS, MarkerRequests
from agent.web.query_fields import query_fields, refuse_unknown
from agent.web.reloading_config import LoadedWebConfig
from agent.web.shared_responses import SerialExecution, SharedResponses

if TYPE_CHECKING:
    from agent.web.compare_requests import CompareAround, CompareRequests

RouteResponse = tuple[HTTPStatus, str, bytes | Body]
"""A response; one that is shared with other requests is compressed once for all of them."""
Reload = Callable[[], list[str]]
"""Loads the configuration again; returns why it was refused, or an empty list."""

RELOAD = "/-/reload"
METHODS = {RELOAD: ("POST", "PUT"), MARKERS: ("GET", "HEAD", "POST")}
"""Allowed methods of the paths that change something; all others are read with GET or HEAD."""
WHAT_IF = "/api/v1/what-if"
MAX_FIELDS = 40  # of a query string
MAX_NAMED = 10  # targets in a message
RELOAD_PAUSE = 3.0  # times a reload's duration: a flood of them takes at most a quarter of the time
MIN_RELOAD_SECONDS = 1.0
"""Minimum seconds between two reloads: a quarter of the time is too much of an interpreter that all
targets and pages share. With 56 targets a flood of reloads used it for 28 % of the time."""
JSON = "application/json"
HTML = "text/html; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text"
OPEN_METRICS_TYPE = f"{OPEN_METRICS}; version=1.0.0; charset=utf-8; escaping=underscores"
PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Pages:
    """The WSGI application; `snapshots` and `clock` (Unix seconds) are called at each request.

    Without a `reload`, requests for one are rejected.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        snapshots: Callable[[], Iterable[Snapshot]],
        clock: Callable[[], float],
        reload: Reload | None = None,
        mark: Callable[[Marker], None] | None = None,
        groups: Callable[[], Sequence[GroupState]] = tuple,
        markers: Callable[[], Sequence[Marker]] = tuple,
        history: str | None = None,
        compare: "CompareAround | None" = None,
    ) -> None:
        self._registry = registry
        self._snapshots = snapshots
        self._groups = groups
        self._history = history
        self._clock = clock
        self._reload = reload
        self._markers = MarkerRequests(snapshots, clock, mark, markers)
        self._reload_lock = threading.Lock()
        self._turns = SerialExecution()
        self._page_turns = SerialExecution()  # a page that reloads does not wait for comparisons
        self._compare = compare
        self._next_reload_at = -math.inf
        self._shared = SharedResponses()

    def __call__(self, environ: Environ, start_response: StartResponse) -> list[bytes]:
        """Answer one request (PEP 3333)."""
        status, kind, given = self._answer(environ)
        whole = given if isinstance(given, Body) else Body(given)
        body, encoding = whole.encoded(environ.get("HTTP_ACCEPT_ENCODING", ""))
        length = ("Content-Length", str(len(body)))
        headers = [("Content-Type", kind), length, *encoding, *SECURITY_HEADERS]
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers.append(("Allow", ", ".join(_methods(environ))))
        if status is HTTPStatus.TOO_MANY_REQUESTS:
            headers.append(RETRY_AFTER)
        start_response(f"{status.value} {status.phrase}", headers)
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else body]

    def delete_stale(self) -> bool:
        """Delete the responses that no request gets again; return whether one is kept still."""
        return self._shared.delete_stale()

    def _answer(self, environ: Environ) -> RouteResponse:
        pages: dict[str, Callable[[Environ], RouteResponse]] = {
            "/": self._page,
            "/metrics": self._metrics,
            "/api/v1/snapshot": self._snapshot,
            "/api/v1/groups": self._groups_json,
            WHAT_IF: self._what_if,
            MARKERS: self._markers.answer,
            COMPARE: lambda environ: self._compare_requests().json(environ),
            COMPARE_PAGE: lambda environ: self._compare_requests().page(environ),
            "/-/healthy": self._healthy,
            "/-/ready": self._ready,
            RELOAD: self._reload_config,
        }
        page = pages.get(_path(environ))
        if page is None:
            return HTTPStatus.NOT_FOUND, TEXT, b"404 page not found\n"
        if environ["REQUEST_METHOD"] not in _methods(environ):
            return HTTPStatus.METHOD_NOT_ALLOWED, TEXT, b"405 method not allowed\n"
        return page(environ)

    def _page(self, environ: Environ) -> RouteResponse:
        """Return the page of all targets or, by `?target=NAME`, of one.

        The browser reloads it, unless the query has `refresh=no`.
        """
        from agent.export.page import STILL, render

        still, no = STILL
        try:
            given = query_fields(environ.get("QUERY_STRING", ""), ("target", still))
        except ValueError as error:
            return bad_request(str(error))
        if given.get(still, no) != no:
            return bad_request(f"{still}: the only value is {no}")
        reloads = still not in given
        if "target" in given:
            return self._target_page(given["target"], reloads=reloads)

        def page() -> bytes:
            snapshots, groups, now = list(self._snapshots()), self._groups(), self._clock()
            return render(snapshots, now, groups, self._history, reloads=reloads).encode()

        name = "page" if reloads else "page without reload"
        return HTTPStatus.OK, HTML, self._shared.get(name, page)

    def _target_page(self, target: str, *, reloads: bool) -> Response:
        from agent.export.page import render_target

        known = next((s for s in self._snapshots() if s.target == target), None)
        if known is None:
            return NO_SUCH_TARGET

        def page() -> Response:
            text = render_target(known, self._clock(), self._history, reloads=reloads)
            return HTTPStatus.OK, HTML, text.encode()

        return self._page_turns.run(page)

    def _metrics(self, environ: Environ) -> RouteResponse:
        """Return the metrics in one of two formats, whatever further ones a client accepts.

        Each costs one more response, which is kept: clients must not be able to multiply them.
        """
        accepted = environ.get("HTTP_ACCEPT", "").split(",")
        is_open = any(map(_is_open_metrics, accepted))
        kind = OPEN_METRICS_TYPE if is_open else PROMETHEUS_TYPE
        text = self._shared.get(kind, lambda: encode_metrics(self._registry, open_metrics=is_open))
        return HTTPStatus.OK, kind, text

    def _snapshot(self, environ: Environ) -> RouteResponse:
        """Return the snapshots of all targets, or of those that the query names: `?target=NAME`."""
        query = environ.get("QUERY_STRING", "")
        fields = parse_qs(query, keep_blank_values=True)
        try:
            refuse_unknown(fields, ("target",))
        except ValueError as error:
            return bad_request(str(error))
        wanted = fields.get("target")
        if wanted is None:
            body = self._shared.get("snapshot", lambda: self._snapshots_json(self._snapshots()))
            return HTTPStatus.OK, JSON, body
        known = [snapshot for snapshot in self._snapshots() if snapshot.target in wanted]
        if len(known) < len(set(wanted)):
            return NO_SUCH_TARGET
        return self._turns.run(lambda: (HTTPStatus.OK, JSON, self._snapshots_json(known)))

    def _snapshots_json(self, snapshots: Iterable[Snapshot]) -> bytes:
        return snapshots_as_json(snapshots, self._clock()).encode()

    def _groups_json(self, environ: Environ) -> RouteResponse:
        """Return all groups of targets."""
        del environ

        def groups() -> bytes:
            return groups_as_json(self._groups(), self._clock()).encode()

        return HTTPStatus.OK, JSON, self._shared.get("groups", groups)

    def _what_if(self, environ: Environ) -> Response:
        """Predict one target after changes: `?target=NAME&cpu_speed=2&query=DIGEST=0.5`."""
        try:
            fields = parse_qs(
                environ.get("QUERY_STRING", ""), keep_blank_values=True, max_num_fields=MAX_FIELDS
            )
        except ValueError:
            return bad_request(f"the query string has more than {MAX_FIELDS} fields")
        names, snapshots = fields.pop("target", []), list(self._snapshots())
        known = [s for s in snapshots if not names or s.target in names]
        if not known:
            return NO_SUCH_TARGET
        if len(known) > 1 or len(names) > 1:
            there = _names_text([s.target for s in snapshots])
            return bad_request(f"target: give the name of one target; known are {there}")
        return self._turns.run(lambda: self._what_if_response(known[0], fields))

    def _what_if_response(self, known: Snapshot, fields: Mapping[str, list[str]]) -> Response:
        from agent.what_if.answer_json import answer
        from agent.what_if.question import QuestionError, parse_question

        try:
            text = json_text(answer(known, parse_question(fields), self._clock()))
        except QuestionError as error:
            return bad_request(str(error))
        return HTTPStatus.OK, JSON, text.encode()

    def _compare_requests(self) -> "CompareRequests":
        from agent.web.compare_requests import CompareRequests

        return CompareRequests(self._snapshots, self._compare, self._turns)

    def _healthy(self, environ: Environ) -> Response:
        del environ
        return HTTPStatus.OK, TEXT, b"mysql-headroom is Healthy.\n"

    def _ready(self, environ: Environ) -> Response:
        """Return 200 once every target was tried, whether it was up or down, and 503 before."""
        del environ
        if all(snapshot.health.up is not None for snapshot in self._snapshots()):
            return HTTPStatus.OK, TEXT, b"mysql-headroom is Ready.\n"
        return HTTPStatus.SERVICE_UNAVAILABLE, TEXT, b"Service Unavailable\n"

    def _reload_config(self, environ: Environ) -> Response:
        """Reload the configuration, as Prometheus does: only if enabled. One at a time, else 429.

        Each waits for the main thread; many waiting requests would leave scrapers no connection.
        """
        del environ
        if self._reload is None:
            return HTTPStatus.FORBIDDEN, TEXT, b"Lifecycle API is not enabled.\n"
        if not self._reload_lock.acquire(blocking=False):
            return busy("a reload is in progress")
        try:
            started = time.monotonic()
            if started < self._next_reload_at:
                return busy("the configuration was loaded a moment ago")
            problems = self._reload()
            ended = time.monotonic()
            self._next_reload_at = ended + max(RELOAD_PAUSE * (ended - started), MIN_RELOAD_SECONDS)
        finally:
            self._reload_lock.release()
        return _reload_response(problems)


def _reload_response(problems: list[str]) -> Response:
    if problems:
        text = "\n".join(["failed to reload config:", *problems, ""])
        return HTTPStatus.INTERNAL_SERVER_ERROR, TEXT, text.encode()
    return HTTPStatus.OK, TEXT, b""


def _names_text(names: list[str]) -> str:
    """Return the names in their order; of many the first ones, and how many more there are."""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(sorted(names)[:MAX_NAMED]) + more


def _is_open_metrics(media_range: str) -> bool:
    """Return whether a media range is OpenMetrics, of version 1.0.0 or of no stated version."""
    kind, *parameters = (part.strip() for part in media_range.split(";"))
    versions = [text for text in parameters if text.startswith("version=")]
    return kind == OPEN_METRICS and versions in ([], ["version=1.0.0"])


def _path(environ: Environ) -> str:
    """Return the path as sent: no route needs escapes, so a path with an escape matches none."""
    return str(environ.get("PATH_INFO", ""))


def _methods(environ: Environ) -> tuple[str, ...]:
    return METHODS.get(_path(environ), ("GET", "HEAD"))


def serve_in_background(
    address: tuple[str, int],
    pages: Pages,
    web: Callable[[], LoadedWebConfig] = LoadedWebConfig,
    hosts: Iterable[str] = (),
) -> WebServer:
    """Listen and serve in the background; raises OSError if the address is not available.

    `web` returns the web configuration in force, and is called at each connection. `hosts` are host
    names that requests may use, beside those that the agent knows.
    """
    server = WebServer(address, web, pages.delete_stale)
    server.set_app(AccessControl(pages, web, HostNames(hosts, listen=address[0])))
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.5}, name="web", daemon=True
    ).start()
    return server
