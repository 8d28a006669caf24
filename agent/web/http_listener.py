"""The web server: a thread for each request, bounded in number and in time, under TLS or not."""

import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from socketserver import BaseServer
from typing import Any, cast
from wsgiref.simple_server import WSGIServer

from agent.web.connection_limiter import ConnectionLimiter, ConnectionSlot
from agent.web.pending_connections import HANDSHAKE, PendingConnections
from agent.web.reloading_config import Web
from agent.web.tls import is_allowed
from agent.web.wsgi_handler import MAX_REQUEST_BYTES, Handler

log = logging.getLogger(__name__)

REQUEST_TIMEOUT = 10.0  # seconds for a whole request, from the first byte to the last
MAX_CONNECTIONS = 128  # 66 KiB each under TLS, 25 KiB without
BACKLOG = 1024
"""Connections that the kernel keeps until they are accepted. Those of a crowd come faster:
where there is no room the kernel drops the client's last packet, and it waits for seconds."""
SWEEP_EVERY = 0.05  # seconds
ALLOWANCE = 30.0  # seconds that one turn of the accepting loop may take
LINGER = 1.0  # seconds that a client has to take its answer's end
MAX_UNREAD_BYTES = 262144  # bytes of an unexpected body
MAX_ACCEPTED_PER_SECOND = 400.0
"""Connections a second, on average: a crowd that hangs up and comes again takes no more than a
fifth of a processor, and one of 200 has been accepted after half a second."""
AT_ONCE = 128  # connections that are accepted without a pause
NO_TLS = (
    b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Connection: close\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
)


class WebServer(WSGIServer):
    """Accepts, and does nothing else in the accepting thread: no handshake, no read, no write."""

    request_queue_size = BACKLOG
    name = "web"

    def __init__(self, address: tuple[str, int], web: Callable[[], Web]) -> None:
        host, port = address
        flags = socket.AI_PASSIVE
        try:
            infos = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=flags)
        except UnicodeError:
            raise OSError(f"{host} is not a host name") from None
        self.address_family = infos[0][0]
        self._web = web
        self.places = ConnectionLimiter(MAX_CONNECTIONS, REQUEST_TIMEOUT)
        self._turned_at = self._accept_at = self._sweep_at = time.monotonic()
        self._is_ending, self._is_over = threading.Event(), threading.Event()
        self._waiting = PendingConnections(MAX_REQUEST_BYTES, self._start, self.places.leave)
        super().__init__((host, port), cast("Any", Handler))

    def server_bind(self) -> None:
        """Bind without looking the host's name up."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def server_activate(self) -> None:
        """Listen."""
        super().server_activate()
        self._waiting.listen(self.socket)

    def serve_forever(self, poll_interval: float = 0.5) -> None:
        """Accept, and serve each request once it has arrived, until `shutdown`."""
        try:
            while not self._is_ending.is_set():
                if self._waiting.look(poll_interval):
                    self._accept()
                self.service_actions()
        finally:
            self._is_over.set()

    def shutdown(self) -> None:
        """End that loop and wait for its end."""
        self._is_ending.set()
        self._is_over.wait()

    def service_actions(self) -> None:
        """At every turn of the accepting loop: deadlines."""
        self._turned_at = now = time.monotonic()
        if now >= self._sweep_at:
            self._sweep_at = now + SWEEP_EVERY
            self.places.sweep()

    def hangs(self, now: float) -> bool:
        """Whether the accepting loop stands still, or has ended."""
        return now - self._turned_at > ALLOWANCE

    def process_request(self, request: Any, client_address: Any) -> None:
        """Wait for its request, or hang up where there is no place."""
        place = self.places.enter(request, str(client_address[0]))
        if place is None:
            request.close()
        else:
            self._waiting.add(place)

    def server_close(self) -> None:
        """Listen no more, and hang up on everybody."""
        BaseServer.server_close(self)
        self.socket.close()
        self.places.dismiss_all()
        self._waiting.close()

    def _accept(self) -> None:
        """Accept one connection, at a bounded pace; the kernel keeps those that come faster."""
        now = time.monotonic()
        self._accept_at = (
            max(self._accept_at, now - AT_ONCE / MAX_ACCEPTED_PER_SECOND)
            + 1 / MAX_ACCEPTED_PER_SECOND
        )
        time.sleep(max(0.0, self._accept_at - now))
        with suppress(OSError):  # it has hung up, or we are out of file descriptors
            self.process_request(*self.get_request())

    def _start(self, place: ConnectionSlot) -> None:
        """Serve a request in a thread of its own."""
        try:
            threading.Thread(target=self._serve, args=(place,), name="web", daemon=True).start()
        except RuntimeError:  # the system has no thread for it
            self.places.leave(place)

    def _serve(self, place: ConnectionSlot) -> None:
        try:
            if self._is_secured(place, self._web()):
                Handler(place, (place.host, 0), self)
            _farewell(place.socket)
        except OSError as error:
            log.debug("http: %s disconnected: %s", place.host, error)
        except Exception:
            log.exception("a connection failed")
        finally:
            self.places.leave(place)

    def _is_secured(self, place: ConnectionSlot, web: Web) -> bool:
        """Whether the client may speak on: TLS where it is asked for alone, and an allowed name.

        Raises OSError where the handshake fails.
        """
        place.socket.settimeout(self.places.deadline)
        context, tls = web.context, web.config.tls_server_config
        first = place.socket.recv(1, socket.MSG_PEEK)
        if context is None or tls is None:
            return first != HANDSHAKE
        if first != HANDSHAKE:
            place.socket.sendall(NO_TLS if first else b"")
            return False
        self.places.replace(place, lambda plain: _wrapped(context, plain))
        connection = cast("ssl.SSLSocket", place.socket)
        connection.do_handshake()
        return is_allowed(connection, tls.client_allowed_sans)


def _wrapped(context: ssl.SSLContext, plain: socket.socket) -> ssl.SSLSocket:
    return context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)


def _farewell(connection: socket.socket) -> None:
    """Shut down the connection and read the rest of the request; else the answer could be lost."""
    connection.settimeout(0)
    if isinstance(connection, ssl.SSLSocket):
        with suppress(OSError, ValueError):
            connection.unwrap()
    connection.settimeout(LINGER)
    socket.socket.shutdown(connection, socket.SHUT_WR)
    unread = 0
    while unread < MAX_UNREAD_BYTES and (more := socket.socket.recv(connection, 65536)):
        unread += len(more)
