"""Responses that take long to compute: one at a time, shared by equal requests."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from agent.web.error_responses import Response, busy

GOOD = 10.0  # times what an answer took to make: a flood takes a tenth of the time
FRESH = 0.9
"""Seconds from its beginning for which an answer is good at most: samples come once a second. With
56 targets it takes 0.1 s to make one, and a flood so a ninth of the time."""
MIN_VALIDITY_RATIO = (
    1.5  # times what it took, on a busy machine too: a flood takes two thirds at most
)
MAX_WAIT_SECONDS = 5.0  # seconds that a question waits for those before it
OLDEST = 1.0  # seconds; a younger answer is given while the next one is being made

T = TypeVar("T")


@dataclass(slots=True)
class _Response:
    """An answer, when its making began, until when it is good, and the next one being made."""

    body: bytes = b""
    begun: float = float("-inf")
    until: float = float("-inf")
    next: Future[bytes] | None = None


class SharedResponses:
    """Gives requests within a moment the same bytes; a request every second gets new ones.

    One of those who ask makes the next answer. The others are given the last one or, where that is
    too old, wait for the next all together: a crowd that passes a lock one by one can take longer
    than the answer is good. The names are the program's: each is kept for ever.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._making = threading.Lock()
        self._answers: defaultdict[str, _Response] = defaultdict(_Response)

    def get(self, name: str, make: Callable[[], bytes]) -> bytes:
        """Return the answer of that name, made just now or a moment ago."""
        with self._lock:
            answer, now = self._answers[name], self._clock()
            if now < answer.until or (answer.next and now < answer.begun + OLDEST):
                return answer.body
            others, ours = answer.next, Future[bytes]()
            answer.next = others or ours
        return others.result() if others else self._made(answer, ours, make)

    def _made(self, answer: _Response, ours: Future[bytes], make: Callable[[], bytes]) -> bytes:
        """Make the next answer; an error is raised for all that wait for it."""
        try:
            with self._making:
                begun = self._clock()
                body = make()
                ended = self._clock()
        except BaseException as error:
            with self._lock:
                answer.next = None
            ours.set_exception(error)
            raise
        took = ended - begun
        good = max(min(GOOD * took, FRESH), MIN_VALIDITY_RATIO * took)
        with self._lock:
            answer.body, answer.begun, answer.until = body, begun, begun + good
            answer.next = None
        ours.set_result(body)
        return body


class Turns:
    """One question at a time, whoever asks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def take(self, make: Callable[[], T]) -> T | Response:
        """What is made when its turn comes; 429 where those before it take too long."""
        if not self._lock.acquire(timeout=MAX_WAIT_SECONDS):
            return busy("other requests are being answered")
        try:
            return make()
        finally:
            self._lock.release()
