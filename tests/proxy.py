"""A TCP proxy in front of a server that can delay, trickle, stall, reset and refuse."""

import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

BLOCK = 65536
AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: the end of a connection is a reset


@dataclass(eq=False)
class Pair:
    """One connection: the client's socket and the server's."""

    client: socket.socket
    server: socket.socket
    over: threading.Event = field(default_factory=threading.Event)

    def end(self, *, by_reset: bool = False) -> None:
        """Wake whoever reads from either; the sockets are closed by the thread that serves them."""
        self.over.set()
        for end in (self.client, self.server):
            with suppress(OSError):
                if by_reset:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
                end.shutdown(socket.SHUT_RD if by_reset else socket.SHUT_RDWR)


class Proxy:
    """Passes on what comes for `port`; its own port is `port` of the proxy.

    `delay` seconds go by before each piece of an answer, `piece` bytes at a time; while it is
    `silent` nothing passes, in neither direction, and connections are still taken.
    """

    def __init__(self, behind: int) -> None:
        self.delay = 0.0
        self.piece = BLOCK
        self.silent = threading.Event()
        self.taken = 0  # connections, in all
        self._behind = behind
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self._listener.getsockname()[1])
        self._pairs: set[Pair] = set()
        self._threads: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._accept)

    def __enter__(self) -> Self:
        """Begin to pass things on."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Hang up on everybody, and wait until all is over."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for pair in list(self._pairs):
            pair.end()
        for thread in self._threads:
            thread.join()

    def reset(self) -> None:
        """Reset every connection."""
        for pair in list(self._pairs):
            pair.end(by_reset=True)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.taken += 1
            try:
                server = socket.create_connection(("127.0.0.1", self._behind), 5)
            except OSError:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
                client.close()
                continue
            server.settimeout(None)
            pair = Pair(client, server)
            self._pairs.add(pair)
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            self._threads.append(threading.Thread(target=self._serve, args=[pair]))
            self._threads[-1].start()

    def _serve(self, pair: Pair) -> None:
        questions = threading.Thread(target=self._pass, args=(pair, pair.client, pair.server))
        questions.start()
        self._pass(pair, pair.server, pair.client)
        questions.join()
        self._pairs.discard(pair)
        pair.client.close()
        pair.server.close()

    def _pass(self, pair: Pair, source: socket.socket, to: socket.socket) -> None:
        is_answer = source is pair.server
        with suppress(OSError):
            while data := source.recv(self.piece if is_answer else BLOCK):
                while self.silent.is_set() and not pair.over.is_set():
                    pair.over.wait(0.02)
                if is_answer and self.delay:
                    pair.over.wait(self.delay)
                to.sendall(data)
        if not pair.over.is_set():
            pair.end()
