"""One HTTP request: read within limits, and answered by a WSGI application."""

import logging
import sys
from collections.abc import Callable
from http import HTTPStatus
from http.client import LineTooLong
from io import BufferedIOBase, BytesIO
from typing import Any, cast
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer

from agent.web.connection_limiter import ConnectionSlot

log = logging.getLogger(__name__)

SERVER_NAME = "mysql-headroom"  # sent instead of the names and versions of Python and its library
MAX_REQUEST_BYTES = 16384  # bytes: the request line and all headers, of which there may be 100
TEXT = "text/plain; charset=utf-8"
WAIT_KEY = "mysql_headroom.wait"
"""Key of the WSGI environ for a function that waits for some seconds, or until the connection is
closed."""
RETRY_AFTER = ("Retry-After", "1")
SECURITY_HEADERS = (
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
)

Environ = dict[str, Any]
StartResponse = Callable[[str, list[tuple[str, str]]], object]


class Handler(WSGIRequestHandler):
    """Reads one request; a body is never read."""

    server_version, sys_version = SERVER_NAME, ""
    default_request_version = "HTTP/1.0"  # older ones had no headers
    disable_nagle_algorithm = True

    def __init__(self, slot: ConnectionSlot, address: Any, server: WSGIServer) -> None:
        self._slot = slot
        super().__init__(slot.socket, address, server)

    def setup(self) -> None:
        """Limit the size of the request."""
        super().setup()
        self.rfile = cast("BufferedIOBase", _BoundedReader(self.rfile, MAX_REQUEST_BYTES))

    def handle(self) -> None:
        """Read the request and answer it."""
        self.requestline, self.request_version, self.command = "", "HTTP/1.0", ""
        try:
            self.raw_requestline = self.rfile.readline()
        except LineTooLong:
            self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)
            return
        if not self.raw_requestline or not self.parse_request():
            return
        self._slot.is_request_read = True
        server: Any = self.server
        runner = _ApplicationRunner(
            BytesIO(), cast("Any", self.wfile), sys.stderr, self.get_environ()
        )
        runner.request_handler = self
        runner.run(server.get_app())

    def get_environ(self) -> Environ:
        """Return the request for the application; its path is as sent, byte for byte.

        Decoded or normalised, it could evade a proxy's rule for the path.
        """
        target = self.requestline.split()[1]
        path = target.partition("?")[0]
        return {**super().get_environ(), "PATH_INFO": path, WAIT_KEY: self._slot.disconnected.wait}

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer an invalid request, without quoting it."""
        del message, explain
        body = f"{code} {HTTPStatus(code).phrase.lower()}\n".encode()
        self.send_response(code, HTTPStatus(code).phrase)
        self.send_header("Content-Type", TEXT)
        self.send_header("Content-Length", str(len(body)))
        for name, text in SECURITY_HEADERS:
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log a request without its query string, which may contain a secret."""
        del size
        self.log_message("%s %s", self.requestline.partition("?")[0], code)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the base's name)
        """Log at the debug level only."""
        log.debug("http: " + format, *args)

    def address_string(self) -> str:
        """Return the client's address; names are not resolved."""
        return str(self.client_address[0])


class _ApplicationRunner(ServerHandler):
    """Runs the application; logs its failures, but not those of clients."""

    request_handler: Handler
    server_software = SERVER_NAME
    os_environ: dict[str, str] = {}  # noqa: RUF012  (the base's)
    error_status = "500 Internal Server Error"
    error_headers = [("Content-Type", TEXT), *SECURITY_HEADERS]  # noqa: RUF012
    error_body = b"500 internal server error\n"

    def log_exception(self, exc_info: Any) -> None:
        """Log a failure; only at the debug level where a client has disconnected."""
        if isinstance(exc_info[1], OSError):
            log.debug("a client disconnected", exc_info=exc_info)
        else:
            log.error("a request failed", exc_info=exc_info)


class _BoundedReader:
    """A file that raises `LineTooLong` after a number of bytes."""

    def __init__(self, file: Any, left: int) -> None:
        self._file = file
        self._left = left

    def readline(self, size: int = -1) -> bytes:
        del size
        line: bytes = self._file.readline(self._left + 1)
        self._left -= len(line)
        if self._left < 0:
            raise LineTooLong("request")
        return line

    def close(self) -> None:
        self._file.close()
