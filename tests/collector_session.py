"""A server over its socket or over TCP, and a collector's session on it."""

from collections.abc import Iterator
from contextlib import contextmanager

from agent.demo.private_server import PrivateServer
from collectors.connection import Connection, Login
from collectors.endpoint import Endpoint
from testbed.real.server_account import least_account


def endpoint_of(server: PrivateServer, way: str) -> Endpoint:
    """Return the server's socket, or its port."""
    return Endpoint(socket=server.socket) if way == "socket" else Endpoint(port=server.port)


@contextmanager
def connected(server: PrivateServer, way: str) -> Iterator[Connection]:
    """Open a session of the least account, as collectors have it, while the block lasts."""
    account = least_account(server)
    connection = Connection(endpoint_of(server, way), lambda: Login(*account), timeout=5, limit=5)
    connection.open()
    try:
        yield connection
    finally:
        connection.close()
