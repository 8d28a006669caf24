"""TLS of the web pages over real sockets: who is served, who is not, and what is read again."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from web_clients import CLIENT, SERVER, Authority, ask, eventually, listening, snapshot, written

from agent.cli import main
from agent.web import reloading_config as web_file
from agent.web.reloading_config import WebConfigFile

Pair = tuple[Path, Path] | None
REFUSED = (ssl.SSLError, ConnectionError)  # TLS 1.3 tells a client after its own handshake


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """An authority, and a certificate of the server issued by it."""
    made = Authority(tmp_path)
    made.issue("server", "127.0.0.1", "localhost", usage=SERVER)
    return made


def tls_section(**more: object) -> dict[str, object]:
    """The least that TLS needs, and more."""
    return {"cert_file": "server.crt", "key_file": "server.key", **more}


@contextmanager
def serving(folder: Path, **more: object) -> Iterator[tuple[int, WebConfigFile]]:
    """A server under TLS with those settings, and its file."""
    file = WebConfigFile(written(folder, tls_server_config=tls_section(**more)))
    with listening(snapshot(True), settings=file) as server:
        yield server.server_port, file


def status(port: int, client: ssl.SSLContext) -> int | None:
    """The status of an answer; None where TLS let nobody through."""
    try:
        return ask(port, tls=client)[0]
    except REFUSED:
        return None


def test_pages_are_served_over_tls(authority: Authority) -> None:
    """To a client that verifies the certificate against the authority."""
    with serving(authority.folder) as (port, _):
        assert ask(port, "/metrics", tls=authority.client())[0] == 200
        stranger = Authority(authority.folder, "other")
        with pytest.raises(ssl.SSLCertVerificationError):
            ask(port, tls=stranger.client())


def test_a_command_says_why_a_certificate_is_not_verified(
    authority: Authority, capsys: pytest.CaptureFixture[str]
) -> None:
    """No authority given, another one, another name, an expired one: each has its remedy."""
    stranger = Authority(authority.folder, "other")

    def asked(port: int, host: str, *options: object) -> str:
        words = ["mark", "--name", "x", "--agent", f"https://{host}:{port}", *map(str, options)]
        assert main(words) == 1
        return capsys.readouterr().err

    with serving(authority.folder) as (port, _):
        assert "give its CA certificate with --ca" in asked(port, "127.0.0.1")
        assert "; check --ca\n" in asked(port, "127.0.0.1", "--ca", stranger.file)
    authority.issue("server", "localhost", usage=SERVER)
    with serving(authority.folder) as (port, _):
        text = asked(port, "127.0.0.1", "--ca", authority.file)
        assert "certificate is not valid for '127.0.0.1'); use a name in the URL that" in text
    authority.issue("server", "127.0.0.1", usage=SERVER, days=-1)
    with serving(authority.folder) as (port, _):
        text = asked(port, "127.0.0.1", "--ca", authority.file)
        assert "certificate has expired); renew it" in text


def test_plain_http_to_a_tls_port_gets_an_explanation(authority: Authority) -> None:
    """A scraper with the wrong scheme gets a message, and no page."""
    with serving(authority.folder) as (port, _):
        code, _, body = ask(port, "/metrics")
    assert (code, body) == (400, "Client sent an HTTP request to an HTTPS server.\n")


def test_incomplete_handshakes_delay_no_other_client(
    authority: Authority,
) -> None:
    """Half-open connections, garbage, and a handshake of one byte."""
    with serving(authority.folder) as (port, _):
        held = [socket.create_connection(("127.0.0.1", port), 5) for _ in range(200)]
        for index, connection in enumerate(held):
            try:
                connection.sendall((b"", b"\x16", b"\x16\x03\x01\xff\xff" + b"\0" * 90)[index % 3])
                if index % 10 == 0:
                    connection.shutdown(socket.SHUT_WR)
            except OSError:  # it was pushed out
                pass
        assert status(port, authority.client()) == 200
        for connection in held:
            connection.close()
        assert status(port, authority.client()) == 200


@pytest.mark.parametrize(
    ("kind", "without", "own", "foreign"),
    [
        ("NoClientCert", 200, 200, 200),
        ("RequestClientCert", 200, 200, 200),
        ("VerifyClientCertIfGiven", 200, 200, None),
        ("RequireAndVerifyClientCert", None, 200, None),
    ],
)
def test_each_client_auth_type_admits_the_right_clients(
    authority: Authority,
    kind: str,
    without: int | None,
    own: int | None,
    foreign: int | None,
) -> None:
    """Without a certificate, with one of the right authority, and of another one."""
    more = {"client_ca_file": "ca.crt"} if "Verify" in kind else {}
    pair = authority.issue("scraper", "scraper", usage=CLIENT)
    other = Authority(authority.folder, "other").issue("stranger", "scraper", usage=CLIENT)
    with serving(authority.folder, client_auth_type=kind, **more) as (port, _):
        assert status(port, authority.client()) == without
        assert status(port, authority.client(pair)) == own
        assert status(port, authority.client(other)) == foreign


@pytest.mark.parametrize(
    "issued",
    [{"days": -1, "usage": CLIENT}, {"days": 1, "usage": SERVER}],
    ids=["expired", "not for clients"],
)
def test_an_expired_or_wrong_purpose_client_certificate_is_refused(
    authority: Authority, issued: dict[str, object]
) -> None:
    """The right authority alone is not enough."""
    pair = authority.issue("scraper", "scraper", **issued)  # type: ignore[arg-type]
    asked = {"client_auth_type": "RequireAndVerifyClientCert", "client_ca_file": "ca.crt"}
    with serving(authority.folder, **asked) as (port, _):
        assert status(port, authority.client(pair)) is None


@pytest.mark.parametrize(
    "name", ["scraper.example", "2001:db8::1", "a@example.org", "spiffe://a/b"]
)
def test_only_an_allowed_subject_alternative_name_is_admitted(
    authority: Authority, name: str
) -> None:
    """DNS name, address, e-mail and URI match exactly; the common name does not count."""
    asked = {
        "client_auth_type": "RequireAndVerifyClientCert",
        "client_ca_file": "ca.crt",
        "client_allowed_sans": ["first.example", name],
    }
    right = authority.issue("right", "another.example", name)
    wrong = authority.issue("first.example", "scraper.example.org", "2001:db8::2", "b@example.org")
    nameless = authority.issue("scraper.example")
    with serving(authority.folder, **asked) as (port, _):
        assert status(port, authority.client(right)) == 200
        assert status(port, authority.client(wrong)) is None
        assert status(port, authority.client(nameless)) is None


@pytest.mark.parametrize(
    ("least", "most", "offered", "expected"),
    [
        ("TLS13", "TLS13", ssl.TLSVersion.TLSv1_2, None),
        ("TLS13", "TLS13", ssl.TLSVersion.TLSv1_3, 200),
        ("TLS12", "TLS12", ssl.TLSVersion.TLSv1_3, None),
        ("TLS12", "TLS13", ssl.TLSVersion.TLSv1_2, 200),
    ],
)
def test_tls_versions_outside_the_bounds_are_refused(
    authority: Authority, least: str, most: str, offered: ssl.TLSVersion, expected: int | None
) -> None:
    """`min_version` and `max_version` hold."""
    client = authority.client()
    client.minimum_version = client.maximum_version = offered
    with serving(authority.folder, min_version=least, max_version=most) as (port, _):
        assert status(port, client) == expected


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
def test_tls_1_1_is_refused_by_default(authority: Authority) -> None:
    """Whatever the client would accept."""
    client = authority.client()
    client.minimum_version = client.maximum_version = ssl.TLSVersion.TLSv1_1
    client.set_ciphers("ALL:@SECLEVEL=0")
    with serving(authority.folder) as (port, _):
        assert status(port, client) is None


def test_only_configured_cipher_suites_and_curves_are_accepted(authority: Authority) -> None:
    """A client that offers others only is refused."""
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    asked = {"cipher_suites": [suite], "curve_preferences": ["CurveP384"]}
    right, wrong, curve = (authority.client() for _ in range(3))
    for client in (right, wrong, curve):
        client.maximum_version = ssl.TLSVersion.TLSv1_2
    wrong.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    curve.set_ecdh_curve("prime256v1")
    with serving(authority.folder, **asked) as (port, _):
        assert status(port, right) == 200
        assert status(port, wrong) is None
        assert status(port, curve) is None


def presented(port: int, client: ssl.SSLContext) -> bytes | None:
    """The server's certificate as one client sees it."""
    with (
        socket.create_connection(("127.0.0.1", port), 5) as plain,
        client.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        return connection.getpeercert(binary_form=True)


def test_a_new_certificate_and_key_are_loaded(authority: Authority) -> None:
    """A renewal needs no restart, and a half-finished one breaks nothing."""
    client = authority.client()
    with serving(authority.folder) as (port, file):
        before = presented(port, client)
        certificate, key = authority.issue("renewed", "127.0.0.1")
        certificate.replace(authority.folder / "server.crt")
        assert presented(port, client) == before  # the key does not go with it yet
        assert file.broken
        key.replace(authority.folder / "server.key")
        assert eventually(lambda: presented(port, client) != before)
        assert not file.broken


def test_a_new_client_authority_is_loaded(authority: Authority) -> None:
    """Clients of the former authority are refused from then on."""
    asked = {"client_auth_type": "RequireAndVerifyClientCert", "client_ca_file": "clients.crt"}
    old, new = (Authority(authority.folder, name) for name in ("old", "new"))
    former, present = old.issue("former", "a"), new.issue("present", "a")
    (authority.folder / "clients.crt").write_bytes(old.file.read_bytes())
    with serving(authority.folder, **asked) as (port, _):
        assert status(port, authority.client(former)) == 200
        assert status(port, authority.client(present)) is None
        new.file.replace(authority.folder / "clients.crt")
        assert status(port, authority.client(present)) == 200
        assert status(port, authority.client(former)) is None


def test_openssls_cached_sessions_do_not_accumulate(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A TLS 1.2 client at every scrape does not make the agent grow."""
    monkeypatch.setattr(web_file, "MAX_SESSIONS", 5)
    monkeypatch.setattr(web_file, "RETRY_SECONDS", 0.0)
    client = authority.client()
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    with serving(authority.folder) as (port, file):
        for _ in range(20):
            assert status(port, client) == 200
        context = file().context
        assert context is not None
        assert context.session_stats()["number"] <= 6
        assert (file.broken, file.failures) == (False, 0)
