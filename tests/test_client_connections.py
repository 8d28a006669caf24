"""The limit that the clients' own connections are, where there are few of them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agent.pipeline import observations
from agent.window.concurrency import ConcurrencySource
from models.capacity.assess import assess_capacity
from models.capacity.client_connections import CLIENT_CONNECTIONS, client_connections
from models.capacity.observations import Observations
from models.capacity.resource_and_limit import Resource
from models.capacity.result import CapacityReason
from models.trust import Trust
from testbed.recorded.peak_predictions import clients_peak, saved, seen_below

POOL, RESIDENCE, FULL_AT = 8, 0.002, 8000.0
"""Connections, seconds, and the queries/s that fill the processor: the pool ends at 4,000/s."""
INTERVALS = 240
RECORDING = Path(__file__).parent / "fixtures" / "zoo" / "mysql-updates-8.json.gz"


def day(reach: float, connections: float = POOL) -> Observations:
    """A load that rises and falls up to `reach` of what the pool allows."""
    rng = np.random.default_rng(5)
    x = POOL / RESIDENCE * reach * (0.55 + 0.45 * np.sin(np.linspace(0, 40, INTERVALS)))
    n = RESIDENCE * x * np.exp(0.02 * rng.normal(size=INTERVALS))
    cpu = x / FULL_AT * np.exp(0.01 * rng.normal(size=INTERVALS))
    pool = client_connections(x, n, np.full(INTERVALS, connections))
    resources = [Resource("cpu", cpu, own=cpu)]
    return Observations.of(
        15.0 * np.arange(INTERVALS),
        x,
        n,
        connections=connections,
        resources=resources if pool is None else [*resources, pool],
    )


def test_a_connection_pool_is_the_limit_before_the_processor() -> None:
    """X = m/R, from loads that keep at most seven of ten connections busy."""
    found = assess_capacity(day(0.7))
    assert found.limit == CLIENT_CONNECTIONS
    assert found.value == pytest.approx(POOL / RESIDENCE, rel=0.05)
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower < POOL / RESIDENCE < found.upper


def test_a_pool_that_may_grow_is_not_trusted() -> None:
    """Its load is as near as a trusted processor's would have to be."""
    found = assess_capacity(day(0.95))
    assert found.limit == CLIENT_CONNECTIONS
    assert found.trust is Trust.INDICATIVE
    assert found.reasons == (CapacityReason.POOL_MAY_GROW,)
    assert assess_capacity(day(0.95, connections=64)).trust is not Trust.TRUSTED


def test_with_many_connections_the_processor_is_the_limit() -> None:
    """Sixty-four of them would serve four times what fills it."""
    found = assess_capacity(day(0.7, connections=64))
    assert found.limit == "cpu"
    assert found.value is not None
    assert found.value > POOL / RESIDENCE


def test_connections_that_follow_the_load_are_no_limit() -> None:
    """An application that opens another one when all are busy can open more."""
    n = np.linspace(1, 7, INTERVALS)
    assert client_connections(n / RESIDENCE, n, np.ceil(n) + 1) is None
    assert client_connections(n / RESIDENCE, n, np.full(INTERVALS, 8.0)) is not None


def test_clients_without_think_time_are_no_arriving_load() -> None:
    """Four threads of a batch job that send the next statement at once."""
    n = np.random.default_rng(2).uniform(3.2, 3.9, INTERVALS)
    assert client_connections(n / RESIDENCE, n, np.full(INTERVALS, 4.0)) is None


def test_intervals_with_all_connections_busy_are_left_out() -> None:
    """Throughput no longer follows the load there."""
    n = np.concatenate([np.linspace(1, 6, 20), np.full(20, 7.9)])
    pool = client_connections(n / RESIDENCE, n, np.full(40, 8.0))
    assert pool is not None
    assert np.isfinite(pool.utilisation[:20]).all()
    assert np.isnan(pool.utilisation[20:]).all()


def test_beyond_the_peak_of_contention_connections_are_no_limit() -> None:
    """Sixteen clients of a lock complete less than eight: all of them waiting is no limit."""
    n = np.repeat([1.0, 3.0, 6.0, 10.0, 15.0], 12)
    x = 100 * n / (1 + 0.1 * (n - 1) + 0.02 * n * (n - 1))
    assert client_connections(x, n, np.full(len(n), 16.0)) is None
    assert client_connections(100 * n, n, np.full(len(n), 16.0)) is not None


def test_without_a_connection_count_there_is_no_connection_limit() -> None:
    """An assumed number is no pool."""
    n = np.linspace(1, 7, INTERVALS)
    assert client_connections(n / RESIDENCE, n, np.full(INTERVALS, np.nan)) is None
    assert client_connections(n / RESIDENCE, n, np.zeros(INTERVALS)) is None


def test_a_real_servers_few_connections_are_its_limit() -> None:
    """Durable updates over 8 connections, from below 70 % of the load: 45 % too high without."""
    seen = saved(RECORDING)
    part = next(part for part in seen["caps"] if part["cap"] == 0.7)
    given = observations(seen_below(seen, part), ConcurrencySource.STATEMENT_TIME)
    found, peak = assess_capacity(given), clients_peak(seen, part)[0]
    assert found.limit == CLIENT_CONNECTIONS
    assert found.value == pytest.approx(peak, rel=0.15)
    others = tuple(r for r in given.resources if r.name != CLIENT_CONNECTIONS)
    without = assess_capacity(replace(given, resources=others))
    assert without.value is not None
    assert without.value > 1.3 * peak
