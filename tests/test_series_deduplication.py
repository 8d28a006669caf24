"""Series of one instance: of one server that two Prometheus scrape, or of two servers."""

import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from agent.prometheus.client import Series
from agent.prometheus.series_deduplication import (
    is_in_span,
    labels_with_covered_spans,
    require_one_server,
)
from agent.replay.recording_opener import SourceError
from models.arrays import Array

START = 1_790_000_000.0
"""When the servers of these tests are started, Unix seconds."""
SEEDS = range(5)
NAMES_TWO = re.compile(r'the name of several servers: {replica="."} and {replica="."}')
Counter = Callable[[Array], Array]
"""The statements so far of a server, at times in Unix seconds."""


def counter(seed: int, rate: float = 800.0, hours: int = 6) -> Counter:
    """A server under a load that comes in bursts: one second in six has three times the median.

    Two of different seeds share a load equally: on average they have the same rate.
    """
    draws = np.random.default_rng(seed)
    each_second = draws.poisson(rate * draws.lognormal(0.0, 1.0, hours * 3600))
    so_far = np.concatenate(([0], np.cumsum(each_second)))
    return lambda at: np.floor(np.interp(at - START, np.arange(len(so_far)), so_far))


def scraped(
    count: Counter,
    every: float = 15.0,
    phase: float = 0.0,
    clock: float = 0.0,
    started: float = START,
    **labels: str,
) -> tuple[Series, Series]:
    """Uptime and statements as a Prometheus reads them, whose clock is wrong by `clock` seconds."""
    at = np.arange(START + 3600.0 + phase, START + 5 * 3600.0, every)
    named = {"instance": "db1:9104", **labels}
    uptime = np.floor(at - started)
    return Series(named, at + clock, uptime), Series(named, at + clock, count(at))


def several(*pairs: tuple[Series, Series]) -> bool:
    """Whether these are told to be of several servers."""
    uptimes, questions = zip(*pairs, strict=True)
    return names_two(list(uptimes), list(questions))


def names_two(
    uptimes: Sequence[Series], questions: Sequence[Series], server_ids: Sequence[Series] = ()
) -> bool:
    """Whether an error names two servers."""
    try:
        require_one_server("db1:9104", ("instance",), uptimes, questions, server_ids)
    except SourceError as error:
        return NAMES_TWO.search(str(error)) is not None
    return False


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("every", "clock"), [(15.0, 0.0), (60.0, 20.0), (1.0, -0.4)])
def test_a_pair_of_prometheus_is_one_server(seed: int, every: float, clock: float) -> None:
    """At any phase, with other clocks and scrape intervals: no higher uptime has lower counts."""
    count = counter(seed)
    for phase in (0.001, every / 2, every - 0.001):
        pair = scraped(count, replica="a"), scraped(count, every, phase, clock, replica="b")
        assert not several(*pair)


@pytest.mark.parametrize("seed", SEEDS)
def test_servers_started_together_under_one_load_are_two(seed: int) -> None:
    """Behind a load balancer: their counters differ at the same uptime."""
    pair = scraped(counter(seed), replica="a"), scraped(counter(seed + 100), 15.0, 7.0, replica="b")
    assert several(*pair)


def test_servers_started_at_other_times_are_two() -> None:
    """A quarter of an hour apart, with the same count at each time."""
    count = counter(0)
    assert several(scraped(count, replica="a"), scraped(count, started=START - 900, replica="b"))


def restarted(phase: float, replica: str) -> tuple[Series, Series]:
    """A server that begins its counters again after three hours."""
    count, again = counter(0), START + 3 * 3600
    before = count(np.array([again]))[0]
    uptime, questions = scraped(count, phase=phase, replica=replica)
    is_new = uptime.at >= again
    begun = np.where(is_new, np.floor(uptime.at - again), uptime.values)
    counted = np.where(is_new, questions.values - before, questions.values)
    return uptime._replace(values=begun), questions._replace(values=counted)


def test_a_restart_seen_by_both_is_of_one_server() -> None:
    """Both see the counters begin again, one of them some seconds later."""
    assert not several(restarted(0.0, "a"), restarted(7.0, "b"))


def between(pair: tuple[Series, Series], least: float, most: float) -> tuple[Series, Series]:
    """The samples that are so many seconds before or after three hours."""
    off = np.abs(pair[0].at - (START + 3 * 3600))
    seen = (off >= least) & (off < most)
    first, second = (one._replace(at=one.at[seen], values=one.values[seen]) for one in pair)
    return first, second


def test_a_gap_that_hides_a_restart_is_of_one_server() -> None:
    """One Prometheus was away for an hour; the other one was there for little more."""
    long, short = restarted(0.0, "a"), restarted(7.0, "b")
    assert not several(between(long, 1800, 7200), between(short, 0, 2400))


def test_the_series_with_most_samples_is_read_as_a_whole() -> None:
    """Of the others what it covers is told, which is not read again."""
    (long, _), (short, _) = scraped(counter(0), replica="a"), scraped(counter(0), 60.0, replica="b")
    first, second = labels_with_covered_spans([short, long])
    assert first == (long.labels, (np.inf, -np.inf))
    assert second == (short.labels, (long.at[0], long.at[-1]))
    spans = [is_in_span(at, (1.0, 2.0)) for at in (0.9, 1.0, 2.0, 2.1)]
    assert spans == [False, True, True, False]


def test_a_counter_set_back_is_of_one_server() -> None:
    """Its samples are out of order there, and nowhere else."""
    count, half = counter(0), START + 3 * 3600
    before = count(np.array([half]))[0]

    def set_back(at: Array) -> Array:
        return np.where(at < half, count(at), count(at) - before)

    assert not several(scraped(set_back, replica="a"), scraped(set_back, phase=7.0, replica="b"))


def test_series_without_an_uptime_count_as_one_server() -> None:
    """They have the same name."""
    uptime, questions = scraped(counter(0), replica="a")
    _, others = scraped(counter(100), replica="b")
    assert not names_two([uptime], [questions, others])


@pytest.mark.parametrize(
    ("ids", "are_two"), [((7, 8), True), ((7, 7), False), ((7,), False), ((), False)]
)
def test_replicas_are_two_servers_by_their_server_ids(ids: tuple[int, ...], are_two: bool) -> None:
    """With the same start and the same statements; an unknown ID shows nothing."""
    pairs = [scraped(counter(0), replica=name) for name in "ab"]
    uptimes, questions = map(list, zip(*pairs, strict=True))
    known = zip(uptimes, ids, strict=False)
    numbers = [up._replace(values=np.full(len(up.at), float(number))) for up, number in known]
    assert names_two(uptimes, questions, numbers) == are_two


def test_a_changed_server_id_is_of_one_server() -> None:
    """Both Prometheus see the change, each at its own time."""
    pairs = [scraped(counter(0), phase=phase, replica=n) for n, phase in (("a", 0.0), ("b", 7.0))]
    uptimes, questions = map(list, zip(*pairs, strict=True))
    numbers = [up._replace(values=np.where(up.at < START + 7200, 7.0, 8.0)) for up in uptimes]
    assert not names_two(uptimes, questions, numbers)
