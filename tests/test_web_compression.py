"""Compressed pages: who gets them, and what they cost."""

import gzip
import http.client
import itertools
import json
import re
import urllib.request
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from prometheus_server import serving
from web_clients import listening, snapshot

from agent.web import compressed_body
from agent.web.compressed_body import MIN_BYTES, Body, accepts_gzip
from testbed.real.daemon import wait_until

WORD = re.compile(r"\b[a-z_]+\b")
BROWSER = "gzip, deflate, br, zstd"
ACCEPTED = (
    "gzip",
    "GZip",
    "x-gzip",
    BROWSER,
    "*",
    "br, *;q=0.1",
    "gzip;q=0.001",
    "gzip ; q=0.5,identity; q=0.5",
    "identity;q=0, gzip;q=0.1",
)
NOT_ACCEPTED = (
    "",
    "identity",
    "br, zstd, deflate",
    "gzip;q=0",
    "gzip;q=0.000, *",
    "*;q=0",
    "identity, gzip;q=0.5",
    "identity, *;q=0.5",
    "gzip;q=2",
    "gzip;q=-1",
    "gzip;q=1e0",
    "gzip;q=nan",
    "gzip;q=",
    "gzip;level=9",
    "gzipped",
    "not-gzip",
    ";;;,,,=;q=x",
)


TARGETS = range(20)
CHOSEN = "&".join(f"target=db{number}" for number in TARGETS)


@pytest.fixture
def port() -> Iterator[int]:
    """That of a server with some targets."""
    with listening(
        *(replace(snapshot(True), target=f"db{number}") for number in TARGETS)
    ) as server:
        yield server.server_port


@pytest.fixture
def compressions(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The bytes of every response that has been compressed so far."""
    compress, done = compressed_body.compressed, list[bytes]()

    def noted(plain: bytes) -> bytes:
        done.append(plain)
        return compress(plain)

    monkeypatch.setattr(compressed_body, "compressed", noted)
    return done


def received(
    port: int, path: str, accepted: str, method: str = "GET"
) -> tuple[http.client.HTTPMessage, bytes]:
    """Return the headers and the bytes as sent."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.request(method, path, headers={"Accept-Encoding": accepted})
        response = connection.getresponse()
        assert response.status == 200
        return response.headers, response.read()


@pytest.mark.parametrize("accepted", ACCEPTED)
def test_gzip_is_accepted(accepted: str) -> None:
    """By name, in any case, or as one of all; equal weights leave the choice to the server."""
    assert accepts_gzip(accepted)


@pytest.mark.parametrize("accepted", NOT_ACCEPTED)
def test_gzip_is_not_accepted(accepted: str) -> None:
    """Not named, refused, preferred less than plain bytes, or malformed: plain is never wrong."""
    assert not accepts_gzip(accepted)


@pytest.mark.parametrize(
    "path", ["/metrics", "/", "/api/v1/snapshot", "/?target=db1", f"/api/v1/snapshot?{CHOSEN}"]
)
def test_a_client_that_accepts_gzip_gets_the_same_in_fewer_bytes(port: int, path: str) -> None:
    """Shared or made for this request alone."""
    headers, plain = received(port, path, "identity")
    assert headers["Content-Encoding"] is None
    shorter, packed = received(port, path, BROWSER)
    assert shorter["Content-Encoding"] == "gzip"
    assert shorter["Vary"] == headers["Vary"] == "Accept-Encoding"
    assert int(shorter["Content-Length"]) == len(packed) < len(plain) / 2
    assert shorter["Content-Type"] == headers["Content-Type"]
    assert WORD.findall(gzip.decompress(packed).decode()) == WORD.findall(plain.decode())


def test_head_announces_what_get_sends(port: int) -> None:
    """The same headers, without a body."""
    for accepted in ("gzip", "identity"):
        headers, body = received(port, "/?refresh=no", accepted, "HEAD")
        expected, sent = received(port, "/?refresh=no", accepted)
        assert body == b""
        assert (headers["Content-Encoding"], headers["Vary"]) == (
            expected["Content-Encoding"],
            expected["Vary"],
        )
        assert headers["Content-Length"] == str(len(sent))


def test_a_short_response_stays_plain(port: int) -> None:
    """It is in one packet either way, and is the same for all clients."""
    headers, body = received(port, "/-/healthy", "gzip")
    assert (headers["Content-Encoding"], headers["Vary"]) == (None, None)
    assert body == b"mysql-headroom is Healthy.\n"
    for size, encoded in ((MIN_BYTES - 1, False), (MIN_BYTES, True)):
        assert (Body(bytes(size)).encoded("gzip")[0] != bytes(size)) is encoded


def test_clients_that_ask_differently_share_one_compression(compressions: list[bytes]) -> None:
    """However their headers are spelt: in a flood it costs no more."""
    body = Body(bytes(100_000))
    asked = list(itertools.islice(itertools.cycle(ACCEPTED + NOT_ACCEPTED), 500))
    with ThreadPoolExecutor(8) as pool:
        sent = list(pool.map(lambda accepted: body.encoded(accepted)[0], asked))
    assert len(compressions) == 1
    assert len({id(content) for content in sent}) == 2
    for accepted, content in zip(asked, sent, strict=True):
        assert (content is not body.plain) is (accepted in ACCEPTED)


def test_equal_responses_are_compressed_to_equal_bytes() -> None:
    """No time is written into them."""
    packed = [Body(bytes(5000)).encoded("gzip")[0] for _ in range(2)]
    assert packed[0] == packed[1]
    assert zlib.decompress(packed[0], 31) == bytes(5000)


def test_prometheus_scrapes_it_compressed(
    port: int, compressions: list[bytes], prometheus: str, tmp_path: Path
) -> None:
    """It accepts gzip, and reads it."""
    job = {"job_name": "agent", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
    config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [job]}
    with serving(prometheus, tmp_path / "data", config=config) as url:
        wait_until("it is scraped", lambda: value(url, 'up{job="agent"}') == 1.0)
        assert value(url, "count(mysql_headroom_up)") == len(TARGETS)
    assert all(plain.endswith(b"# EOF\n") for plain in compressions)
    assert compressions


def value(url: str, query: str) -> float | None:
    """Return the one value of a query at present; None if there is none."""
    with urllib.request.urlopen(f"{url}/api/v1/query?query={quote(query)}", timeout=20) as answer:
        found = json.load(answer)["data"]["result"]
    return float(found[0]["value"][1]) if found else None
