"""Cross-site requests and DNS rebinding do no harm."""

import socket
from collections.abc import Iterator

import pytest
from web_clients import ask, listening, snapshot

from agent.cli import main
from agent.web.application import RELOAD
from agent.web.cross_site import HostNames

EVIL = "evil.example"


@pytest.fixture
def reloads() -> list[None]:
    """One for each reload."""
    return []


@pytest.fixture
def port(reloads: list[None]) -> Iterator[int]:
    """A server that counts its reloads."""

    def reload() -> list[str]:
        reloads.append(None)
        return []

    with listening(snapshot(True), reload=reload) as server:
        yield server.server_port


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://127.0.0.1:{port}"},
        {"Origin": "http://evil.example:{port}", "Host": "evil.example:{port}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "Cross-Site", "Sec-Fetch-Mode": "no-cors"},
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_no_browser_page_can_trigger_a_reload(
    port: int, reloads: list[None], method: str, headers: dict[str, str]
) -> None:
    """Neither cross-site nor by DNS rebinding."""
    sent = {name: text.format(port=port) for name, text in headers.items()}
    status, _, text = ask(port, RELOAD, method, tls=None, source="127.0.0.1", **sent)
    assert (status, text) == (403, "403 cross-site requests are not allowed\n")
    assert reloads == []


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:10104", "", ":80", "localhost.evil.example", "[::1", "a b",
     "127.0.0.1.evil.example", "localhost,evil.example", "user@localhost", "127.0.0.1:99999999"],
)  # fmt: skip
def test_a_reload_under_an_unknown_host_name_is_refused(
    port: int, reloads: list[None], host: str
) -> None:
    """For any client; the response says how to allow the name."""
    status, _, text = ask(port, RELOAD, "POST", Host=host)
    assert status == 421
    assert "--web.allowed-host" in text
    assert reloads == []


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:1", "10.0.0.7", "[::1]:10104", "[fe80::1]", "localhost", "LocalHost.:10104",
     socket.gethostname()],
)  # fmt: skip
def test_addresses_and_the_machines_own_names_are_allowed(
    port: int, reloads: list[None], host: str
) -> None:
    """DNS rebinding needs a name."""
    assert ask(port, RELOAD, "POST", Host=host)[0] == 200
    assert len(reloads) == 1


def test_reading_is_restricted_to_listed_host_names(port: int) -> None:
    """Without a list any name is allowed; with one no other name gets a response."""
    assert ask(port, "/metrics", Host=EVIL, Origin=f"https://{EVIL}")[0] == 200
    with listening(snapshot(True), hosts=["Db-Agent.internal"]) as strict:
        for path in ("/", "/metrics", "/api/v1/snapshot", "/-/healthy", "/nothing"):
            assert ask(strict.server_port, path, Host="db-agent.internal:10104")[0] in (200, 404)
            assert ask(strict.server_port, path, Host="127.0.0.1")[0] in (200, 404)
            assert ask(strict.server_port, path, Host=EVIL, Origin=f"https://{EVIL}")[0] == 421
            assert ask(strict.server_port, path, "HEAD", Host=EVIL, Origin=f"https://{EVIL}")[
                ::2
            ] == (421, "")


def test_no_response_allows_another_origin(port: int) -> None:
    """So a browser keeps it from a page of another site."""
    _, headers, _ = ask(port, "/metrics", Origin="https://evil.example")
    assert not [name for name in headers if name.lower().startswith("access-control-")]


def test_the_configured_listen_address_is_an_allowed_name() -> None:
    """`listen: agent.internal:10104` need not be repeated."""
    assert HostNames(listen="agent.internal").includes_host_of(
        {"HTTP_HOST": "agent.internal:10104"}
    )
    assert not HostNames(listen="").includes_host_of({"HTTP_HOST": ""})
    assert HostNames().includes_host_of({})


def test_the_option_accepts_only_host_names(capsys: pytest.CaptureFixture[str]) -> None:
    """A name with a port or a scheme would never match."""
    for wrong in ("a:1", "http://a", "", "*"):
        with pytest.raises(SystemExit) as usage:
            main(["run", "--config.file", "/nowhere", "--web.allowed-host", wrong])
        assert usage.value.code == 2
        assert "is not a host name without a port" in capsys.readouterr().err


def test_names_may_come_from_an_iterator() -> None:
    """They restrict reading all the same."""
    assert HostNames(iter(["agent.internal"])).is_strict
    assert HostNames(iter(["agent.internal"])).includes_host_of({"HTTP_HOST": "agent.internal"})
    assert not HostNames(iter([])).is_strict
