"""The ways out over HTTP, over a real socket: what each path answers, and nobody can block it."""

import itertools
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from weakref import WeakSet

import pytest
from fuzzing import fuzz
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from web_clients import NOW, ask, eventually, listening, snapshot

from agent.web import application, shared_responses
from agent.web.compressed_body import Body
from agent.web.http_listener import IDLE_SECONDS, MAX_CONNECTIONS, WebServer
from agent.web.http_request_handler import MAX_REQUEST_BYTES, Environ, StartResponse
from agent.web.pending_connections import PendingConnections

LATIN = st.characters(codec="latin-1", exclude_characters="\r\n")
MALFORMED = (
    *("text/plain;version=abc", "text/plain;version=", "text/plain;version=1..", "a;;;=,,,"),
    *(
        "application/openmetrics-text;version=1.x",
        "text/plain;version=1",
        "text/plain;version=1.0.0e",
    ),
    "text/plain;version=" + "9" * 5000,
)


@pytest.fixture
def server() -> Iterator[WebServer]:
    """A server that watches one target that is up."""
    with listening(snapshot(True)) as found:
        yield found


@pytest.fixture
def port(server: WebServer) -> int:
    """Its port."""
    return int(server.server_port)


def connected(port: int, source: str = "127.0.0.1") -> socket.socket:
    """A connection that says nothing yet."""
    return socket.create_connection(("127.0.0.1", port), 20, source_address=(source, 0))


@contextmanager
def crowd(port: int, size: int, begin: bytes, source: str = "127.0.0.1") -> Iterator[None]:
    """So many clients that send that and then hold their connection."""
    with ExitStack() as held:
        for _ in range(size):
            connection = held.enter_context(connected(port, source))
            with suppress(OSError):  # pushed out already
                connection.sendall(begin)
        yield


def raw(port: int, request: bytes) -> bytes:
    """All that comes back for those bytes; nothing where the server hangs up."""
    with connected(port) as connection:
        try:
            connection.sendall(request)
            return connection.makefile("rb").read()
        except ConnectionError:
            return b""


def test_metrics_are_served_in_the_requested_format(port: int) -> None:
    """Prometheus may request its text format or OpenMetrics."""
    status, headers, body = ask(port, "/metrics")
    assert (status, headers["Content-Type"].split(";")[0]) == (200, "text/plain")
    assert 'mysql_headroom_up{target="db<1>"} 1.0' in body
    _, headers, body = ask(port, "/metrics", Accept="application/openmetrics-text;version=1.0.0")
    assert headers["Content-Type"].startswith("application/openmetrics-text")
    assert body.endswith("# EOF\n")


def test_any_accept_header_gets_one_of_two_formats(port: int) -> None:
    """Each format is cached: versions and escapings that clients make up add none."""
    media = ("text/plain", "application/openmetrics-text")
    versions = ("0.0.1", "0.0.4", "1.0.0", "1.0.1", "9.99.99")
    escapings = ("", ";escaping=allow-utf-8", ";escaping=dots", ";escaping=values")
    kinds = {
        ask(port, "/metrics", Accept=f"{medium};version={version}{escaping}")[1]["Content-Type"]
        for medium, version, escaping in itertools.product(media, versions, escapings)
    }
    assert sorted(kind.split(";")[0] for kind in kinds) == sorted(media)


def test_a_response_is_deleted_though_no_other_is_asked_for(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two scrapes nothing is kept: the metrics of a thousand targets take 37 MB."""
    kept = WeakSet[Body]()

    def body(plain: bytes) -> Body:
        made = Body(plain)
        kept.add(made)
        return made

    monkeypatch.setattr(shared_responses, "Body", body)
    for path in ("/metrics", "/"):
        assert ask(port, path)[0] == 200
    assert len(kept) == 2
    assert eventually(lambda: not kept)


def test_the_page_is_html_and_escapes_names(port: int) -> None:
    """A target's name cannot become markup."""
    status, headers, body = ask(port, "/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "db&lt;1&gt;" in body
    assert "db<1>" not in body
    assert "No prediction yet: no load yet." in body


def test_the_page_can_be_kept_as_it_is(port: int) -> None:
    """A reload ends a selection, and folds what was unfolded: a link leads to a page without."""
    reloaded, still = (ask(port, path)[2] for path in ("/", "/?refresh=no"))
    assert 'http-equiv="refresh"' in reloaded
    assert '<a href="?refresh=no">' in reloaded
    assert 'http-equiv="refresh"' not in still
    assert " UTC, not reloaded: " in still
    assert '<a href="?">' in still
    assert ask(port, "/")[2] == reloaded


def test_health_and_readiness_respond_as_prometheus_does(port: int) -> None:
    """Healthy while it serves, ready once every target was tried."""
    assert ask(port, "/-/healthy")[::2] == (200, "mysql-headroom is Healthy.\n")
    assert ask(port, "/-/ready")[::2] == (200, "mysql-headroom is Ready.\n")
    with listening(snapshot(True), snapshot(None)) as starting:
        assert ask(starting.server_port, "/-/ready")[::2] == (503, "Service Unavailable\n")
        assert ask(starting.server_port, "/-/healthy")[0] == 200
    with listening(snapshot(False)) as down:
        assert ask(down.server_port, "/-/ready")[0] == 200


@pytest.mark.parametrize("path", ["/metrics/", "/metric", "/favicon.ico", "/../etc/passwd", "/%00"])
def test_an_unknown_path_is_not_found(port: int, path: str) -> None:
    """Only documented paths respond."""
    assert ask(port, path)[0] == 404


@pytest.mark.parametrize("accept", MALFORMED)
def test_a_malformed_accept_header_gets_the_default_format(
    port: int, caplog: pytest.LogCaptureFixture, accept: str
) -> None:
    """A version that is not a number causes no exception."""
    status, headers, body = ask(port, "/metrics", Accept=accept)
    assert (status, headers["Content-Type"].split(";")[0]) == (200, "text/plain")
    assert body.startswith("# HELP")
    assert "a request failed" not in caplog.text


WORDS = st.sampled_from(
    [*'/;,=.*" -', "version", "q", "escaping", "text/plain", "application/openmetrics-text"]
)
HEADER = st.lists(WORDS | st.text(LATIN, max_size=5), max_size=9).map("".join)


@fuzz(300)
@given(
    path=st.sampled_from(["/metrics", "/metrics", "/", "/api/v1/snapshot", application.RELOAD]),
    accept=HEADER,
    query=HEADER,
    method=st.sampled_from(["GET", "HEAD", "POST", "PUT", "X"]),
)
def test_no_header_or_query_causes_an_exception(
    path: str, accept: str, query: str, method: str
) -> None:
    """Each request gets one of the known statuses."""
    pages = application.Pages(CollectorRegistry(), lambda: [snapshot(True)], lambda: NOW)
    said: list[str] = []
    pages(
        {
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": method,
            "HTTP_ACCEPT": accept,
        },
        lambda status, headers: said.append(status),
    )
    assert said[0].split()[0] in ("200", "400", "403", "404", "405")


@pytest.mark.parametrize(
    "path",
    [
        "/%252d/reload",
        "/%2d/reload",
        "/-%2freload",
        "/%2D%2Freload",
        "//-/reload",
        "/-//reload",
        "/./-/reload",
        "/x/../-/reload",
        "/-/reload/",
        "/-/reload%00",
        "/-/reload#x",
        "/%6detrics",
        "//metrics",
    ],
)
def test_an_equivalent_spelling_of_a_path_is_not_found(path: str) -> None:
    """Escapes or more slashes cannot bypass a proxy's rule for a path."""
    asked: list[None] = []

    def reload() -> list[str]:
        asked.append(None)
        return []

    with listening(snapshot(True), reload=reload) as server:
        for method in (b"POST", b"GET"):
            request = b"%s %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % (method, path.encode())
            assert raw(server.server_port, request).startswith(b"HTTP/1.0 404 ")
        assert asked == []
        assert ask(server.server_port, application.RELOAD, "POST")[0] == 200
    assert asked == [None]


def test_head_has_no_body_and_other_methods_are_refused(port: int) -> None:
    """Nothing can be posted; HEAD returns the headers alone."""
    status, headers, body = ask(port, "/-/healthy", "HEAD")
    assert (status, headers["Content-Length"], body) == (200, "27", "")
    status, headers, _ = ask(port, "/metrics", "POST")
    assert (status, headers["Allow"]) == (405, "GET, HEAD")


def test_every_response_has_the_security_headers(port: int) -> None:
    """No script, frame, sniffing or cache; and no name or version of the software."""
    for path in ("/", "/metrics", "/nothing"):
        _, headers, _ = ask(port, path)
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Server"] == "mysql-headroom"


def web_threads() -> int:
    """How many threads serve now, the accepting one among them."""
    return sum(thread.name == "web" for thread in threading.enumerate())


def test_silent_clients_are_dropped_at_the_deadline(server: WebServer) -> None:
    """A connection without a request holds no thread longer."""
    server.connection_limiter.deadline = 0.3
    silent = [connected(server.server_port) for _ in range(10)]
    assert ask(server.server_port)[0] == 200
    for connection in silent:
        assert connection.recv(1) == b""
        connection.close()
    assert eventually(lambda: web_threads() == 1)


def test_the_deadline_is_for_the_whole_request(server: WebServer) -> None:
    """A client that sends a byte now and then is dropped like a silent one."""
    server.connection_limiter.deadline = 0.5
    with connected(server.server_port) as slow:
        slow.settimeout(0.05)
        started = time.monotonic()
        ended = False
        for byte in b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 1000:
            try:
                slow.sendall(bytes([byte]))
                ended = slow.recv(1) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                ended = True
            if ended:
                break
    assert ended
    assert time.monotonic() - started >= 0.4


def test_a_client_that_does_not_read_the_response_is_dropped(server: WebServer) -> None:
    """Writing is within the deadline as well."""

    def much(environ: Environ, start: StartResponse) -> list[bytes]:
        start("200 OK", [])
        return [b"x" * 50_000_000]

    server.set_app(much)
    server.connection_limiter.deadline = 0.5
    with connected(server.server_port) as deaf:
        deaf.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert eventually(lambda: web_threads() == 2)
        assert eventually(lambda: web_threads() == 1)


@pytest.mark.parametrize("begin", [b"", b"GET /metrics HTTP/1.1\r\nHost: a\r\n"])
@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.2"])
def test_two_hundred_slow_clients_delay_no_scrape(port: int, begin: bytes, source: str) -> None:
    """A real scraper is answered within a second, also from the slow clients' address."""
    took = []
    with crowd(port, 200, begin, source):
        for _ in range(20):
            started = time.monotonic()
            assert ask(port, "/metrics")[0] == 200
            took.append(time.monotonic() - started)
        assert sorted(took)[10] < 1.0
        assert web_threads() < 10  # one that is slow has none


@pytest.mark.parametrize("begin", [b"", b"GET /metrics HTTP/1.1\r\nHost: a\r\n"])
def test_an_incomplete_request_takes_no_thread(port: int, begin: bytes) -> None:
    """The accepting thread watches many of them; a request is served once it is complete."""
    with connected(port, "127.0.0.3") as late, crowd(port, 100, begin):
        late.sendall(b"GET /-/healthy")
        assert ask(port)[0] == 200
        assert eventually(lambda: web_threads() == 1)
        late.sendall(b" HTTP/1.0\r\n\r\n")
        assert late.recv(15) == b"HTTP/1.0 200 OK"


def test_connections_are_accepted_at_a_bounded_pace(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients that reconnect again and again wait in the kernel's queue; each is answered."""
    monkeypatch.setattr("agent.web.http_listener.MAX_ACCEPTED_PER_SECOND", 20.0)
    monkeypatch.setattr("agent.web.http_listener.ACCEPT_BURST", 2)
    started = time.monotonic()
    assert {ask(port)[0] for _ in range(12)} == {200}
    assert time.monotonic() - started > 0.4


def test_many_connections_from_one_address_displace_their_own(port: int) -> None:
    """A slow client of another address keeps its connection."""
    with connected(port, "127.0.0.3") as patient, crowd(port, 2 * MAX_CONNECTIONS, b"GET"):
        assert ask(port)[0] == 200
        patient.sendall(b"GET /-/healthy HTTP/1.0\r\n\r\n")
        assert patient.recv(15) == b"HTTP/1.0 200 OK"


def test_aborted_connections_are_not_logged(
    server: WebServer, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """A disconnect at any point leaves no trace in the log, and no thread."""
    for part in (b"", b"GET", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\n\r\n"):
        with connected(server.server_port) as rude:
            rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            rude.sendall(part)
    assert eventually(lambda: web_threads() == 1)
    assert [r for r in caplog.records if r.levelname != "DEBUG"] == []
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("request_line", "expected"),
    [
        (b"GET /" + b"a" * MAX_REQUEST_BYTES + b" HTTP/1.1\r\n\r\n", b"414 "),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * MAX_REQUEST_BYTES + b"\r\n\r\n", b"431 "),
        (b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 101 + b"\r\n", b"431 "),
        (b"GET / HTTP/1.1\r\n" + b"X: " + b"a" * 1_000_000, b"431 "),
        (b"GET / HTTP/9.9\r\n\r\n", b"505 "),
        (b"GET\r\n\r\n", b"400 "),
        (b"\x16\x03\x01\x02\x00\x01\n\r\n", b""),  # TLS
        (b"\r\n\r\n", b""),
    ],
)
def test_a_malformed_request_is_refused(port: int, request_line: bytes, expected: bytes) -> None:
    """Size and number of headers are limited, and the response repeats nothing of them."""
    answer = raw(port, request_line)
    if expected:
        assert answer.startswith(b"HTTP/1.0 " + expected)
        assert b"nosniff" in answer
    else:
        assert answer == b""
    assert b"aaaa" not in answer
    assert b"Python" not in answer
    assert ask(port)[0] == 200


def test_a_request_body_is_not_read_and_the_refusal_arrives(port: int) -> None:
    """A client that posts a lot still reads the refusal."""
    body = b"x" * 100_000
    request = b"POST /metrics HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert raw(port, request + body).startswith(b"HTTP/1.0 405 ")


def test_an_exception_in_a_page_is_logged_and_the_next_is_served(
    server: WebServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The client gets a short error, not a trace."""
    pages = server.get_app()
    server.set_app(lambda environ, start: 1 / 0)  # type: ignore[arg-type,return-value]
    status, _, body = ask(server.server_port)
    assert (status, body) == (500, "500 internal server error\n")
    assert "a request failed" in caplog.text
    server.set_app(pages)
    assert ask(server.server_port)[0] == 200


def test_an_idle_server_sleeps_and_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No polling while there is no deadline to enforce."""
    poll, waits = PendingConnections.poll, list[float]()

    def noted(pending: PendingConnections, seconds: float) -> bool:
        waits.append(seconds)
        return poll(pending, seconds)

    monkeypatch.setattr(PendingConnections, "poll", noted)
    with listening() as server:
        assert ask(server.server_port)[0] == 200
        end = time.monotonic() + IDLE_SECONDS
        while waits[-1] < IDLE_SECONDS and time.monotonic() < end:
            time.sleep(0.05)
        assert waits[-1] == IDLE_SECONDS
        begun = time.monotonic()
    assert time.monotonic() - begun < IDLE_SECONDS / 2


def test_an_address_in_use_is_an_error(port: int) -> None:
    """So that the daemon can end with a message."""
    pages = application.Pages(CollectorRegistry(), list, lambda: NOW)
    with pytest.raises(OSError, match="in use"):
        application.serve_in_background(("127.0.0.1", port), pages)


def test_it_listens_on_ipv6_and_on_every_interface() -> None:
    """The socket's family follows the address."""
    pages = application.Pages(CollectorRegistry(), list, lambda: NOW)
    for host, reach in (("::1", "::1"), ("", "127.0.0.1"), ("", "::1"), ("::", "127.0.0.1")):
        server = application.serve_in_background((host, 0), pages)
        try:
            with socket.create_connection((reach, server.server_port), 5) as connection:
                connection.sendall(b"GET /-/healthy HTTP/1.0\r\n\r\n")
                assert connection.makefile("rb").readline() == b"HTTP/1.0 200 OK\r\n"
        finally:
            server.shutdown()
            server.server_close()
