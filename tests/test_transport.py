"""TLS contexts: made once for all sessions, and again when the authority's file changes."""

import socket
import ssl
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from web_clients import Authority

from collectors.base import CollectorError, Feature
from collectors.connection import Connection, Login
from collectors.endpoint import Endpoint
from collectors.transport_security import (
    is_server_verified,
    protection_features,
    security_options,
    unverified_context,
)

DOWN = Endpoint(port=1)  # a closed port
TRIES = 50
MOST = 0.010  # CPU seconds of one; to load all authorities took 0.033


def test_a_target_that_is_down_costs_little() -> None:
    """Fifty attempts to connect load no certificates: each takes a few milliseconds of CPU."""
    connection = Connection(DOWN, lambda: Login("headroom", "Qz7"), timeout=1, limit=1)
    unverified_context()
    begun = time.process_time()
    for _ in range(TRIES):
        with pytest.raises(CollectorError):
            connection.open()
    spent = (time.process_time() - begun) / TRIES
    print(f"{1000 * spent:.1f} ms of CPU for each try")
    assert spent < MOST


@pytest.mark.parametrize(
    ("endpoint", "shown"),
    [
        (Endpoint("db1", 3307), "db1:3307"),
        (Endpoint("2001:db8::1", 3307), "[2001:db8::1]:3307"),
        (Endpoint("::1", 3307, "/run/mysqld.sock"), "/run/mysqld.sock"),
    ],
)
def test_an_address_is_shown_as_in_a_url(endpoint: Endpoint, shown: str) -> None:
    """So that the port of an IPv6 address is told from its last group."""
    assert str(endpoint) == shown


def test_an_authority_is_loaded_once_and_again_when_its_file_changes(tmp_path: Path) -> None:
    """All sessions share a context; another certificate in the file makes another one."""
    first, second = Authority(tmp_path), Authority(tmp_path, "second")
    file = tmp_path / "named.pem"
    file.write_bytes(first.file.read_bytes())
    endpoint = Endpoint(tls_ca=str(file), tls_required=True)
    context = security_options(endpoint)["ssl"]
    assert security_options(endpoint)["ssl"] is context
    file.unlink()
    file.write_bytes(second.file.read_bytes())
    renewed = security_options(endpoint)["ssl"]
    assert renewed is not context
    assert renewed.get_ca_certs() != context.get_ca_certs()


@pytest.mark.parametrize("has_authority", [True, False])
def test_only_a_socket_file_or_a_verified_server_is_trusted(
    tmp_path: Path, has_authority: bool
) -> None:
    """Over TCP, TLS with a certificate of the authority counts, not TLS alone."""
    authority = str(Authority(tmp_path).file) if has_authority else None
    context = security_options(Endpoint(tls_ca=authority, tls_required=True))["ssl"]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        plain = socket.create_connection(listener.getsockname())
        assert not is_server_verified(plain)
        with context.wrap_socket(plain, server_hostname="a", do_handshake_on_connect=False) as over:
            assert is_server_verified(over) is has_authority
    here, there = socket.socketpair()
    with here, there:
        assert is_server_verified(here)


def test_tls_is_requested_as_the_endpoint_says(tmp_path: Path) -> None:
    """Never over a socket file; with any certificate, or a verified one; else if offered."""
    authority = str(Authority(tmp_path).file)
    assert (
        security_options(Endpoint(socket="/run/a.sock", tls_ca=authority))["ssl_disabled"] is True
    )
    assert security_options(Endpoint()) == {"server_public_key": None}
    anybody = security_options(Endpoint(tls_required=True))["ssl"]
    assert anybody.verify_mode is ssl.CERT_NONE
    for identity in (True, False):
        endpoint = Endpoint(tls_ca=authority, tls_verify_identity=identity)
        certified = security_options(endpoint)["ssl"]
        assert certified.verify_mode is ssl.CERT_REQUIRED
        assert certified.check_hostname is identity


@cache
def rsa_key() -> rsa.RSAPublicKey:
    """A public key; made when it is needed, and not by each process that collects."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()


EC_KEY = ec.generate_private_key(ec.SECP256R1()).public_key()
X509 = PublicFormat.SubjectPublicKeyInfo


@pytest.mark.parametrize("form", [X509, PublicFormat.PKCS1])
def test_a_public_key_in_either_format_is_accepted(tmp_path: Path, form: PublicFormat) -> None:
    """As MySQL writes it, and as OpenSSL's older commands do."""
    file = tmp_path / "key.pem"
    file.write_bytes(rsa_key().public_bytes(Encoding.PEM, form))
    options = security_options(Endpoint(public_key=str(file)))
    assert options["server_public_key"] == file.read_bytes()


@pytest.mark.parametrize(
    "content",
    [
        lambda: b"",
        lambda: b"secret",
        lambda: b"-----BEGIN PUBLIC KEY-----\nA\n-----END PUBLIC KEY-----\n",
        lambda: rsa_key().public_bytes(Encoding.PEM, X509)[:200],
        lambda: rsa_key().public_bytes(Encoding.DER, X509),
        lambda: EC_KEY.public_bytes(Encoding.PEM, X509),
    ],
    ids=["empty", "a password", "no base64", "cut off", "DER", "another algorithm"],
)
def test_a_file_without_a_public_key_is_one_line(
    tmp_path: Path, content: Callable[[], bytes]
) -> None:
    """The option and the file, the mistake and where the key is; no content."""
    file = tmp_path / "key.pem"
    file.write_bytes(content())
    with pytest.raises(CollectorError) as caught:
        security_options(Endpoint(public_key=str(file)))
    assert str(caught.value) == (
        f"server_public_key: {file}: holds no RSA public key in PEM;"
        " copy public_key.pem of the server's data directory"
    )


def own_address() -> str:
    """One of this machine's that others can reach; no packet is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback's")
        return str(probe.getsockname()[0])


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "::ffff:127.0.0.2", "own"])
def test_a_session_within_this_machine_counts_as_encrypted_only(address: str) -> None:
    """By loopback, at the other end of an IPv6 socket too, and by any address of the machine."""
    address = own_address() if address == "own" else address
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as server, socket.socket(family) as client:
        server.bind((address, 0))
        server.listen()
        client.connect(server.getsockname())
        encrypted, verified = protection_features(client)
    assert encrypted == Feature("encrypted_session", enabled=True)
    assert not verified.enabled
    assert "any user of this machine can impersonate it" in verified.reason
