"""A client of Prometheus' HTTP API (https://prometheus.io/docs/prometheus/latest/querying/api/).

Thanos, Mimir and VictoriaMetrics answer it too. A failure that may pass is tried again; every other
is a `PrometheusError`, one line that says what was asked of whom.
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

from agent.support.backoff import Backoff
from agent.support.http_client import (
    Access,
    AccessError,
    NoAnswerError,
    UntrustedError,
    read_answer,
)
from models.rates import Array

MAX_POINTS = 11_000
"""Steps of one series in one answer: what Prometheus gives at most."""
MAX_BYTES = 2**28
"""Of one answer; 400 series of 11,000 points take 120 MiB."""
MAX_TRIES = 4
MIN_PAUSE, MAX_PAUSE = 0.5, 8.0
"""Seconds between two of them."""
TRANSIENT_STATUSES = (429, 500, 502, 503, 504)
"""Answers after which it is tried again."""
MAX_REFUSAL_BYTES = 2**16
"""Bytes of an answer that is none."""
MAX_TEXT_LENGTH = 200
"""Characters of a message that are shown."""

Labels = Mapping[str, str]


class PrometheusError(AccessError):
    """The server cannot be asked, or its answer cannot be used; one line with the remedy."""


class Series(NamedTuple):
    """Samples of one series: times in Unix seconds, rising, and values, both of shape (n,)."""

    labels: Labels
    at: Array
    values: Array


class Client:
    """Asks one server; each question is one request, and its answer is bounded."""

    def __init__(
        self, access: Access, sleep: Callable[[float], None] = time.sleep, tries: int = MAX_TRIES
    ) -> None:
        self._url = access.base("http://HOST:9090")
        self._timeout = access.timeout
        self._headers = {**access.headers, **access.authorisation()}
        self._opener = access.opener()
        self._sleep = sleep
        self._tries = tries

    def series(self, selector: str, start: float, end: float) -> list[Labels]:
        """The label sets of the series that have samples in that time."""
        found = self._ask("series", {"match[]": selector, "start": _time(start), "end": _time(end)})
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise self._unusable("series")
        return found

    def samples(self, selector: str, start: float, end: float) -> list[Series]:
        """The samples of plain series, with their own times, after `start` up to `end`."""
        width = math.ceil(end - start)
        query = {"query": f"{selector}[{width}s]", "time": _time(end)}
        return self._matrix(self._ask("query", query), start, end)

    def range(self, query: str, start: float, end: float, step: float) -> list[Series]:
        """An expression at each step after `start` up to `end`, at most `MAX_POINTS` of them."""
        wanted = {"query": query, "start": _time(start), "end": _time(end), "step": f"{step:g}"}
        return self._matrix(self._ask("query_range", wanted), start, end)

    def now(self, query: str) -> list[float]:
        """The values of an expression now: of a scalar one, of a vector one for each series."""
        data = self._ask("query", {"query": query})
        try:
            rows = data["result"]
            pairs = [rows] if data["resultType"] == "scalar" else [row["value"] for row in rows]
            return [float(value) for _, value in pairs]
        except (TypeError, KeyError, ValueError, AttributeError):
            raise self._unusable("instant value") from None

    def _matrix(self, data: Any, start: float, end: float) -> list[Series]:
        try:
            return [_one_series(one, start, end) for one in data["result"]]
        except (TypeError, KeyError, ValueError, AttributeError):
            raise self._unusable("samples") from None

    def _ask(self, what: str, query: Mapping[str, str]) -> Any:
        """The data of the answer; what may pass is waited for."""
        body = urllib.parse.urlencode(query).encode()
        request = urllib.request.Request(  # noqa: S310  (http or https, as checked)
            f"{self._url}/api/v1/{what}", data=body, headers=self._headers
        )
        backoff = Backoff(MIN_PAUSE, MAX_PAUSE)
        for left in reversed(range(self._tries)):
            try:
                return self._read(request)
            except _MayPassError as error:
                if not left:
                    tried = f"; tried {self._tries} times" if self._tries > 1 else ""
                    raise PrometheusError(f"{self._url}: {error}{tried}") from None
                self._sleep(backoff.failed())
        raise AssertionError

    def _read(self, request: urllib.request.Request) -> Any:
        try:
            content = read_answer(self._opener, request, self._timeout, MAX_BYTES + 1)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error.code, error.read(MAX_REFUSAL_BYTES)) from None
        except UntrustedError as error:
            raise self._untrusted(error) from None
        except NoAnswerError as error:
            raise _MayPassError(f"no answer ({_shown(error)})") from None
        if len(content) > MAX_BYTES:
            problem = f"an answer of more than {MAX_BYTES // 2**20} MiB"
            raise PrometheusError(f"{self._url}: {problem}; narrow the selector")
        try:
            found = json.loads(content)
            if found["status"] == "success":
                return found["data"]
        except (ValueError, TypeError, KeyError, RecursionError):
            pass
        raise self._unusable("answer")

    def _refusal(self, code: int, content: bytes) -> Exception:
        """Map an HTTP error to an exception with a remedy."""
        if code in (401, 403):
            remedy = "give --user with --password-file, or --token-file"
            return PrometheusError(f"{self._url}: the login is refused ({code}); {remedy}")
        try:
            text = _shown(json.loads(content)["error"])
        except (ValueError, TypeError, KeyError, RecursionError):
            text = f"it answers {code}"
        if code in TRANSIENT_STATUSES:
            return _MayPassError(text)
        remedy = "check the selector" if code in (400, 422) else "check the URL"
        return PrometheusError(f"{self._url}: {text}; {remedy}")

    def _untrusted(self, why: UntrustedError) -> PrometheusError:
        text = f"its certificate is not verified ({_shown(why)})"
        return PrometheusError(f"{self._url}: {text}; name its authority with --ca")

    def _unusable(self, what: str) -> PrometheusError:
        text = f"this is not Prometheus' {what}"
        return PrometheusError(f"{self._url}: {text}; check the URL, its path too")


class _MayPassError(Exception):
    """A failure that the next try may not have."""


def chunks(start: float, end: float, length: float) -> Sequence[tuple[float, float]]:
    """A time in parts of at most that length, one after the other; all in seconds."""
    count = max(1, math.ceil((end - start) / length))
    edges = [start + k * length for k in range(count)] + [end]
    return list(pairwise(edges))


def _one_series(one: Mapping[str, Any], start: float, end: float) -> Series:
    """Samples after `start` up to `end`, in order; what is not a number is left out."""
    pairs = np.array([(at, float(value)) for at, value in one["values"]], dtype=np.float64)
    at, values = pairs.reshape(-1, 2).T
    kept = np.isfinite(values) & (at > start) & (at <= end) & (np.diff(at, prepend=-np.inf) > 0)
    labels = {str(name): str(value) for name, value in one["metric"].items()}
    return Series(labels, at[kept], values[kept])


def _time(at: float) -> str:
    return f"{at:.3f}"


def _shown(text: object) -> str:
    """One line of a message from outside, shortened."""
    return " ".join(str(text).split())[:MAX_TEXT_LENGTH]
