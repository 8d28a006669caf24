"""Protection of a session on the network: TLS, verification of the server, and the password.

Over a socket file there is no man in the middle, and only the server's user can have made it. Over
loopback nothing can be intercepted, but any user of this machine can take a free port and
impersonate the server. Elsewhere TLS prevents eavesdropping. Only a verified certificate prevents
impersonation: caching_sha2_password sends the password itself to the other end of TLS. Without TLS
it encrypts the password with a public key; the agent uses a key that the configuration names, and
never one that the other end sends.
https://dev.mysql.com/doc/refman/en/caching-sha2-pluggable-authentication.html
"""

import binascii
import ipaddress
import os
import re
import socket
import ssl
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from collectors.base import CollectorError, FailureKind, Feature
from collectors.endpoint import Endpoint
from collectors.regular_file import read_whole

MAX_KEY = 16_384  # bytes of a public key's file
PEM = re.compile(
    rb"-----BEGIN (RSA |)PUBLIC KEY-----\s([A-Za-z0-9+/=\s]+)-----END \1PUBLIC KEY-----"
)
RSA = bytes.fromhex("06092a864886f70d010101")  # rsaEncryption in DER, RFC 8017
EXPIRED_CODE = 10  # X509_V_ERR_CERT_HAS_EXPIRED
OTHER_NAME_CODES = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
RENEW_CERTIFICATE = "renew it, or check the clock of this machine"
MAX_AUTHORITIES = 64  # certificate authorities that are kept loaded
USE_TLS = "set tls.ca, the authority that signed the server's certificate"
USE_SOCKET = (
    "use the server's socket file, or set tls.ca (MySQL makes its own: copy ca.pem from its data"
    " directory to /etc/mysql-headroom, and set verify_identity: false)"
)
GIVE_TLS = f"give the server a certificate (ssl_cert and ssl_key in its my.cnf), then {USE_TLS}"


def security_options(endpoint: Endpoint) -> dict[str, Any]:
    """Return PyMySQL's options for keys and TLS; raises `CollectorError` for an unusable file."""
    return {**_tls_options(endpoint), "server_public_key": _public_key(endpoint.public_key)}


def _public_key(path: str | None) -> bytes | None:
    """Read the configured public key; raises `CollectorError` if it is none."""
    if path is None:
        return None
    try:
        content = read_whole(Path(path), MAX_KEY)
    except OSError as error:
        message = f"server_public_key: {path}: {error.strerror}"
        raise CollectorError(FailureKind.UNTRUSTED, message) from None
    if not _is_rsa_key(content):
        problem = "holds no RSA public key in PEM"
        remedy = "copy public_key.pem of the server's data directory"
        message = f"server_public_key: {path}: {problem}; {remedy}"
        raise CollectorError(FailureKind.UNTRUSTED, message)
    return content


def _is_rsa_key(content: bytes) -> bool:
    """Return whether it is an RSA public key, by its PEM frame and its algorithm.

    A full parser takes 8 MiB (see `lazy_cryptography`).
    """
    found = PEM.search(content)
    if found is None:
        return False
    try:
        key = binascii.a2b_base64(found[2])
    except binascii.Error:
        return False
    return bool(found[1]) or RSA in key[:32]


def _tls_options(endpoint: Endpoint) -> dict[str, Any]:
    """Return PyMySQL's options for TLS; raises `CollectorError` for an unusable authority."""
    if endpoint.socket:
        return {"ssl_disabled": True}
    if endpoint.tls_ca is None and not endpoint.tls_required:
        return {}  # TLS where the server offers it
    if endpoint.tls_ca is None:
        return {"ssl": unverified_context()}
    try:
        return {"ssl": verifying_context(endpoint.tls_ca, identity=endpoint.tls_verify_identity)}
    except OSError as error:
        why = "contains no PEM certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise CollectorError(FailureKind.UNTRUSTED, f"tls.ca: {endpoint.tls_ca}: {why}") from None


@cache
def unverified_context() -> ssl.SSLContext:
    """Return a TLS context that does not verify the server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def verifying_context(ca_file: str, *, identity: bool = True) -> ssl.SSLContext:
    """Return a TLS context that trusts only the authorities in this file, as it is now.

    All sessions share it: loading the certificates takes longer than the rest of connecting. Raises
    OSError for a file that cannot be used.
    """
    file = os.stat(ca_file)  # noqa: PTH116  (any path that OpenSSL takes)
    return _loaded_context(ca_file, identity, (file.st_ino, file.st_mtime_ns, file.st_size))


@lru_cache(maxsize=MAX_AUTHORITIES)
def _loaded_context(ca_file: str, identity: bool, version: object) -> ssl.SSLContext:
    """Load a context; `version` is that of the file."""
    del version
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = identity
    context.load_verify_locations(ca_file)
    return context


def protection_features(connection: socket.socket) -> tuple[Feature, ...]:
    """Return the protections of this session as features; an absent one has its remedy."""
    return _encryption_feature(connection), _verification_feature(connection)


def _encryption_feature(connection: socket.socket) -> Feature:
    """Report whether the session is encrypted or local, else the risk and the remedy."""
    if isinstance(connection, ssl.SSLSocket) or _is_local(connection):
        return Feature("encrypted_session", enabled=True)
    reason = (
        f"the session to {connection.getpeername()[0]} has no TLS: an eavesdropper reads"
        " statements and answers, and a man in the middle can change them"
    )
    return Feature("encrypted_session", False, reason, GIVE_TLS)


def _verification_feature(connection: socket.socket) -> Feature:
    """Report whether the server is verified, else the risk and the remedy."""
    if is_server_verified(connection):
        return Feature("verified_server", enabled=True)
    if _is_local(connection):
        reason = (
            "the program listening on the port is not verified: while the server is down any user"
            " of this machine can impersonate it and capture the password"
        )
        return Feature("verified_server", False, reason, USE_SOCKET)
    reason = (
        f"the certificate of {connection.getpeername()[0]} is not verified: a man in the middle"
        " can impersonate the server and capture the password"
    )
    return Feature("verified_server", False, reason, USE_TLS)


def is_server_verified(connection: socket.socket) -> bool:
    """Return whether the server is verified: a socket file, or TLS with a verified certificate."""
    if isinstance(connection, ssl.SSLSocket):
        return connection.context.verify_mode is ssl.CERT_REQUIRED
    return connection.family == socket.AF_UNIX


def _is_local(connection: socket.socket) -> bool:
    """Return whether it uses a socket file, loopback, or the same address at both ends."""
    if connection.family == socket.AF_UNIX:
        return True
    peer, own = connection.getpeername()[0], connection.getsockname()[0]
    return peer == own or is_loopback(str(peer))


def is_loopback(address: str) -> bool:
    """Return whether an IP address is one of loopback: all of 127.0.0.0/8, and ::1."""
    found = ipaddress.ip_address(address.partition("%")[0])
    return bool((getattr(found, "ipv4_mapped", None) or found).is_loopback)
