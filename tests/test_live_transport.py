"""How a session crosses the network: who is believed, what is refused, and what is warned of."""

import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

import pytest
from conftest import ServerFactory
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from web_clients import Authority

from agent.demo.private_server import Flavour, PrivateServer
from collectors.base import CollectorError, FailureKind
from collectors.connection import Connection, Login
from collectors.endpoint import Endpoint
from collectors.result_cells import ResultLimits, text
from testbed.real.clients import run_as_root
from testbed.real.daemon import COMMAND, is_root, target, watching
from testbed.real.namespaces import other_host, server_inside
from testbed.real.server_account import Account, least_account

PASSWORD = "Tr0ub4dor+3"
CIPHER = "SHOW SESSION STATUS LIKE 'Ssl_cipher'"
WITHOUT_TLS = {"mysql": ["--tls-version="], "mariadb": ["--skip-ssl"]}


def certified(folder: Path, *sans: str) -> tuple[Authority, list[str]]:
    """An authority, and a server's options for a certificate of it."""
    authority = Authority(folder)
    certificate, key = authority.issue("server", *sans)
    files = {"ca": authority.file, "cert": certificate, "key": key}
    return authority, [f"--ssl-{name}={path}" for name, path in files.items()]


def opened(endpoint: Endpoint, account: Account) -> str:
    """Connect, and the cipher that is spoken, empty where it is none."""
    connection = Connection(endpoint, lambda: Login(*account), timeout=5, limit=5)
    connection.open()
    try:
        return text(connection.row(CIPHER, ResultLimits(columns=2))[1])
    finally:
        connection.close()


def public_key(server: PrivateServer) -> str | None:
    """The file of a MySQL's own RSA key; MariaDB has none."""
    path = server.datadir / "public_key.pem"
    return str(path) if path.exists() else None


def refusal(endpoint: Endpoint, account: Account) -> CollectorError:
    """Why there is no session."""
    with pytest.raises(CollectorError) as caught:
        opened(endpoint, account)
    return caught.value


def test_a_certificate_is_verified_against_the_authority_and_the_host(
    private_server: ServerFactory, flavour: Flavour, tmp_path: Path
) -> None:
    """The right authority and name: TLS; another authority or name, or neither: refused."""
    authority, options = certified(tmp_path, "127.0.0.1")
    other = Authority(tmp_path, "other")
    server = private_server(flavour, options=options)
    account = least_account(server)

    def asking(ca: Path | None, host: str = "127.0.0.1", *, identity: bool = True) -> Endpoint:
        ca_file = str(ca) if ca else None
        return Endpoint(host, server.port, None, ca_file, identity, tls_required=True)

    assert opened(asking(authority.file), account)
    assert opened(asking(authority.file, "localhost", identity=False), account)
    assert opened(asking(None), account)
    for wrong, word in (
        (asking(other.file), "; check tls.ca"),
        (asking(other.file, identity=False), "certificate is not trusted"),
        (asking(authority.file, "localhost"), "'localhost'; use a host that it names"),
        (asking(tmp_path / "server.key"), "contains no PEM certificate"),
        (asking(tmp_path / "nothing"), "No such file"),
    ):
        refused = refusal(wrong, account)
        assert refused.kind is FailureKind.UNTRUSTED, refused
        assert word in str(refused)
        assert account.password not in str(refused)
    plain = private_server(flavour, options=WITHOUT_TLS[flavour])
    bare = least_account(plain)
    endpoint = Endpoint(port=plain.port, tls_required=True)
    refused = refusal(endpoint, bare)
    assert refused.kind is FailureKind.UNTRUSTED
    assert "(2026); let the server have TLS" in str(refused)
    verifying = Endpoint(port=plain.port, tls_ca=str(authority.file), tls_required=True)
    assert refusal(verifying, bare).kind is FailureKind.UNTRUSTED
    assert opened(Endpoint(port=plain.port, public_key=public_key(plain)), bare) == ""


def test_an_expired_certificate_is_to_be_renewed(
    private_server: ServerFactory, tmp_path: Path
) -> None:
    """MariaDB goes on serving it, and loads it too, which a MySQL does not."""
    authority, options = certified(tmp_path, "127.0.0.1")
    server = private_server("mariadb", options=options)
    account = least_account(server)
    endpoint = Endpoint("127.0.0.1", server.port, None, str(authority.file), True)
    assert opened(endpoint, account)
    authority.issue("server", "127.0.0.1", days=-1)
    run_as_root(server, "FLUSH SSL")
    refused = refusal(endpoint, account)
    assert refused.kind is FailureKind.UNTRUSTED
    assert "certificate has expired; renew it, or check the clock" in str(refused)


def test_caching_sha2_password_logs_in_by_every_way(
    private_server: ServerFactory,
) -> None:
    """A first login, of which the server has nothing cached, and the quick ones after it.

    Through TLS and the socket file the password itself is sent. Without TLS it is encrypted by RSA,
    with a key that is named and never with one that the other end has sent.
    """
    with_tls = private_server("mysql")
    without = private_server("mysql", options=WITHOUT_TLS["mysql"])
    refused = refusal(Endpoint(port=without.port), least_account(without))
    assert refused.kind is FailureKind.UNTRUSTED
    assert "server_public_key" in str(refused)
    for server, endpoint in (
        (with_tls, Endpoint(port=with_tls.port)),
        (with_tls, Endpoint(socket=with_tls.socket)),
        (without, Endpoint(port=without.port, public_key=public_key(without))),
    ):
        account = least_account(server)
        has_tls = bool(opened(endpoint, account))
        assert has_tls == (server is with_tls and endpoint.socket is None)
        assert bool(opened(endpoint, account)) == has_tls
        assert refusal(endpoint, account._replace(password="wrong")).kind is FailureKind.DENIED


@pytest.mark.live
@pytest.mark.skipif(not is_root(), reason="only root makes network namespaces")
def test_sha256_password_logs_in_through_tls_and_the_socket_file(
    private_server: ServerFactory,
) -> None:
    """There the server expects the password encrypted, unlike that of caching_sha2_password."""
    server = private_server("mysql")
    account = least_account(server)
    user, password = account
    for [host] in run_as_root(server, f"SELECT host FROM mysql.user WHERE user = '{user}'"):
        changed = f"IDENTIFIED WITH sha256_password BY '{password}'"
        run_as_root(server, f"ALTER USER '{user}'@'{host}' {changed}")
    assert opened(Endpoint(socket=server.socket), account) == ""
    assert opened(Endpoint(port=server.port), account)
    wrong = account._replace(password="wrong")
    assert refusal(Endpoint(socket=server.socket), wrong).kind is FailureKind.DENIED


@pytest.mark.parametrize("has_tls", [True, False], ids=["TLS", "no TLS"])
def test_an_unprotected_password_is_reported(
    flavour: Flavour, has_tls: bool, templates: Path, tmp_path: Path
) -> None:
    """From another host: without TLS, or with a certificate that nobody verifies, once.

    `check` says it too; with an authority that is named, nothing is said.
    """
    with ExitStack() as stack:
        there = stack.enter_context(other_host())
        authority, options = certified(tmp_path, there.theirs)
        ways = tuple(options) if has_tls else tuple(WITHOUT_TLS[flavour])
        netns = ("ip", "netns", "exec", there.name)
        inside = server_inside(
            flavour, templates, *netns, options=("--bind-address=0.0.0.0", *ways)
        )
        server = stack.enter_context(inside)
        account = least_account(server)
        over = Endpoint(there.theirs, server.port)
        watched = target(tmp_path, server, account, over=over)
        if key := public_key(server):
            watched["server_public_key"] = key
        lacks = "verified_server" if has_tls else "encrypted_session"
        with watching(tmp_path, watched) as agent:
            assert agent.get("feature_enabled", feature=lacks) == 0
            assert agent.get("feature_enabled", feature="encrypted_session") == has_tls
        said = [line for line in agent.log.splitlines() if f"feature={lacks}" in line]
        assert len(said) == 1
        assert "a man in the middle can" in said[0]
        assert "tls.ca" in said[0]
        assert f"missing  {lacks}" in checked(tmp_path)
        if has_tls:
            verified = {**watched, "tls": {"ca": str(authority.file)}}
            with watching(tmp_path, verified) as agent:
                assert agent.get("feature_enabled", feature="verified_server") == 1
            assert "man in the middle" not in agent.log
            assert "ok       verified_server" in checked(tmp_path)


def checked(folder: Path) -> str:
    """What `check` prints of the configuration in this folder."""
    command = [str(COMMAND), "check", "--config.file", str(folder / "config.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def test_only_a_socket_file_or_a_certificate_verify_the_server(
    private_server: ServerFactory, flavour: Flavour, tmp_path: Path
) -> None:
    """On loopback any local user may listen: the feature is absent, with the remedy."""
    authority, options = certified(tmp_path, "127.0.0.1")
    server = private_server(flavour, options=options)
    login = Login(*least_account(server))
    ca = str(authority.file)
    for endpoint, verified in (
        (Endpoint(socket=server.socket), True),
        (Endpoint(port=server.port), False),
        (Endpoint(port=server.port, tls_ca=ca, tls_required=True), True),
    ):
        connection = Connection(endpoint, lambda: login, timeout=5, limit=5)
        connection.open()
        try:
            session, peer = connection.protection()
        finally:
            connection.close()
        assert session.enabled
        assert peer.enabled == verified
        assert verified or "any user of this machine" in peer.reason
        assert verified or "socket file" in peer.remedy


class Impostor:
    """Poses as a server that wants the password as it is, which no honest one at hand does.

    As one of caching_sha2_password it wants it encrypted with a key of its own.

    `heard` has everything it was sent, under TLS if it has a certificate.
    """

    def __init__(self, plugin: bytes, pair: tuple[Path, Path] | None = None) -> None:
        self.heard = b""
        self._plugin = plugin
        self._pair = pair
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        connection.settimeout(5)
        with suppress(OSError):
            self._talk(connection)
        connection.close()

    def _talk(self, connection: socket.socket) -> None:
        """Greet, and begin TLS where there is a certificate."""
        capabilities = 0x000FA281 | (0x800 if self._pair else 0)
        greeting = b"\x0a9.7.0\0" + struct.pack("<I", 7) + b"12345678\0"
        greeting += struct.pack("<H", capabilities & 0xFFFF) + b"\x2d\x02\0"
        greeting += struct.pack("<HB", capabilities >> 16, 21) + bytes(10) + b"123456789012\0"
        connection.sendall(_packet(0, greeting + b"caching_sha2_password\0"))
        if self._pair is None:
            self._ask(connection, 2)
            return
        connection.recv(36)  # the wish for TLS
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self._pair)
        with context.wrap_socket(connection, server_side=True) as secured:
            self._ask(secured, 3)

    def _ask(self, connection: socket.socket, number: int) -> None:
        """Take the login, and then what comes of that wish."""
        self.heard += connection.recv(4096)
        prompt = b"\x05Password: " if self._plugin == b"dialog" else b""
        connection.sendall(_packet(number, b"\xfe" + self._plugin + b"\0" + prompt))
        if self._plugin == b"caching_sha2_password":
            self.heard += connection.recv(4096)
            connection.sendall(_packet(number + 2, b"\x01\x04"))  # not cached: all of it, please
            self.heard += connection.recv(4096)
            connection.sendall(_packet(number + 4, b"\x01" + own_public_key()))
        while said := connection.recv(4096):
            self.heard += said


def _packet(number: int, body: bytes) -> bytes:
    return struct.pack("<I", len(body))[:3] + bytes([number]) + body


@cache
def own_public_key() -> bytes:
    """The impostor's own, in PEM; made when it is needed, and not by each process that collects."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()
    return key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


ENCRYPTED = 2048 // 8  # bytes of a password, by that key


def test_a_password_is_never_encrypted_with_a_key_that_the_server_sends() -> None:
    """An impostor at the port of a server without TLS gets a hash of the password at most."""
    with impostor(b"caching_sha2_password") as listener:
        refused = refusal(Endpoint(port=listener.port), Account("headroom", PASSWORD))
    assert refused.kind is FailureKind.UNTRUSTED
    assert "a key that it sends itself" in str(refused)
    assert b"headroom" in listener.heard
    assert len(listener.heard) < ENCRYPTED + 150
    assert PASSWORD.encode() not in listener.heard


def test_a_weak_password_hash_is_refused() -> None:
    """No legitimate server requests the plugin of MySQL 4.0."""
    with impostor(b"mysql_old_password") as listener:
        refused = refusal(Endpoint(port=listener.port), Account("headroom", PASSWORD))
    assert refused.kind is FailureKind.UNTRUSTED


@contextmanager
def impostor(plugin: bytes, pair: tuple[Path, Path] | None = None) -> Iterator[Impostor]:
    """One that lives as long as the block."""
    made = Impostor(plugin, pair)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("plugin", [b"mysql_clear_password", b"dialog"])
@pytest.mark.parametrize("has_tls", [True, False], ids=["unverified TLS", "no TLS"])
def test_a_cleartext_password_is_never_sent_to_an_unverified_server(
    plugin: bytes, has_tls: bool, tmp_path: Path
) -> None:
    """Whoever listens at the port may ask for it; the refusal says so."""
    authority = Authority(tmp_path)
    pair = authority.issue("server", "127.0.0.1") if has_tls else None
    with impostor(plugin, pair) as listener:
        endpoint = Endpoint(port=listener.port)
        refused = refusal(endpoint, Account("headroom", PASSWORD))
    assert refused.kind is FailureKind.UNTRUSTED
    assert "asks for the password in the clear" in str(refused)
    assert b"headroom" in listener.heard
    assert PASSWORD.encode() not in listener.heard


def test_a_verified_server_may_ask_for_the_password(tmp_path: Path) -> None:
    """PAM and LDAP need it, and TLS with a verified certificate hides it."""
    authority = Authority(tmp_path)
    pair = authority.issue("server", "127.0.0.1")
    with impostor(b"mysql_clear_password", pair) as listener:
        endpoint = Endpoint("127.0.0.1", listener.port, None, str(authority.file), True, True)
        connection = Connection(endpoint, lambda: Login("headroom", PASSWORD), timeout=1, limit=1)
        with pytest.raises(CollectorError):  # it has listened, and says nothing
            connection.open()
    assert PASSWORD.encode() in listener.heard


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.0 400 Bad Request\r\n\r\n",
        b"\0" * 64,
        b"\xff" * 64,
        b"",
    ],
)
def test_a_server_of_another_protocol_is_one_line(said: bytes) -> None:
    """Another service at the port, or one that disconnects: a failure of a kind, no trace."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])

        def answer() -> None:
            connection, _ = listener.accept()
            connection.sendall(said)
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        refused = refusal(Endpoint(port=port), Account("headroom", PASSWORD))
        thread.join()
    assert refused.kind in (FailureKind.LOST, FailureKind.REFUSED, FailureKind.TIMEOUT)
    assert str(refused).startswith(f"127.0.0.1:{port}: ")
    assert str(refused).isprintable()
