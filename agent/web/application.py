"""The ways out over HTTP: metrics, the page, JSON, health, readiness. Nothing waits for MySQL."""

import threading
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from agent.export.page import render
from agent.export.snapshot_json import snapshots_as_json
from agent.snapshot import Snapshot
from agent.web.auth import Doorkeeper, Verdict
from agent.web.file import Web
from agent.web.handler import HEADERS, TEXT
from agent.web.server import WebServer as WebServer

REALM = 'Basic realm="mysql-headroom", charset="UTF-8"'

Environ = dict[str, Any]
StartResponse = Callable[[str, list[tuple[str, str]]], object]
Answer = tuple[HTTPStatus, str, bytes]
Reload = Callable[[], list[str]]
"""Load the configuration anew; answers why it was refused, or nothing."""

RELOAD = "/-/reload"


class Pages:
    """The WSGI application; `snapshots` and `clock` (Unix seconds) are asked at each request.

    Without a `reload`, nobody may ask for one.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        snapshots: Callable[[], Iterable[Snapshot]],
        clock: Callable[[], float],
        reload: Reload | None = None,
    ) -> None:
        self._registry = registry
        self._snapshots = snapshots
        self._clock = clock
        self._reload = reload

    def __call__(self, environ: Environ, start_response: StartResponse) -> list[bytes]:
        """Answer one request (PEP 3333)."""
        status, kind, body = self._answer(environ)
        headers = [("Content-Type", kind), ("Content-Length", str(len(body))), *HEADERS]
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers.append(("Allow", ", ".join(_methods(environ))))
        start_response(f"{status.value} {status.phrase}", headers)
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else body]

    def _answer(self, environ: Environ) -> Answer:
        pages = {
            "/": self._page,
            "/metrics": self._metrics,
            "/api/v1/snapshot": self._snapshot,
            "/-/healthy": self._healthy,
            "/-/ready": self._ready,
            RELOAD: self._reloaded,
        }
        page = pages.get(_path(environ))
        if page is None:
            return HTTPStatus.NOT_FOUND, TEXT, b"404 page not found\n"
        if environ["REQUEST_METHOD"] not in _methods(environ):
            return HTTPStatus.METHOD_NOT_ALLOWED, TEXT, b"405 method not allowed\n"
        return page(environ)

    def _page(self, environ: Environ) -> Answer:
        del environ
        text = render(list(self._snapshots()), self._clock())
        return HTTPStatus.OK, "text/html; charset=utf-8", text.encode()

    def _metrics(self, environ: Environ) -> Answer:
        encode, kind = choose_encoder(environ.get("HTTP_ACCEPT", ""))
        return HTTPStatus.OK, kind, encode(self._registry)

    def _snapshot(self, environ: Environ) -> Answer:
        """All targets, or those that the query names: `?target=NAME`."""
        wanted = parse_qs(environ.get("QUERY_STRING", "")).get("target")
        known = [s for s in self._snapshots() if wanted is None or s.target in wanted]
        if wanted is not None and len(known) < len(set(wanted)):
            return HTTPStatus.NOT_FOUND, TEXT, b"404 no such target\n"
        text = snapshots_as_json(known, self._clock())
        return HTTPStatus.OK, "application/json", text.encode()

    def _healthy(self, environ: Environ) -> Answer:
        del environ
        return HTTPStatus.OK, TEXT, b"mysql-headroom is Healthy.\n"

    def _ready(self, environ: Environ) -> Answer:
        """Ready once every target was tried, whether it was up or down."""
        del environ
        if all(snapshot.health.up is not None for snapshot in self._snapshots()):
            return HTTPStatus.OK, TEXT, b"mysql-headroom is Ready.\n"
        return HTTPStatus.SERVICE_UNAVAILABLE, TEXT, b"Service Unavailable\n"

    def _reloaded(self, environ: Environ) -> Answer:
        """As Prometheus has it: only where that was switched on."""
        del environ
        if self._reload is None:
            return HTTPStatus.FORBIDDEN, TEXT, b"Lifecycle API is not enabled.\n"
        problems = self._reload()
        if problems:
            text = "\n".join(["failed to reload config:", *problems, ""])
            return HTTPStatus.INTERNAL_SERVER_ERROR, TEXT, text.encode()
        return HTTPStatus.OK, TEXT, b""


def _path(environ: Environ) -> str:
    return unquote(environ.get("PATH_INFO", ""))


def _methods(environ: Environ) -> tuple[str, str]:
    return ("POST", "PUT") if _path(environ) == RELOAD else ("GET", "HEAD")


class Guard:
    """Before the pages: lets in whom the web configuration names, and sets its headers."""

    def __init__(self, pages: Pages, web: Callable[[], Web]) -> None:
        self._pages = pages
        self._web = web
        self._doorkeeper = Doorkeeper()

    def __call__(self, environ: Environ, start_response: StartResponse) -> list[bytes]:
        """Answer one request, or have the pages answer it."""
        config = self._web().config
        added = config.http_server_config.headers.as_sent()

        def start(status: str, headers: list[tuple[str, str]]) -> object:
            kept = [(name, text) for name, text in headers if name not in added]
            return start_response(status, [*kept, *added.items()])

        verdict = self._verdict(config.basic_auth_users, environ)
        if verdict is Verdict.WELCOME:
            return self._pages(environ, start)
        return _turned_away(verdict, environ, start)

    def _verdict(self, users: Mapping[str, str], environ: Environ) -> Verdict:
        if not users:
            return Verdict.WELCOME
        header, address = environ.get("HTTP_AUTHORIZATION", ""), environ.get("REMOTE_ADDR", "")
        return self._doorkeeper.verdict(users, header, address)


def _turned_away(verdict: Verdict, environ: Environ, start: StartResponse) -> list[bytes]:
    status, header = HTTPStatus.UNAUTHORIZED, ("WWW-Authenticate", REALM)
    if verdict is Verdict.BUSY:
        status, header = HTTPStatus.TOO_MANY_REQUESTS, ("Retry-After", "1")
    body = f"{status.value} {status.phrase.lower()}\n".encode()
    length = ("Content-Length", str(len(body)))
    start(f"{status.value} {status.phrase}", [("Content-Type", TEXT), length, header, *HEADERS])
    return [b"" if environ["REQUEST_METHOD"] == "HEAD" else body]


def serve(address: tuple[str, int], pages: Pages, web: Callable[[], Web] = Web) -> WebServer:
    """Listen and serve in the background; raises OSError when the address cannot be had.

    `web` is asked at each connection for the web configuration in force.
    """
    server = WebServer(address, web)
    server.set_app(Guard(pages, web))
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="web", daemon=True
    ).start()
    return server
