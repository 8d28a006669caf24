"""Answers of a Prometheus that are compressed although that was not requested."""

import gzip
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from prometheus_server import exported, fill, serving
from recordings import rows

from agent.cli import main

START, LENGTH, STEP = 1_790_000_000, 1800, 15
SPAN = ("--since", "30m", "--until", str(START + LENGTH), "--no-hosts", "--format", "csv")
Change = Callable[[bytes], bytes]


@pytest.fixture(scope="module")
def url(prometheus: str, promtool: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that knows half an hour of one server."""
    samples = exported(rows(LENGTH, step=STEP, start=START), {"instance": "db1:9104"})
    with serving(prometheus, fill(tmp_path_factory.mktemp("packed"), promtool, samples)) as found:
        yield found


@contextmanager
def packing(
    upstream: str, encoding: str = "", change: Change = lambda packed: packed
) -> Iterator[tuple[str, list[str]]]:
    """A proxy that gets gzip from a Prometheus and passes it on; its URL, and the paths asked.

    `encoding` is said instead of what it is, and `change` damages it.
    """
    asked: list[str] = []

    class Proxy(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Forward, compressed or not by Prometheus' own choice: refusals too."""
            asked.append(self.path)
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {"Accept-Encoding": "gzip"}
            request = urllib.request.Request(upstream + self.path, body, headers)
            try:
                answer = urllib.request.urlopen(request, timeout=30)
            except urllib.error.HTTPError as error:
                answer = error
            with answer:
                content = change(answer.read())
                self.send_response(answer.status)
                self.send_header("Content-Encoding", encoding or answer.headers["Content-Encoding"])
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,)).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()


def said(
    capsys: pytest.CaptureFixture[str], url: str, *words: str
) -> tuple[int, list[str], list[str]]:
    """The exit code of `analyze`, and the lines of both outputs, without the URL."""
    code = main(["analyze", "--prometheus", url, *SPAN, *words])
    shown = capsys.readouterr()
    return code, shown.out.splitlines(), shown.err.replace(url, "URL").splitlines()


def one_error(capsys: pytest.CaptureFixture[str], url: str) -> str:
    """The only line that a failing `analyze` says."""
    code, shown, (error,) = said(capsys, url)
    assert (code, shown) == (1, [])
    return error


def test_gzip_is_unpacked(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A response and a refusal, also two gzip members in a row."""

    def in_two(packed: bytes) -> bytes:
        whole = gzip.decompress(packed)
        return gzip.compress(whole[:9]) + gzip.compress(whole[9:])

    for words in ((), ("--selector", "{job=}")):
        direct = said(capsys, url, *words)
        assert len(direct[1]) + len(direct[2]) > 0
        for change in (lambda packed: packed, in_two):
            with packing(url, change=change) as (packed, _):
                assert said(capsys, packed, *words) == direct


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, br"])
def test_another_encoding_is_one_line_with_the_remedy(
    url: str, capsys: pytest.CaptureFixture[str], encoding: str
) -> None:
    """It is requested once: a second response would be the same."""
    with packing(url, encoding) as (packed, asked):
        text = one_error(capsys, packed)
    assert f"URL: the encoding {encoding!r} of its answer is not read; let the" in text
    assert len(asked) == 1


def test_truncated_gzip_is_requested_again_and_is_one_line(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it is truncated."""
    monkeypatch.setattr("agent.prometheus.client.MIN_PAUSE", 0.01)
    for change in (lambda packed: packed[:-9], lambda _: b"", lambda _: b"plain"):
        with packing(url, "gzip", change) as (packed, asked):
            text = one_error(capsys, packed)
        assert "its gzip cannot be unpacked" in text
        assert len(asked) == 4


def test_the_size_limit_is_that_of_unpacked_gzip(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However small the compressed response is."""
    monkeypatch.setattr("agent.prometheus.client.MAX_BYTES", 2**20)
    zeros = gzip.compress(bytes(2**26))
    assert len(zeros) < 2**17
    with packing(url, "gzip", lambda _: zeros) as (packed, _):
        text = one_error(capsys, packed)
    assert "an answer of more than 1 MiB; narrow the selector" in text
