"""A client of Prometheus' HTTP API (https://prometheus.io/docs/prometheus/latest/querying/api/).

Thanos, Mimir and VictoriaMetrics offer it too. Requests are retried after transient failures; every
other failure is a `PrometheusError`, one line that names the server and the problem.
"""

import json
import math
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from agent.config.durations import duration_text
from agent.support.backoff import Backoff
from agent.support.errors import HeadroomError
from agent.support.http_client import (
    REFUSED_LOGIN_STATUSES,
    Access,
    AccessError,
    NoAnswerError,
    UntrustedError,
    one_line,
    read_answer,
    read_refusal,
    redirect_text,
    retry_after,
)
from models.arrays import Array

MAX_BYTES = 2**28
"""Bytes of one response; 400 series of 11,000 points take 120 MiB."""
MAX_TRIES = 4
MIN_PAUSE, MAX_PAUSE = 0.5, 8.0
"""Seconds between two tries."""
MAX_WAIT = 60.0
"""The longest time, s, that a server may ask to wait (Retry-After); if it asks for more, the
request is not sent again."""
TRANSIENT_STATUSES = (429, 500, 502, 503, 504)
"""HTTP status codes after which a request is retried."""
TOO_MUCH_STATUS = 422
"""The HTTP status code of a query that would load more samples than the server allows."""
MIN_PART_SECONDS = 60.0
"""A shorter time is not split further."""
REMEDIES: Mapping[int, str] = {
    400: "check the {query}",
    404: "check the URL, which ends before /api/v1 or /graph",
    405: "queries are POST requests, which a proxy must let pass",
    TOO_MUCH_STATUS: "check the {query}, or the server's limits of a query",
}
"""By HTTP status code; `{query}` is what the user has written."""
HISTOGRAM = "histogram"
NO_NUMBERS = ("matrix", "string", HISTOGRAM)
"""Types of results that are no numbers, as of `metric[5m]`; a vector may be of histograms."""
REMARK_ON_QUERY = "PromQL "
"""Begins a warning about the query itself, such as a counter's name: nothing is missing."""
MAX_REFUSAL_BYTES = 2**16
"""Bytes that are read of an error response."""

UNUSABLE = (TypeError, KeyError, ValueError, AttributeError, OverflowError)
"""Errors at an answer of another form, or with a number too large for a float."""

Labels = Mapping[str, str]
NAME = "__name__"
"""The label with the name of a series' metric."""


class PrometheusError(AccessError):
    """The server cannot be queried, or its response cannot be used; one line with the remedy."""


class TooMuchError(PrometheusError):
    """The server refuses as much at once, or its response is too large."""


class MissingSeriesError(HeadroomError):
    """The server has no series of what is asked for; the message is one line with the remedy."""


class Series(NamedTuple):
    """Samples of one series: times in Unix seconds, rising, and values, both of shape (n,)."""

    labels: Labels
    at: Array
    values: Array


class Client:
    """Queries one server; each query is one request, and the size of its response is limited.

    `warn` is called once for each reason why a response is incomplete.
    """

    def __init__(
        self,
        access: Access,
        sleep: Callable[[float], None] = time.sleep,
        tries: int = MAX_TRIES,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._url = access.base("http://HOST:9090")
        self._timeout = access.timeout
        self._access = access
        self._option = access.option
        self._query_word = "query" if access.is_configured else "selector"
        self._headers = {**access.headers, **access.authorisation()}
        self._opener = access.opener()
        self._sleep = sleep
        self._tries = tries
        self._warn = warn
        self._warned: set[str] = set()

    def series(self, selector: str, start: float, end: float) -> list[Labels]:
        """Return the label sets of the series that have samples in that time."""
        found = self._query(
            "series", {"match[]": selector, "start": _format_time(start), "end": _format_time(end)}
        )
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise self._unusable_error("series")
        return [_labels(one) for one in found]

    def samples(self, selector: str, start: float, end: float) -> list[Series]:
        """Return the samples of plain series, with their own times, after `start` up to `end`.

        If that is more than the server allows, they are read in halves.
        """
        width = math.ceil(end - start)
        query = {"query": f"{selector}[{width}s]", "time": _format_time(end)}
        try:
            return self._matrix(self._query("query", query), start, end)
        except TooMuchError:
            if end - start < 2 * MIN_PART_SECONDS:
                raise
        middle = (start + end) / 2
        return _joined(self.samples(selector, start, middle), self.samples(selector, middle, end))

    def range(self, query: str, start: float, end: float, step: float) -> list[Series]:
        """Evaluate an expression at each step after `start` up to `end`.

        Prometheus refuses more than 11,000 steps. If it is otherwise more than the server allows,
        halves are evaluated.
        """
        wanted = {
            "query": query,
            "start": _format_time(start),
            "end": _format_time(end),
            "step": f"{step:g}",
        }
        try:
            return self._matrix(self._query("query_range", wanted), start, end)
        except TooMuchError:
            steps = math.floor((end - start) / step)
            if steps < 2:
                raise
        middle = start + step * (steps // 2)
        return _joined(self.range(query, start, middle, step), self.range(query, middle, end, step))

    def instant_values(self, query: str) -> list[float]:
        """Return an expression's values now: one of a scalar, one for each series of a vector."""
        data = self._query("query", {"query": query})
        try:
            kind, rows = data["resultType"], data["result"]
            if kind == "vector" and any(HISTOGRAM in row for row in rows):
                kind = HISTOGRAM
            if kind in NO_NUMBERS:
                problem = f"the query returned a {kind} instead of a number"
                raise PrometheusError(f"{self._url}: {problem}; check the {self._query_word}")
            pairs = [rows] if kind == "scalar" else [row["value"] for row in rows]
            return [float(value) for _, value in pairs]
        except UNUSABLE:
            raise self._unusable_error("instant value") from None

    def _matrix(self, data: Any, start: float, end: float) -> list[Series]:
        try:
            return [_one_series(one, start, end) for one in data["result"]]
        except UNUSABLE:
            raise self._unusable_error("samples") from None

    def _query(self, endpoint: str, query: Mapping[str, str]) -> Any:
        """Return the data of the response; retry after transient failures."""
        body = urllib.parse.urlencode(query).encode()
        request = urllib.request.Request(  # noqa: S310  (http or https, as checked)
            f"{self._url}/api/v1/{endpoint}", data=body, headers=self._headers
        )
        backoff = Backoff(MIN_PAUSE, MAX_PAUSE)
        for tries_left in reversed(range(self._tries)):
            try:
                return self._read(request)
            except _TransientError as error:
                if not tries_left or error.wait > MAX_WAIT:
                    tries = self._tries - tries_left
                    tried = f"; tried {tries} times" if tries > 1 else ""
                    raise PrometheusError(f"{self._url}: {error}{tried}") from None
                self._sleep(max(backoff.failed(), error.wait))
        raise AssertionError

    def _read(self, request: urllib.request.Request) -> Any:
        try:
            content = read_answer(self._opener, request, self._timeout, MAX_BYTES + 1)
        except urllib.error.HTTPError as error:
            content = read_refusal(error, MAX_REFUSAL_BYTES)
            raise self._http_error(error, content, request) from None
        except UntrustedError as error:
            text = one_line(self._access.untrusted_text(error))
            raise PrometheusError(f"{self._url}: {text}") from None
        except AccessError as error:
            raise PrometheusError(f"{self._url}: {error}") from None
        except NoAnswerError as error:
            raise _TransientError(
                f"no answer ({one_line(error)}); check the URL, or give a longer"
                f" {self._option('timeout')}"
            ) from None
        if len(content) > MAX_BYTES:
            problem = f"an answer of more than {MAX_BYTES // 2**20} MiB"
            raise TooMuchError(f"{self._url}: {problem}; narrow the {self._query_word}")
        try:
            found = json.loads(content)
            if found["status"] == "success":
                self._warn_of_gaps(found)
                return found["data"]
            problem = one_line(found["error"])
        except (ValueError, TypeError, KeyError, RecursionError):
            raise self._unusable_error("answer") from None
        remedy = f"check the {self._query_word}, or the server and its proxy"
        raise PrometheusError(f"{self._url}: {problem}; {remedy}")

    def _warn_of_gaps(self, found: Mapping[str, Any]) -> None:
        """Pass on what the server says is missing; VictoriaMetrics says only that something is."""
        warnings = map(one_line, found.get("warnings") or ())
        causes = [text for text in warnings if not text.startswith(REMARK_ON_QUERY)]
        if found.get("isPartial") is True:
            causes.append("not all of its storage answered")
        for cause in causes:
            if cause not in self._warned:
                self._warned.add(cause)
                self._warn(f"{self._url}: an answer may not be complete: {cause}")

    def _http_error(
        self, error: urllib.error.HTTPError, content: bytes, request: urllib.request.Request
    ) -> Exception:
        """Map an HTTP error and the content of its answer to an exception with a remedy."""
        code = error.code
        if code in REFUSED_LOGIN_STATUSES:
            others = () if self._access.is_configured else ("the --tenant of a Mimir",)
            refusal = self._access.refused_login_text(code, request, *others)
            return PrometheusError(f"{self._url}: {refusal}")
        if redirected := redirect_text(error):
            return PrometheusError(f"{self._url}: {redirected}")
        try:
            text = one_line(json.loads(content)["error"])
        except (ValueError, TypeError, KeyError, RecursionError):
            text = f"HTTP status {code}"
        if code in TRANSIENT_STATUSES:
            wait = retry_after(error)
            later = f"in {duration_text(wait)}" if wait else "later"
            remedy = f"check the server or its proxy, or try again {later}"
            return _TransientError(f"{text}; {remedy}", wait)
        kind = TooMuchError if code == TOO_MUCH_STATUS else PrometheusError
        remedy = REMEDIES.get(code, "check the URL").format(query=self._query_word)
        return kind(f"{self._url}: {text}; {remedy}")

    def _unusable_error(self, what: str) -> PrometheusError:
        text = f"this is not a Prometheus response: no {what}"
        return PrometheusError(f"{self._url}: {text}; check the URL, including its path")


class _TransientError(Exception):
    """A failure after which the request is retried, at the earliest after `wait` seconds."""

    def __init__(self, message: str, wait: float = 0.0) -> None:
        super().__init__(message)
        self.wait = wait


def split_period(start: float, end: float, length: float) -> Sequence[tuple[float, float]]:
    """Split a time into consecutive parts of at most that length; all in seconds."""
    count = max(1, math.ceil((end - start) / length))
    edges = [start + k * length for k in range(count)] + [end]
    return list(pairwise(edges))


def _one_series(one: Mapping[str, Any], start: float, end: float) -> Series:
    """Return the samples after `start` up to `end`, in order; values not finite are left out."""
    pairs = np.array([(at, float(value)) for at, value in one["values"]], dtype=np.float64)
    at, values = pairs.reshape(-1, 2).T
    kept = np.isfinite(values) & (at > start) & (at <= end) & (np.diff(at, prepend=-np.inf) > 0)
    return Series(_labels(one["metric"]), at[kept], values[kept])


def _labels(found: Mapping[str, Any]) -> Labels:
    """Return the labels as texts, also where an answer has other values."""
    return {name: str(value) for name, value in found.items()}


def _joined(first: Sequence[Series], second: Sequence[Series]) -> list[Series]:
    """Return the series of two consecutive times, each with its samples of both."""
    found: dict[frozenset[tuple[str, str]], Series] = {}
    for series in (*first, *second):
        key = frozenset(series.labels.items())
        if key in found:
            before = found[key]
            at = np.concatenate((before.at, series.at))
            series = Series(before.labels, at, np.concatenate((before.values, series.values)))
        found[key] = series
    return list(found.values())


def _format_time(at: float) -> str:
    return f"{at:.3f}"
