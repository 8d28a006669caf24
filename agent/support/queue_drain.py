"""What one worker leaves for another."""

from collections import deque
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


def take_all(queue: deque[T]) -> list[T]:
    """Empty a queue, the oldest first; two workers may take at once, as at a reload."""
    taken: list[T] = []
    with suppress(IndexError):
        while True:
            taken.append(queue.popleft())
    return taken
