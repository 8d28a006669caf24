"""Answers that are shared for a moment."""

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
        return self.answers.get(name, self.make)

    def make(self) -> bytes:
        """The next answer."""
        self.now += self.takes
        self.made += 1
        return b"%d" % self.made


def test_a_flood_takes_a_tenth_of_the_time() -> None:
    """Within ten times what it took an answer is given again, and then made again."""
    maker = Maker(takes=0.0625)
    assert maker.get() == b"1"
    maker.now += 0.5
    assert maker.get() == b"1"
    maker.now += 0.0625
    assert maker.get() == b"2"


def test_who_asks_every_second_gets_new_numbers() -> None:
    """An answer is not given again a second after it was asked for, however long it takes."""
    for takes in (0.001, 0.1, 0.5, 0.66):
        maker = Maker(takes)
        assert maker.get() == b"1"
        maker.now += 1.0 - takes
        assert maker.get() == b"2"


def test_an_answer_that_takes_long_leaves_a_third_of_the_time() -> None:
    """A flood of what takes seconds does not make it all the time."""
    maker = Maker(takes=2.0)
    assert maker.get() == b"1"
    maker.now += 0.9
    assert maker.get() == b"1"
    maker.now += 0.2
    assert maker.get() == b"2"


def test_a_crowd_is_given_the_last_answer_while_the_next_is_made() -> None:
    """Who comes while an answer is made again waits only where the last one is too old."""
    maker, inner = Maker(takes=0.1), []
    assert maker.get() == b"1"

    def make() -> bytes:
        inner.append(maker.get())
        return b"next"

    maker.now += MAX_STALE_AGE - 0.15  # 0.95 s after its beginning
    assert maker.answers.get("a", make) == b"next"
    assert inner == [b"1"]


def test_those_who_wait_are_all_given_the_answer_that_is_made() -> None:
    """The first answer is made once, for all who ask meanwhile."""
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
        assert [answer.result(60) for answer in (first, *others)] == 8 * [b"1"]


def test_a_failure_is_one_of_all_who_wait_and_not_of_the_next() -> None:
    """An answer that cannot be made is tried again by whoever asks next."""
    maker = Maker(takes=0.1)

    def fail() -> bytes:
        raise ValueError("cannot be made")

    with pytest.raises(ValueError, match="cannot be made"):
        maker.answers.get("a", fail)
    assert maker.get() == b"1"


def test_each_name_has_an_answer_of_its_own() -> None:
    """Formats and pages do not mix."""
    maker = Maker(takes=0.1)
    assert (maker.get("a"), maker.get("b")) == (b"1", b"2")
    maker.now -= 0.2
    assert (maker.get("a"), maker.get("b")) == (b"1", b"2")
