"""What one worker leaves for another."""

from collections import deque
from concurrent.futures import ThreadPoolExecutor

from agent.support.queue_drain import take_all


def test_items_are_taken_once_and_in_order() -> None:
    """The oldest first; then the queue is empty."""
    queue = deque([1, 2, 3])
    assert take_all(queue) == [1, 2, 3]
    assert take_all(queue) == []


def test_two_workers_draining_at_once_lose_nothing() -> None:
    """Neither fails on a queue that the other has just emptied."""
    for _ in range(50):
        queue = deque(range(2000))
        with ThreadPoolExecutor(2) as workers:
            both = list(workers.map(take_all, [queue, queue]))
        assert sorted(both[0] + both[1]) == list(range(2000))
