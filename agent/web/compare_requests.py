"""Comparison of before and after a time, over HTTP: as JSON, and as a page that markers link to.

Each request reads the agent's history and assesses each side, so the time on a side is bounded.
"""

import math
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus

from agent.assessment.snapshot import Snapshot
from agent.compare.comparison import Comparison
from agent.compare.periods import MIN_SECONDS, TooEarlyError
from agent.export.comparison_json import comparison_object
from agent.export.comparison_page import comparison_page, refusal_page
from agent.history.failures import StoreError
from agent.replay.recording_opener import SourceError
from agent.support.safe_output import json_text, printable
from agent.web.compare_paths import COMPARE
from agent.web.error_responses import NO_SUCH_TARGET, Response, bad_request
from agent.web.http_request_handler import TEXT, Environ
from agent.web.query_fields import query_fields
from agent.web.shared_responses import SerialExecution

FIELDS = ("target", "around", "length")
MAX_SECONDS = 86_400.0
"""Maximum seconds compared on either side, and the default."""
HTML = "text/html; charset=utf-8"

CompareAround = Callable[[str, float, float], Comparison]
"""Compares a target before and after a time (Unix s), by length (s); see `Agent.compare_around`."""


class CompareRequests:
    """Answers both kinds of request; without `compare` (no history) each is refused."""

    def __init__(
        self,
        snapshots: Callable[[], Iterable[Snapshot]],
        compare: CompareAround | None,
        turns: SerialExecution,
    ) -> None:
        self._snapshots = snapshots
        self._compare = compare
        self._turns = turns

    def json(self, environ: Environ) -> Response:
        """Return the comparison of `?target=NAME&around=UNIX[&length=SECONDS]` as JSON."""
        found = self._compare_or_refuse(environ)
        if not isinstance(found, Comparison):
            return found
        return HTTPStatus.OK, "application/json", json_text(comparison_object(found)).encode()

    def page(self, environ: Environ) -> Response:
        """Return the same comparison, or its refusal, as a page."""
        found = self._compare_or_refuse(environ)
        if isinstance(found, Comparison):
            query = str(environ.get("QUERY_STRING", ""))
            return HTTPStatus.OK, HTML, comparison_page(found, f"{COMPARE[1:]}?{query}").encode()
        status, _, refusal = found
        return status, HTML, refusal_page(refusal.decode().partition(" ")[2].strip()).encode()

    def _compare_or_refuse(self, environ: Environ) -> Comparison | Response:
        """Return the comparison, or the refusal in one line."""
        try:
            given = query_fields(environ.get("QUERY_STRING", ""), FIELDS)
            around, length = _around(given), _length(given)
        except ValueError as error:
            return bad_request(str(error))
        target = given.get("target", "")
        if target not in {snapshot.target for snapshot in self._snapshots()}:
            return NO_SUCH_TARGET
        if self._compare is None:
            refusal = "404 without a history (history.path) nothing can be compared\n"
            return HTTPStatus.NOT_FOUND, TEXT, refusal.encode()
        compare = self._compare
        return self._turns.run(lambda: _run_comparison(compare, target, around, length))


def _run_comparison(
    compare: CompareAround, target: str, around: float, length: float
) -> Comparison | Response:
    try:
        return compare(target, around, length)
    except TooEarlyError as error:
        return bad_request(f"around: {error}")
    except SourceError as error:
        return HTTPStatus.NOT_FOUND, TEXT, f"404 {printable(str(error))}\n".encode()
    except (StoreError, sqlite3.Error) as error:
        return HTTPStatus.SERVICE_UNAVAILABLE, TEXT, f"503 {printable(str(error))}\n".encode()


def _around(given: Mapping[str, str]) -> float:
    """Return the requested time, Unix seconds; raises ValueError if it is not one since 1970."""
    found = _number(given.get("around", ""))
    if not 0 <= found < math.inf:
        raise ValueError("around: must be Unix seconds")
    return found


def _length(given: Mapping[str, str]) -> float:
    """Return the requested length of either side, s; raises ValueError if it is out of range."""
    found = _number(given["length"]) if "length" in given else MAX_SECONDS
    if not MIN_SECONDS <= found <= MAX_SECONDS:
        raise ValueError(f"length: give {MIN_SECONDS:g} to {MAX_SECONDS:g} seconds")
    return found


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
