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
from agent.web.http_request_handler import MAX_REQUEST_BYTES, Handler
from agent.web.pending_connections import HANDSHAKE, PendingConnections
from agent.web.reloading_config import LoadedWebConfig
from agent.web.tls import has_allowed_name

log = logging.getLogger(__name__)

ALL_ADDRESSES = "::"  # of IPv6, and of IPv4 as mapped ones
REQUEST_TIMEOUT = 10.0  # seconds for a whole request, from the first byte to the last
MAX_CONNECTIONS = 128  # 66 KiB each under TLS, 25 KiB without
BACKLOG = 1024
"""Connections that the kernel queues until they are accepted. Many clients at once connect faster:
if the queue is full, the kernel drops a client's last packet, and the client waits for seconds."""
SWEEP_EVERY = 0.05  # seconds
IDLE_SECONDS = 10.0  # seconds of an iteration of the accepting loop without a connection
ALLOWANCE = 30.0  # seconds that one iteration of the accepting loop may take
LINGER = 1.0  # seconds that a client has to read the end of its response
MAX_UNREAD_BYTES = 262144  # bytes of an unexpected body that are read and discarded
MAX_ACCEPTED_PER_SECOND = 400.0
"""Connections a second, on average: clients that disconnect and reconnect take no more than a fifth
of a processor, and 200 clients at once have been accepted after half a second."""
ACCEPT_BURST = 128  # connections that are accepted without a pause
NO_TLS = (
    b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Connection: close\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
)


class WebServer(WSGIServer):
    """HTTP server whose accepting thread only accepts: no handshake, no read, no write.

    It also calls `tidy`: every few seconds, and every half a second after it has returned True.
    """

    request_queue_size = BACKLOG
    name = "web"

    def __init__(
        self,
        address: tuple[str, int],
        web: Callable[[], LoadedWebConfig],
        tidy: Callable[[], bool] = lambda: False,
    ) -> None:
        host, port = address
        if not host and socket.has_dualstack_ipv6():
            host = ALL_ADDRESSES
        flags = socket.AI_PASSIVE
        try:
            infos = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=flags)
        except UnicodeError:
            raise OSError(f"{host} is not a host name") from None
        self.address_family = infos[0][0]
        self._web, self._tidy, self._is_untidy = web, tidy, False
        self.connection_limiter = ConnectionLimiter(MAX_CONNECTIONS, REQUEST_TIMEOUT)
        self._last_iteration_at = self._accept_at = self._sweep_at = time.monotonic()
        self._is_ending, self._is_over = threading.Event(), threading.Event()
        self._pending = PendingConnections(
            MAX_REQUEST_BYTES, self._start_thread, self.connection_limiter.leave
        )
        super().__init__((host, port), cast("Any", Handler))

    def server_bind(self) -> None:
        """Bind without resolving the host's name."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self.server_address[0] == ALL_ADDRESSES:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def server_activate(self) -> None:
        """Listen."""
        super().server_activate()
        self._pending.listen(self.socket)

    def serve_forever(self, poll_interval: float = 0.5) -> None:
        """Accept, and serve each request once it has arrived, until `shutdown`.

        While there are connections their deadlines are checked each `poll_interval` seconds.
        """
        try:
            while not self._is_ending.is_set():
                is_idle = not (self.connection_limiter.count or self._is_untidy)
                seconds = IDLE_SECONDS if is_idle else poll_interval
                if self._pending.poll(seconds):
                    self._accept()
                self.service_actions()
        finally:
            self._is_over.set()

    def shutdown(self) -> None:
        """Stop the accepting loop, and wait for its end."""
        self._is_ending.set()
        with suppress(OSError):  # it is closed already
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes the loop
        self._is_over.wait()

    def service_actions(self) -> None:
        """Enforce the deadlines, and tidy; called in every iteration of the accepting loop."""
        self._last_iteration_at = now = time.monotonic()
        if now >= self._sweep_at:
            self._sweep_at = now + SWEEP_EVERY
            self.connection_limiter.sweep()
            self._is_untidy = self._tidy()

    def is_hanging(self, now: float) -> bool:
        """Return whether the accepting loop hangs or has ended."""
        return now - self._last_iteration_at > ALLOWANCE

    def process_request(self, request: Any, client_address: Any) -> None:
        """Wait for the connection's request, or close it if there is no free slot."""
        slot = self.connection_limiter.enter(request, str(client_address[0]))
        if slot is None:
            request.close()
        else:
            self._pending.add(slot)

    def server_close(self) -> None:
        """Stop listening, and disconnect all clients."""
        BaseServer.server_close(self)
        self.socket.close()
        self.connection_limiter.disconnect_all()
        self._pending.close()

    def _accept(self) -> None:
        """Accept one connection, at a bounded pace; the kernel keeps those that come faster."""
        now = time.monotonic()
        self._accept_at = (
            max(self._accept_at, now - ACCEPT_BURST / MAX_ACCEPTED_PER_SECOND)
            + 1 / MAX_ACCEPTED_PER_SECOND
        )
        time.sleep(max(0.0, self._accept_at - now))
        with suppress(OSError):  # the client has disconnected, or no file descriptor is left
            self.process_request(*self.get_request())

    def _start_thread(self, slot: ConnectionSlot) -> None:
        """Serve a request in a thread of its own."""
        try:
            threading.Thread(target=self._serve, args=(slot,), name="web", daemon=True).start()
        except RuntimeError:  # the system has no thread for it
            self.connection_limiter.leave(slot)

    def _serve(self, slot: ConnectionSlot) -> None:
        try:
            if self._is_admitted(slot, self._web()):
                Handler(slot, (slot.host, 0), self)
            _close_gracefully(slot.socket)
        except OSError as error:
            log.debug("http: %s disconnected: %s", slot.host, error)
        except Exception:
            log.exception("a connection failed")
        finally:
            self.connection_limiter.leave(slot)

    def _is_admitted(self, slot: ConnectionSlot, web: LoadedWebConfig) -> bool:
        """Do the TLS handshake if TLS is configured; return whether the request may be served.

        The client must use TLS if and only if it is configured, and have an allowed name. Raises
        OSError if the handshake fails.
        """
        slot.socket.settimeout(self.connection_limiter.deadline)
        context, tls = web.context, web.config.tls_server_config
        first = slot.socket.recv(1, socket.MSG_PEEK)
        if context is None or tls is None:
            return first != HANDSHAKE
        if first != HANDSHAKE:
            slot.socket.sendall(NO_TLS if first else b"")
            return False
        self.connection_limiter.replace(slot, lambda plain: _wrap_tls(context, plain))
        connection = cast("ssl.SSLSocket", slot.socket)
        connection.do_handshake()
        return has_allowed_name(connection, tls.client_allowed_sans)


def _wrap_tls(context: ssl.SSLContext, plain: socket.socket) -> ssl.SSLSocket:
    return context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)


def _close_gracefully(connection: socket.socket) -> None:
    """Shut down the connection and read the rest of the request, else the response may be lost."""
    connection.settimeout(0)
    if isinstance(connection, ssl.SSLSocket):
        with suppress(OSError, ValueError):
            connection.unwrap()
    connection.settimeout(LINGER)
    socket.socket.shutdown(connection, socket.SHUT_WR)
    unread = 0
    while unread < MAX_UNREAD_BYTES and (more := socket.socket.recv(connection, 65536)):
        unread += len(more)
