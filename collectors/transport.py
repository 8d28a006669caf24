"""How a session crosses the network: TLS, who was verified, and what nobody may be told.

Over a socket file, over loopback and within this machine nobody stands in between. Elsewhere TLS
keeps listeners out, and only a verified certificate keeps out who poses as the server:
caching_sha2_password hands the password itself to the other end of TLS, and without TLS encrypts it
with whatever key the other end sends.
https://dev.mysql.com/doc/refman/en/caching-sha2-pluggable-authentication.html
"""

import ipaddress
import socket
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from collectors.base import CollectorError, FailureKind, Feature
from collectors.driver import pymysql

if TYPE_CHECKING:
    from pymysql.cursors import Cursor

    Library = pymysql.Connection[Cursor]
else:
    Library = pymysql.connections.Connection

PLAIN_PLUGINS = (b"mysql_clear_password", b"dialog")  # they send the password as it is
USE_TLS = "set tls.ca, the authority that signed the server's certificate"
GIVE_TLS = f"give the server a certificate (ssl_cert and ssl_key in its my.cnf), then {USE_TLS}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a server listens: a socket file, or a host and a port with or without TLS."""

    host: str = "127.0.0.1"
    port: int = 3306
    socket: str | None = None
    tls_ca: str | None = None
    tls_verify_identity: bool = False
    tls_required: bool = False

    def __str__(self) -> str:
        """The address as a person writes it."""
        return self.socket or f"{self.host}:{self.port}"


class Session(Library):
    """The library's connection, which tells its password in the clear to a verified peer alone."""

    def _process_auth(self, plugin_name: bytes, *rest: Any) -> Any:
        """Answer the server's wish for another way to authenticate."""
        if plugin_name in PLAIN_PLUGINS and not is_trusted(self._sock):  # type: ignore[attr-defined]
            raise CollectorError(
                FailureKind.UNTRUSTED,
                f"the server asks for the password in the clear ({plugin_name.decode()}), which is"
                " refused: use its socket file, or set tls.ca",
            )
        return super()._process_auth(plugin_name, *rest)  # type: ignore[misc]


def tls_options(endpoint: Endpoint) -> dict[str, Any]:
    """What the library is told of TLS; raises `CollectorError` where the authority is none."""
    if endpoint.socket:
        return {"ssl_disabled": True}
    if endpoint.tls_ca is None and not endpoint.tls_required:
        return {}  # TLS where the server offers it
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = endpoint.tls_ca is not None and endpoint.tls_verify_identity
    if endpoint.tls_ca is None:
        context.verify_mode = ssl.CERT_NONE
    else:
        _trust(context, endpoint.tls_ca)
    return {"ssl": context}


def _trust(context: ssl.SSLContext, authority: str) -> None:
    """Have it believe this authority and no other."""
    try:
        context.load_verify_locations(authority)
    except OSError as error:
        why = "holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise CollectorError(FailureKind.UNTRUSTED, f"tls.ca: {authority}: {why}") from None


def protection(connection: socket.socket) -> tuple[Feature, ...]:
    """What protects this session on its way; a lack is told with its remedy."""
    encrypted, verified = Feature("encrypted_session", True), Feature("verified_server", True)
    if _is_within_this_machine(connection) or is_trusted(connection):
        return encrypted, verified
    address = connection.getpeername()[0]
    if isinstance(connection, ssl.SSLSocket):
        reason = (
            f"nobody verifies the certificate of {address}: who stands in between can pose as the"
            " server and be told the password"
        )
        return encrypted, Feature("verified_server", False, reason, USE_TLS)
    reason = (
        f"the session to {address} has no TLS: who listens reads statements and answers, and who"
        " stands in between can be told the password"
    )
    return (Feature("encrypted_session", False, reason, GIVE_TLS),)


def is_trusted(connection: socket.socket) -> bool:
    """Whether nobody can stand in between: a socket file, or TLS with a verified certificate."""
    if isinstance(connection, ssl.SSLSocket):
        return connection.context.verify_mode is ssl.CERT_REQUIRED
    return connection.family == socket.AF_UNIX


def _is_within_this_machine(connection: socket.socket) -> bool:
    """Over a socket file, over loopback, or between two addresses that are the same."""
    if connection.family == socket.AF_UNIX:
        return True
    peer, own = connection.getpeername()[0], connection.getsockname()[0]
    address = ipaddress.ip_address(str(peer).partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None) or address
    return peer == own or bool(mapped.is_loopback)
