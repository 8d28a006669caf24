"""Answers that take long to make: made one at a time, and shared for a moment."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

PAUSE = 3.0  # times what an answer took to make: a flood takes a quarter of the time at most
LONGEST_PAUSE = 0.5  # seconds for which an answer is good, on a busy machine too
REMEMBERED = 3  # answers: two formats of metrics and the page


class SharedAnswers:
    """Gives all who ask within a moment the same bytes; who asks every second gets new ones."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._made: OrderedDict[str, tuple[bytes, float]] = OrderedDict()

    def get(self, name: str, make: Callable[[], bytes]) -> bytes:
        """Return the answer of that name, made just now or a moment ago."""
        with self._lock:
            body, until = self._made.get(name, (b"", 0.0))
            started = self._clock()
            if started < until:
                return body
            body = make()
            ended = self._clock()
            self._made[name] = body, ended + min(PAUSE * (ended - started), LONGEST_PAUSE)
            self._made.move_to_end(name)
            while len(self._made) > REMEMBERED:
                self._made.popitem(last=False)
            return body
