"""A client on another host, and a statement whose answer fills the link to it."""

import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from agent.demo.private_server import PrivateServer
from testbed.real.clients import Ask, session_over
from testbed.real.namespaces import OtherHost

STATEMENT = "SELECT REPEAT('x', 10000)"

GUEST = secrets.token_hex(8)


@contextmanager
def session_from(there: OtherHost, server: PrivateServer) -> Iterator[Ask]:
    """Open a session from the other host, to which this thread moves for that."""
    there.enter()
    with (
        socket.create_connection((there.ours, server.port), timeout=10) as sock,
        session_over(sock, "guest", GUEST) as ask,
    ):
        yield ask
