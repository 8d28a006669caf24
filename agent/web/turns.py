"""Questions that take long to answer: one at a time, and nobody waits for long."""

import threading
from collections.abc import Callable
from typing import TypeVar

from agent.web.answers import Answer, busy

LONGEST_WAIT = 5.0
"""Seconds that a question waits for those before it."""
T = TypeVar("T")


class Turns:
    """One question at a time, whoever asks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def take(self, make: Callable[[], T]) -> T | Answer:
        """What is made when its turn comes; 429 where those before it take too long."""
        if not self._lock.acquire(timeout=LONGEST_WAIT):
            return busy("other questions are being answered")
        try:
            return make()
        finally:
            self._lock.release()
