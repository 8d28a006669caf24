"""Responses that take long to compute: one at a time, shared by equal requests."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from agent.web.compressed_body import Body
from agent.web.error_responses import Response, busy

VALIDITY_RATIO = 10.0  # times a response's computation: a flood takes a tenth of the time
MAX_VALIDITY = 0.9
"""Maximum seconds, from the start of its computation, for which a response is valid: samples come
once a second. With 56 targets the computation takes 0.1 s, and a flood thus a ninth of the time."""
MIN_VALIDITY_RATIO = 1.5
"""Minimum validity in multiples of the computation's duration, on a busy machine too: a flood takes
two thirds of the time at most."""
MAX_WAIT_SECONDS = 5.0  # seconds that a request waits for those before it
MAX_STALE_AGE = 1.0  # seconds; a younger response is returned while the next one is being computed
NOTHING = Body(b"")

T = TypeVar("T")


@dataclass(slots=True)
class _CachedResponse:
    """A response, when its computation began, until when it is valid, and the pending next one."""

    body: Body = NOTHING
    begun_at: float = float("-inf")
    valid_until: float = float("-inf")
    next: Future[Body] | None = None


class SharedResponses:
    """Returns the same body to requests within a moment; a request every second gets new ones.

    One of the requesting threads computes the next response. The others get the last one or, if
    that is too old, wait together for the next: passing a lock one by one, many threads could take
    longer than the response is valid. Names must not come from clients: each is kept for ever.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._compute_lock = threading.Lock()
        self._responses: defaultdict[str, _CachedResponse] = defaultdict(_CachedResponse)

    def get(self, name: str, make: Callable[[], bytes]) -> Body:
        """Return the response of that name, computed now or a moment ago."""
        with self._lock:
            response, now = self._responses[name], self._clock()
            self._delete_stale(now)
            is_young = now < response.begun_at + MAX_STALE_AGE
            if now < response.valid_until or (response.next and is_young):
                return response.body
            pending, own = response.next, Future[Body]()
            response.next = pending or own
        return pending.result() if pending else self._compute(response, own, make)

    def delete_stale(self) -> bool:
        """Delete what nobody gets again; return whether a response is kept still."""
        with self._lock:
            self._delete_stale(self._clock())
            return any(response.body is not NOTHING for response in self._responses.values())

    def _delete_stale(self, now: float) -> None:
        """Delete what nobody gets again: a page of a thousand targets takes 40 MB, its JSON 65."""
        for response in self._responses.values():
            if now >= max(response.valid_until, response.begun_at + MAX_STALE_AGE):
                response.body = NOTHING

    def _compute(
        self, response: _CachedResponse, own: Future[Body], make: Callable[[], bytes]
    ) -> Body:
        """Compute the next response; an error is raised in all threads that wait for it."""
        try:
            with self._compute_lock:
                begun = self._clock()
                body = Body(make())
                ended = self._clock()
        except BaseException as error:
            with self._lock:
                response.next = None
            own.set_exception(error)
            raise
        duration = ended - begun
        validity = max(min(VALIDITY_RATIO * duration, MAX_VALIDITY), MIN_VALIDITY_RATIO * duration)
        with self._lock:
            response.body, response.begun_at, response.valid_until = body, begun, begun + validity
            response.next = None
        own.set_result(body)
        return body


class SerialExecution:
    """Computes responses one at a time, for all clients together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def run(self, make: Callable[[], T]) -> T | Response:
        """Return what `make` returns, or 429 if the requests before this one take too long."""
        if not self._lock.acquire(timeout=MAX_WAIT_SECONDS):
            return busy("other requests are being answered")
        try:
            return make()
        finally:
            self._lock.release()
