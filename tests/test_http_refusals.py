"""Servers that refuse a request and never finish to say why, and what cannot be sent at all."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import parse_headers
from pathlib import Path
from urllib.request import Request

import pytest

from agent.cli import main
from agent.prometheus.client import Client, PrometheusError
from agent.support.http_client import Access, proxy_of, refusal_text

TIMEOUT = 0.5  # seconds, the least that --timeout takes
HEAD = b"HTTP/1.1 503 Busy\r\n"
LONG = HEAD + b"Content-Length: 60000\r\n\r\n"


def broken_off(client: socket.socket) -> None:
    """It ends in the middle of a piece."""
    client.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab")


def silent(client: socket.socket) -> None:
    """It never comes, until the client has left."""
    client.sendall(LONG)
    client.recv(1)


def dripping(client: socket.socket) -> None:
    """It comes at a pace that would take hours."""
    client.sendall(LONG)
    for _ in range(100):
        client.sendall(b"x")
        time.sleep(TIMEOUT / 5)


def read_request(client: socket.socket) -> None:
    """Read it whole: a socket that is closed with unread bytes resets its connection."""
    with client.makefile("rb") as stream:
        stream.readline()
        stream.read(int(parse_headers(stream).get("Content-Length", 0)))


@contextmanager
def refusing(refuse: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that refuses each request in that way; the URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve(client: socket.socket) -> None:
            with client, suppress(OSError):
                read_request(client)
                refuse(client)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client = listener.accept()[0]
                    threading.Thread(target=serve, args=(client,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def test_an_answer_that_breaks_off_is_asked_for_again() -> None:
    """It is no answer of another form, whose URL would be wrong."""
    asked: list[socket.socket] = []

    def answer(client: socket.socket) -> None:
        asked.append(client)
        client.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n{"status":')

    with refusing(answer) as url:
        client = Client(Access(url), sleep=lambda _: None)
        with pytest.raises(
            PrometheusError, match=r"no answer \(it ended 59990 bytes early\); check"
        ):
            client.series("{}", 0.0, 60.0)
    assert len(asked) == 4


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(
    "words",
    [("mark", "--name", "x", "--agent"), ("analyze", "--prometheus")],
    ids=lambda words: words[0],
)
def test_a_proxy_that_does_not_answer_is_named(
    scheme: str,
    words: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is another program than the one whose URL was given, and its login is not shown."""
    monkeypatch.setattr("agent.prometheus.client.MIN_PAUSE", 0.01)
    for name in ("no_proxy", "NO_PROXY", f"{scheme.upper()}_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(f"{scheme}_proxy", "http://someone:secret@127.0.0.1:9")
    assert main([*words, f"{scheme}://db1.example:9"]) == 1
    said = capsys.readouterr().err
    assert "db1.example:9: no answer (Connection refused, through the proxy 127.0.0.1:9)" in said
    assert "secret" not in said


@pytest.mark.parametrize(
    ("scheme", "status", "said"),
    [
        (
            "http",
            "407 Proxy Authentication Required",
            "the proxy {} asks for a login (407); give it in http_proxy, as"
            " http://USER:PASSWORD@HOST:PORT, or name the server's host in no_proxy\n",
        ),
        (
            "http",
            "403 Forbidden",
            "login refused (403), or the proxy {} refuses the request; give --user",
        ),
        ("http", "401 Unauthorized", "login refused (401); give --user"),
        (
            "https",
            "407 Proxy Authentication Required",
            "the proxy {} asks for a login (407); give it in https_proxy, as"
            " http://USER:PASSWORD@HOST:PORT, or name the server's host in no_proxy\n",
        ),
        (
            "https",
            "403 Forbidden",
            "the proxy {} refuses to connect to it (403); let the proxy allow it, or name the"
            " server's host in no_proxy\n",
        ),
    ],
)
@pytest.mark.parametrize(
    "words",
    [("mark", "--name", "x", "--agent"), ("analyze", "--prometheus")],
    ids=lambda words: words[0],
)
def test_a_refusal_by_a_proxy_is_not_said_to_be_the_servers(
    words: tuple[str, ...],
    scheme: str,
    status: str,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """407 is the proxy's own, 401 the server's, and 403 may be of either.

    Through a tunnel for TLS that it refuses no request has been sent: then all are its own.
    """
    answer = f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode()
    for name in ("no_proxy", "NO_PROXY", f"{scheme.upper()}_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with refusing(lambda client: client.sendall(answer)) as proxy:
        monkeypatch.setenv(f"{scheme}_proxy", proxy)
        assert main([*words, f"{scheme}://db1.example:9"]) == 1
    shown = capsys.readouterr().err
    text = said.format(proxy.removeprefix("http://"))
    assert shown.startswith(f"mysql-headroom: {scheme}://db1.example:9: {text}")
    assert ("no_proxy" in shown) == (status[:3] != "401")


def test_what_arrives_by_tls_is_of_the_server() -> None:
    """A proxy cannot refuse what it cannot read; and a host with an escape is no proxy."""
    request = Request("https://db1.example:9")
    request.set_proxy("proxy.example:3128", "https")
    assert refusal_text(403, request, "give a login") == "login refused (403); give a login"
    assert proxy_of(request) == "proxy.example:3128"
    assert proxy_of(Request("http://[fe80::1%25eth0]:9090/api")) is None


@pytest.mark.parametrize("refuse", [broken_off, silent, dripping])
@pytest.mark.parametrize(
    "words",
    [("mark", "--name", "x", "--agent"), ("analyze", "--prometheus")],
    ids=lambda words: words[0],
)
def test_an_endless_refusal_is_one_line_within_the_timeout(
    refuse: Callable[[socket.socket], None],
    words: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The status is reported, and no command waits for longer than the timeout."""
    monkeypatch.setattr("agent.prometheus.client.MIN_PAUSE", 0.01)
    with refusing(refuse) as url:
        started = time.monotonic()
        assert main([*words, url, "--timeout", f"{TIMEOUT}s"]) == 1
        assert time.monotonic() - started < 10 * TIMEOUT
    said = capsys.readouterr().err
    assert said.startswith(f"mysql-headroom: {url}: HTTP status 503")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (
            "302 Found\r\nLocation: https://login.example/",
            "redirects to https://login.example/;",
        ),
        (
            "405 Method Not Allowed",
            "HTTP status 405; queries are POST requests, which a",
        ),
        ("429 Too Many Requests", "or try again later; tried 4 times"),
        ("502 Bad Gateway", "HTTP status 502; check the server or its proxy"),
    ],
)
def test_each_kind_of_refusal_has_its_remedy(
    status: str, text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A login page, a proxy that blocks POST, too many requests, a server that is down."""
    monkeypatch.setattr("agent.prometheus.client.MIN_PAUSE", 0.01)
    answer = f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode()
    with refusing(lambda client: client.sendall(answer)) as url:
        assert main(["analyze", "--prometheus", url]) == 1
    said = capsys.readouterr().err
    assert text in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("asked", "waits", "remedy"),
    [
        ("7", 3 * [7.0], "try again in 7s; tried 4 times"),
        ("60 ", 3 * [60.0], "try again in 1m; tried 4 times"),
        ("3600", [], "try again in 1h"),
        (400 * "9", [], "try again in 999999999s"),
        ("0", 3 * [0.5], "try again later; tried 4 times"),
        ("Fri, 21 Nov 2025 10:00:00 GMT", 3 * [0.5], "try again later; tried 4 times"),
        ("Fri, 21 Nov 2125 10:00:00 GMT", [], r"try again in \d+[smhd]"),
        (f"Fri, 21 Nov {20 * '9'} 10:00:00 GMT", 3 * [0.5], "try again later; tried 4 times"),
        ("soon", 3 * [0.5], "try again later; tried 4 times"),
        ("²", 3 * [0.5], "try again later; tried 4 times"),
    ],
)
def test_a_server_is_asked_again_when_it_says(
    asked: str, waits: list[float], remedy: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not earlier than by its Retry-After, and not at all if that is too long to wait for."""
    monkeypatch.setattr("agent.prometheus.client.MAX_PAUSE", 0.5)
    monkeypatch.setattr("agent.support.backoff.with_jitter", lambda seconds: seconds)
    waited: list[float] = []
    head = f"HTTP/1.1 {status} Busy\r\nRetry-After: {asked}\r\nContent-Length: 0\r\n\r\n"
    with (
        refusing(lambda client: client.sendall(head.encode("latin-1"))) as url,
        pytest.raises(PrometheusError, match=f" {remedy}$"),
    ):
        Client(Access(url), sleep=waited.append).series("{}", 0.0, 60.0)
    assert waited == waits


def test_an_error_in_an_answer_without_an_error_code_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Proxies that cache or split queries answer so; the URL is right then."""
    body = b'{"status": "error", "errorType": "execution", "error": "no store\\nis ready"}'
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with refusing(lambda client: client.sendall(answer)) as url:
        assert main(["analyze", "--prometheus", url]) == 1
    said = capsys.readouterr().err
    text = "no store is ready; check the selector, or the server and its proxy"
    assert said == f"mysql-headroom: {url}: {text}\n"


@pytest.mark.parametrize("data", ["{}", "[1]", '[{"instance": "a"}, "b"]', '"text"'])
def test_an_answer_of_another_form_is_one_line(
    data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a program that is no Prometheus, though it speaks its protocol."""
    with refusing(answering(data)) as url:
        assert main(["analyze", "--prometheus", url]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"mysql-headroom: {url}: ")
    assert "this is not a Prometheus response: no series;" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [("mark", "--name", "x", "--agent"), ("analyze", "--prometheus")],
    ids=lambda words: words[0],
)
def test_an_unclosed_ipv6_bracket_is_no_url(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """In an IPv6 address the last bracket was forgotten."""
    assert main([*words, "http://[::1:9090"]) == 2
    assert "'http://[::1:9090' is not a URL; write http://" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["first-secret\nsecond-secret\n", "sécret€\n"])
def test_an_invalid_token_is_not_shown(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of several lines cannot be sent, and the message has nothing of it."""
    token = tmp_path / "token"
    token.write_text(content)
    options = ["--token-file", str(token)]
    assert main(["analyze", "--prometheus", "http://127.0.0.1:9", *options]) == 2
    said = capsys.readouterr().err
    assert f"{token}: no token" in said
    assert "cret" not in said.replace(str(token), "")


def answering(data: str) -> Callable[[socket.socket], None]:
    """A success with these data as JSON, whatever is asked."""
    body = f'{{"status": "success", "data": {data}}}'.encode()
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    return lambda client: client.sendall(answer)


def test_a_label_that_is_no_text_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """It is read as its text; the samples, which these data are not, are what is missing."""
    with refusing(answering('[{"instance": 5}]')) as url:
        assert main(["analyze", "--prometheus", url]) == 1
    said = capsys.readouterr().err
    assert "this is not a Prometheus response: no samples;" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("pair", ["[1, 1{zeros}]", "[1{zeros}, 1]"])
def test_a_number_too_large_for_a_float_is_no_sample(pair: str) -> None:
    """The answer is refused with its remedy, as one of another form."""
    values = pair.format(zeros=400 * "0")
    data = f'{{"result": [{{"metric": {{}}, "values": [{values}]}}]}}'
    with refusing(answering(data)) as url, pytest.raises(PrometheusError, match="no samples;"):
        Client(Access(url)).samples("up", 0.0, 2.0)


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        ("404 Not Found", "check the URL"),
        ("500 Internal Server Error", "check the agent's log, or its proxy"),
        ("502 Bad Gateway", "check the agent's log, or its proxy"),
    ],
)
def test_a_url_is_doubted_only_where_it_may_be_wrong(
    status: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not where the agent, or a proxy before it, fails."""
    answer = f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode()
    with refusing(lambda client: client.sendall(answer)) as url:
        assert main(["mark", "--name", "x", "--agent", url]) == 1
    said = capsys.readouterr().err
    assert said == f"mysql-headroom: {url}: HTTP status {status[:3]}; {remedy}\n"
