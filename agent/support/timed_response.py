"""HTTP responses that arrive as a whole within the time-out: that of a socket is for each read.

A server that sends a byte now and then, in its headers or after them, would never end a request.
"""

import http.client
import io
import socket
import ssl
import time
import urllib.request
from collections.abc import Callable
from typing import Any


class TimedHTTPHandler(urllib.request.HTTPHandler):
    """Opens URLs with `http:`."""

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Send a request; its response is timed."""
        return self.do_open(_timed(http.client.HTTPConnection), req)


class TimedHTTPSHandler(urllib.request.HTTPSHandler):
    """Opens URLs with `https:`."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._own_context = context

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Send a request; its response is timed."""
        connect = _timed(http.client.HTTPSConnection)
        return self.do_open(connect, req, context=self._own_context)


def _timed(
    connect: Callable[..., http.client.HTTPConnection],
) -> Callable[..., http.client.HTTPConnection]:
    """Return a function that makes the same connections, with timed responses."""

    def connection(*arguments: Any, **options: Any) -> http.client.HTTPConnection:
        made = connect(*arguments, **options)
        made.response_class = _TimedResponse
        return made

    return connection


class _TimedResponse(http.client.HTTPResponse):
    """A response that is read within the socket's time-out, from its first line to its last."""

    def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp = io.BufferedReader(_TimedReader(self.fp.detach(), sock))


class _TimedReader(io.RawIOBase):
    """Reads from a socket for as long, in all, as its time-out was at first."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket) -> None:
        self._raw, self._socket = raw, sock
        self._deadline = time.monotonic() + (sock.gettimeout() or float("inf"))

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read what has arrived; raises TimeoutError once the time is over."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        """Close the socket's file."""
        self._raw.close()
        super().close()
