"""The web server: a thread for each connection, bounded in number and in time, under TLS or not."""

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

from agent.web.file import Web
from agent.web.handler import Handler
from agent.web.places import Place, Places
from agent.web.tls import is_allowed

log = logging.getLogger(__name__)

REQUEST_TIMEOUT = 10.0  # seconds for a whole request, from the first byte to the last
MAX_CONNECTIONS = 128  # 66 KiB each under TLS, 25 KiB without
BACKLOG = 1024
"""Connections that the kernel keeps until they are accepted. Those of a crowd come faster:
where there is no room the kernel drops the client's last packet, and it waits for seconds."""
ALLOWANCE = 30.0  # seconds that one turn of the accepting loop may take
LINGER = 1.0  # seconds that a client has to take its answer's end
MOST_UNREAD = 262144  # bytes of a body that nobody asked for
HANDSHAKE = b"\x16"  # how a TLS record begins; no HTTP request does
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
            raise OSError(f"{host} is no host name") from None
        self.address_family = infos[0][0]
        self._web = web
        self.places = Places(MAX_CONNECTIONS, REQUEST_TIMEOUT)
        self._turned_at = time.monotonic()
        super().__init__((host, port), cast("Any", Handler))

    def server_bind(self) -> None:
        """Bind without looking the host's name up."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def service_actions(self) -> None:
        """At every turn of the accepting loop: deadlines."""
        self._turned_at = time.monotonic()
        self.places.sweep()

    def hangs(self, now: float) -> bool:
        """Whether the accepting loop stands still, or has ended."""
        return now - self._turned_at > ALLOWANCE

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve in a thread of its own, or hang up where there is no place."""
        place = self.places.enter(request, str(client_address[0]))
        if place is None:
            request.close()
            return
        arguments = (place, client_address)
        try:
            threading.Thread(target=self._serve, args=arguments, name="web", daemon=True).start()
        except RuntimeError:  # the system has no thread for it
            self.places.leave(place)

    def server_close(self) -> None:
        """Listen no more, and hang up on everybody."""
        BaseServer.server_close(self)
        self.socket.close()
        self.places.dismiss_all()

    def _serve(self, place: Place, address: Any) -> None:
        try:
            if self._is_secured(place, self._web()):
                Handler(place, address, self)
            _farewell(place.socket)
        except OSError as error:
            log.debug("http: %s broke off: %s", address[0], error)
        except Exception:
            log.exception("a connection failed")
        finally:
            self.places.leave(place)

    def _is_secured(self, place: Place, web: Web) -> bool:
        """Whether the client may speak on: TLS where it is asked for, and a name that is allowed.

        Raises OSError where the handshake fails.
        """
        place.socket.settimeout(self.places.deadline)
        context, tls = web.context, web.config.tls_server_config
        if context is None or tls is None:
            return True
        if (first := place.socket.recv(1, socket.MSG_PEEK)) != HANDSHAKE:
            place.socket.sendall(NO_TLS if first else b"")
            return False
        self.places.replace(place, lambda plain: _wrapped(context, plain))
        connection = cast("ssl.SSLSocket", place.socket)
        connection.do_handshake()
        return is_allowed(connection, tls.client_allowed_sans)


def _wrapped(context: ssl.SSLContext, plain: socket.socket) -> ssl.SSLSocket:
    return context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)


def _farewell(connection: socket.socket) -> None:
    """Say that it is over, and take what is still coming: else the answer could be lost."""
    connection.settimeout(0)
    if isinstance(connection, ssl.SSLSocket):
        with suppress(OSError, ValueError):
            connection.unwrap()
    connection.settimeout(LINGER)
    socket.socket.shutdown(connection, socket.SHUT_WR)
    unread = 0
    while unread < MOST_UNREAD and (more := socket.socket.recv(connection, 65536)):
        unread += len(more)
