"""Answers that are shared for a moment."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from web_clients import eventually

from agent.web.shared_responses import MAX_STALE_AGE, SharedResponses


class Maker:
    """Makes another answer each time, which takes so long by its own clock."""

    def __init__(self, takes: float) -> None:
        self.takes = takes
        self.now = 100.0
        self.made = 0
        self.answers = SharedResponses(lambda: self.now)

    def get(self, name: str = "a") -> bytes:
        """One answer."""
        return self.answers.get(name, self.make).plain

    def make(self) -> bytes:
        """The next answer."""
        self.now += self.takes
        self.made += 1
        return b"%d" % self.made


def test_a_flood_of_requests_takes_a_tenth_of_the_time() -> None:
    """A response is valid for ten times its computation."""
    maker = Maker(takes=0.0625)
    assert maker.get() == b"1"
    maker.now += 0.5
    assert maker.get() == b"1"
    maker.now += 0.0625
    assert maker.get() == b"2"


def test_a_request_every_second_gets_a_new_response() -> None:
    """None is returned again a second after its computation began, however long that takes."""
    for takes in (0.001, 0.1, 0.5, 0.66):
        maker = Maker(takes)
        assert maker.get() == b"1"
        maker.now += 1.0 - takes
        assert maker.get() == b"2"


def test_a_slow_response_leaves_a_third_of_the_time() -> None:
    """A flood of slow requests does not compute all the time."""
    maker = Maker(takes=2.0)
    assert maker.get() == b"1"
    maker.now += 0.9
    assert maker.get() == b"1"
    maker.now += 0.2
    assert maker.get() == b"2"


def test_the_last_response_is_returned_while_the_next_is_computed() -> None:
    """Requests wait only where the last response is too old."""
    maker, inner = Maker(takes=0.1), []
    assert maker.get() == b"1"

    def make() -> bytes:
        inner.append(maker.get())
        return b"next"

    maker.now += MAX_STALE_AGE - 0.15  # 0.95 s after its beginning
    assert maker.answers.get("a", make).plain == b"next"
    assert inner == [b"1"]


def test_a_response_that_is_too_old_is_not_kept_beside_the_next() -> None:
    """Of a thousand targets it takes 37 MB."""
    maker, held = Maker(takes=0.1), []
    last = maker.get()
    only_here = sys.getrefcount(last) - 1

    def make() -> bytes:
        held.append(sys.getrefcount(last))
        return b"next"

    maker.now += MAX_STALE_AGE
    assert maker.answers.get("a", make).plain == b"next"
    assert held == [only_here]


def test_a_page_that_is_too_old_is_not_kept_beside_the_metrics() -> None:
    """Someone looked at it once; the metrics are asked for ever after."""
    maker = Maker(takes=0.1)
    maker.get("snapshot")
    page = maker.get("page")
    held = sys.getrefcount(page)
    maker.now += MAX_STALE_AGE
    maker.get("metrics")
    assert sys.getrefcount(page) == held - 1


def test_responses_are_deleted_once_they_are_too_old() -> None:
    """Not before: until then other requests get them."""
    maker = Maker(takes=0.1)
    assert not maker.answers.delete_stale()
    assert maker.get() == b"1"
    assert maker.answers.delete_stale()
    assert maker.get() == b"1"
    maker.now += MAX_STALE_AGE
    assert not maker.answers.delete_stale()


def test_concurrent_requests_share_the_first_response() -> None:
    """It is computed once."""
    maker = Maker(takes=0.1)
    begun, go_on = threading.Event(), threading.Event()

    def make() -> bytes:
        begun.set()
        assert go_on.wait(60)
        return maker.make()

    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(maker.answers.get, "a", make)
        assert begun.wait(60)
        others = [pool.submit(maker.get) for _ in range(7)]
        eventually(lambda: all(other.running() for other in others))
        go_on.set()
        assert [first.result(60).plain, *(other.result(60) for other in others)] == 8 * [b"1"]


def test_a_failure_is_shared_by_waiting_requests_only() -> None:
    """The next request tries again."""
    maker = Maker(takes=0.1)

    def fail() -> bytes:
        raise ValueError("cannot be made")

    with pytest.raises(ValueError, match="cannot be made"):
        maker.answers.get("a", fail)
    assert maker.get() == b"1"


def test_each_name_has_its_own_response() -> None:
    """Formats and pages are not mixed up."""
    maker = Maker(takes=0.1)
    assert (maker.get("a"), maker.get("b")) == (b"1", b"2")
    maker.now -= 0.2
    assert (maker.get("a"), maker.get("b")) == (b"1", b"2")
