"""Takes everything from a queue between two workers."""

from collections import deque
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


def take_all(queue: deque[T]) -> list[T]:
    """Empty a queue and return its items, oldest first; two workers may do so at once (reload)."""
    taken: list[T] = []
    with suppress(IndexError):
        while True:
            taken.append(queue.popleft())
    return taken
