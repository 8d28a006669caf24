"""Attacks on the agent's pages, all at once, from a process of low priority.

    python testbed/attacks/web_attacks.py PORT [AUTHORIZATION]

runs them until its input ends; with that header, reloads, Accept headers and paths come from a user
whose password is right. Their pace is bounded, and lower where the agent answers slowly:

| attack | at most |
|---|---|
| 200 connections that send nothing, or a byte a second that never make a request | 100 a second |
| ten reloads at a time, half of them with a foreign Host or Origin | 20 requests a second |
| wrong passwords from 40 addresses | 20 a second |
| headers of 20 KB, of 1 MB, and 200 of them | 6 a second |
| smuggled requests, malformed request lines, TLS and random bytes | 20 a second |
| malformed headers Accept and Accept-Encoding | 10 a second |
| paths with escapes, doubled slashes and dots | 10 a second |
| clients that hang up at once, or without reading what they asked for | 10 a second |
"""

import base64
import itertools
import json
import random
import select
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

HELD = 200  # half-open connections
OPENED_AT_ONCE = 100  # of them, a second
PATIENCE = 5.0  # seconds that an attacker waits for an answer
BEGINNINGS = (b"", b"GET /metrics HTTP/1.1\r\nHost: a\r\nX: ", b"POST /-/reload", b"\x16\x03\x01")
RESET = b"\1\0\0\0\0\0\0\0"  # SO_LINGER: hang up by a reset
ACCEPTS = (
    "text/plain;version=abc",
    "text/plain;version=" + "9" * 400,
    "application/openmetrics-text; version=1.0.0;version=",
    ";;;,,,=;q=x",
    "gzip;q=" + "9" * 400,
    "gzip," * 3000,
    "\xff\xfe",
    "a," * 4000,
)
PATHS = (
    "/%252d/reload",
    "/%2d/reload",
    "//-/reload",
    "/./-/reload",
    "/x/../-/reload",
    "/-/reload%00",
    "/..%2f..%2fetc/passwd",
    "/api/v1/what-if?" + "a=1&" * 100,
    "/api/v1/snapshot?target=%ff%00",
)
SMUGGLED = (
    b"GET / HTTP/1.1\r\nContent-Length: 40\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    b"POST /-/reload HTTP/1.1\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\n\r\nPOST /-/reload HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\n folded: b\r\n\r\n",
    b"GET / HTTP/1.1\nHost: a\n\n",
    b"GET /\x00 HTTP/1.1\r\n\r\n",
    b"GET  /metrics  HTTP/9.9\r\n\r\n",
    b"\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200) + b"\r\n\r\n",
)

LOGIN = {"Authorization": sys.argv[2]} if __name__ == "__main__" and sys.argv[2:] != [""] else {}

Tally = Counter[str]


@contextmanager
def attacking(port: int, authorization: str) -> Iterator[Tally]:
    """Attack while the block runs; the tally then has the responses, by attack and status.

    The body begins when connections are held and all attacks run, however late that is. The
    attackers end by themselves when their input ends, as it does when this process is gone.
    """
    own = (sys.executable, str(Path(__file__).resolve()), str(port), authorization)
    words = ("nice", "-n", "10", *own)
    tally: Tally = Counter()
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield tally
            said, _ = process.communicate(timeout=6 * PATIENCE)
            tally.update(json.loads(said))
        finally:
            process.kill()


def request(path: str = "/", method: str = "GET", **headers: str) -> bytes:
    """Build a complete request."""
    fields = {"Host": "localhost", **LOGIN, **headers}
    lines = "".join(f"{name}: {text}\r\n" for name, text in fields.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")


def passwords() -> Iterator[tuple[str, bytes]]:
    """Yield requests with another password each time, from one address after the other."""
    for number in itertools.count():
        guess = base64.b64encode(f"prometheus:{number}".encode()).decode()
        yield f"127.0.1.{number % 40 + 1}", request("/metrics", Authorization=f"Basic {guess}")


def reloads() -> Iterator[tuple[str, bytes]]:
    """Yield reload requests, half of them cross-site or under a foreign host name."""
    kinds: tuple[dict[str, str], ...] = (
        {},
        {"Origin": "http://elsewhere.example"},
        {},
        {"Host": "elsewhere.example"},
    )
    for headers in itertools.cycle(kinds):
        yield "127.0.0.1", request("/-/reload", "POST", **headers)


def headers() -> Iterator[tuple[str, bytes]]:
    """Yield requests with headers that are too long, far too long, or too many."""
    many = b"".join(b"X-%d: a\r\n" % number for number in range(200))
    begin = b"GET /metrics HTTP/1.1\r\n"
    for text in itertools.cycle((b"X: " + b"a" * 20_000, b"X: " + b"a" * 1_000_000, many)):
        yield "127.0.0.1", begin + text + b"\r\n\r\n"


def malformed() -> Iterator[tuple[str, bytes]]:
    """Yield malformed requests: two in one, invalid lines, other protocols, no bytes."""
    dice = random.Random(1)
    for number in itertools.count():
        known = SMUGGLED[number % len(SMUGGLED)]
        yield "127.0.0.1", known if number % 4 else dice.randbytes(300) + b"\r\n\r\n"


def accepts() -> Iterator[tuple[str, bytes]]:
    """Yield the headers that choose a format and an encoding, with a known one and with none."""
    for name, text in itertools.cycle(itertools.product(("Accept", "Accept-Encoding"), ACCEPTS)):
        yield "127.0.0.1", request("/metrics", **{name: text})


def paths() -> Iterator[tuple[str, bytes]]:
    """Yield other spellings of a path."""
    for path, method in itertools.cycle(itertools.product(PATHS, ("POST", "GET"))):
        yield "127.0.0.1", request(path, method)


def rude(port: int, stop: threading.Event) -> None:
    """Disconnect without reading, ten times a second."""
    for begun in itertools.cycle((b"", b"GET", request("/metrics"))):
        if stop.wait(0.1):
            return
        with suppress(OSError), connected(port) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            client.sendall(begun)


FLOODS: dict[str, tuple[Callable[[], Iterator[tuple[str, bytes]]], float, int]] = {
    "password": (passwords, 20.0, 4),
    "reload": (reloads, 20.0, 10),
    "header": (headers, 6.0, 2),
    "malformed": (malformed, 20.0, 2),
    "accept": (accepts, 10.0, 2),
    "path": (paths, 10.0, 2),
}
"""By name: what is sent from where, how often a second, by how many clients."""


def connected(port: int, source: str = "127.0.0.1") -> socket.socket:
    """Connect from one of the loopback addresses."""
    return socket.create_connection(("127.0.0.1", port), PATIENCE, source_address=(source, 0))


def flood(name: str, port: int, tally: Tally, stop: threading.Event) -> list[threading.Thread]:
    """Send one kind of request by this many clients, each of which waits for the response."""
    kind, pace, clients = FLOODS[name]
    sent, lock = kind(), threading.Lock()

    def come() -> None:
        while not stop.wait(clients / pace):
            with lock:
                source, message = next(sent)
            status = "none"
            with suppress(OSError), connected(port, source) as client:
                client.sendall(message)
                status = client.recv(65536)[9:12].decode("latin-1") or "none"
            with lock:
                tally[f"{name} {status}"] += 1

    return [threading.Thread(target=come) for _ in range(clients)]


def hold(port: int, tally: Tally, stop: threading.Event, held_once: threading.Event) -> None:
    """Keep connections open without a request, and reopen those that are closed.

    The event is set when the first have been opened.
    """
    held: dict[int, socket.socket] = {}
    beginnings = itertools.cycle(BEGINNINGS)
    while not stop.wait(1.0):
        for number in select.select(list(held), [], [], 0)[0]:  # they are hung up on
            held.pop(number).close()
            tally["held hung up"] += 1
        for client in held.values():
            with suppress(OSError):
                client.send(b"x")
        for _ in range(min(OPENED_AT_ONCE, HELD - len(held))):
            with suppress(OSError):
                client = connected(port)
                held[client.fileno()] = client
                client.sendall(next(beginnings))
        tally["held at most"] = max(tally["held at most"], len(held))
        held_once.set()
    for client in held.values():
        client.close()


def main() -> None:
    """Attack until standard input ends; print the tally as JSON."""
    port, tally = int(sys.argv[1]), Counter[str]()
    stop, held_once = threading.Event(), threading.Event()
    threads = [
        threading.Thread(target=hold, args=(port, tally, stop, held_once)),
        threading.Thread(target=rude, args=(port, stop)),
    ]
    for name in FLOODS:
        threads += flood(name, port, tally, stop)
    for thread in threads:
        thread.start()
        time.sleep(0.01)
    held_once.wait()
    print("begun", flush=True)
    sys.stdin.read()
    stop.set()
    for thread in threads:
        thread.join()
    print(json.dumps(tally))


if __name__ == "__main__":
    main()
