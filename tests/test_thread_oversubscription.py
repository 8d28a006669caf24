"""What a full processor loses where its clients have more connections than it takes to fill it."""

from dataclasses import replace

import numpy as np
import pytest

from models.capacity.assess import assess_capacity
from models.capacity.observations import Observations
from models.capacity.oversubscription_loss import (
    LOSS_PER_DOUBLING,
    LOSSLESS_CONCURRENCY,
    ClientConnections,
)
from models.capacity.resource_and_limit import Resource, ResourceLimit
from models.capacity.resource_limits import find_resource_limits

DEMAND = 5e-3
"""Seconds of processor time that a query takes."""
FULL = 1 / DEMAND
X = np.tile(np.linspace(0.1, 0.8, 40), 3) * FULL


def processor(count: float | None) -> Resource:
    """A processor that the server alone uses, and how many there are of it."""
    used = X * DEMAND
    processors = None if count is None else np.full(len(X), count)
    return Resource("server_cpu", used, own=used, processors=processors)


def limit(count: float | None, clients: ClientConnections | None) -> ResourceLimit:
    """Where it ends."""
    return find_resource_limits(X, [processor(count)], clients=clients)[0]


def test_connections_that_just_fill_a_processor_lose_nothing() -> None:
    """Nor do fewer, nor none."""
    for connections in (0.0, 1.0, LOSSLESS_CONCURRENCY, 3 * LOSSLESS_CONCURRENCY):
        assert ClientConnections(connections, None).loss(3.0, FULL) == 0.0
    assert ClientConnections(LOSSLESS_CONCURRENCY, None).loss(0.3, FULL) == 0.0


def test_each_doubling_of_the_connections_costs_the_same() -> None:
    """The loss grows with the number of doublings."""
    for doublings in (1, 2, 4):
        loss = ClientConnections(LOSSLESS_CONCURRENCY * 2**doublings, None).loss(1.0, FULL)
        assert loss == pytest.approx(doublings * LOSS_PER_DOUBLING)


def test_mostly_waiting_statements_need_many_connections() -> None:
    """By Little's law 64 of them fill it where each takes 64 times its processor time."""
    assert ClientConnections(64.0, 64 * DEMAND).loss(1.0, FULL) == 0.0
    assert ClientConnections(64.0, 8 * DEMAND).loss(1.0, FULL) == pytest.approx(
        3 * LOSS_PER_DOUBLING
    )


def test_the_limit_is_lower_and_wider_for_many_connections() -> None:
    """By the mean of the loss, with its deviation added to the limit's own."""
    few, many = (
        limit(1.0, ClientConnections(LOSSLESS_CONCURRENCY, DEMAND)),
        limit(1.0, ClientConnections(64.0, DEMAND)),
    )
    assert few.x_max is not None
    assert many.x_max is not None
    assert np.log(few.x_max / many.x_max) == pytest.approx(4 * LOSS_PER_DOUBLING, abs=0.01)
    assert few.x_max_interval is not None
    assert many.x_max_interval is not None
    assert many.x_max_interval.ratio > few.x_max_interval.ratio * 1.1
    assert many.demand == few.demand


@pytest.mark.parametrize(
    ("count", "clients"),
    [(None, ClientConnections(64.0, DEMAND)), (np.nan, ClientConnections(64.0, DEMAND))],
)
def test_an_unknown_number_of_processors_loses_nothing(
    count: float | None, clients: ClientConnections
) -> None:
    """How many connections are too many is not known then."""
    assert limit(count, clients).x_max == limit(1.0, None).x_max


def test_commits_that_share_log_writes_lose_nothing() -> None:
    """As far as the demand is expected to fall with the shared writes."""
    x = 100 * X  # of 50 µs each
    shared = np.clip(X / FULL, 0.0, 0.9)
    used = X * DEMAND * (1 - 0.6 * shared)
    counted = Resource(
        "server_cpu",
        used,
        own=used,
        processors=np.ones(len(x)),
        log_writes=x * (1 - shared),
    ).with_shared_costs(x, x)
    alone, asked = (
        find_resource_limits(x, [counted], clients=clients)[0]
        for clients in (None, ClientConnections(64.0, DEMAND))
    )
    assert alone.x_max is not None
    assert asked.x_max is not None
    assert alone.log_shared > 0.5
    lost = np.log(alone.x_max / asked.x_max)
    assert 0 <= lost == pytest.approx(4 * LOSS_PER_DOUBLING * (1 - alone.log_shared), abs=0.02)


def test_open_connections_lower_the_capacity() -> None:
    """By their cost; a high number of the window counts, as a pool may be used in full."""
    at, n = np.arange(len(X)) * 15.0, X * DEMAND / (1 - 0.99 * X * DEMAND)
    half = X < FULL / 2  # far below, what was served says nothing of the loss
    seen = Observations.of(at, X, n, resources=[processor(1.0)]).select(half)
    with_pool = replace(seen, connections=np.where(seen.at < 600, 8.0, 64.0))
    plain, pooled = (assess_capacity(one).value for one in (seen, with_pool))
    assert plain is not None
    assert pooled is not None
    assert np.log(plain / pooled) == pytest.approx(4 * LOSS_PER_DOUBLING, abs=0.03)


def test_an_overload_with_more_connections_is_below_the_usual_capacity() -> None:
    """Full with 256 statements where 64 connections are usual: two doublings may have cost some."""
    x, n = np.append(X, np.full(8, 0.9 * FULL)), np.append(X * DEMAND, np.full(8, 256.0))
    used = np.minimum(np.append(X * DEMAND, np.full(8, 1.0)), 1.0)
    full = Resource("server_cpu", used, own=used, processors=np.ones(len(x)))
    usual, many = (
        find_resource_limits(
            x, [full], clients=ClientConnections(connections, DEMAND), concurrency=n
        )[0]
        for connections in (64.0, 256.0)
    )
    assert usual.x_max is not None
    assert many.x_max is not None
    assert many.x_max == pytest.approx(0.9 * FULL, rel=0.03)
    assert many.x_max * 1.02 < usual.x_max < many.x_max * np.exp(2 * 2 * LOSS_PER_DOUBLING)
    assert usual.x_max_interval is not None
    assert many.x_max_interval is not None
    assert usual.x_max_interval.ratio > many.x_max_interval.ratio


def test_the_loss_beyond_the_usual_connections_grows_with_each_doubling() -> None:
    """None up to them, nor if the number of running statements is unknown."""
    lost = ClientConnections(64.0, None).loss_beyond(np.array([8.0, 64.0, 128.0, 256.0, np.nan]))
    assert lost == pytest.approx(LOSS_PER_DOUBLING * np.array([0, 0, 1, 2, 0]))


def test_without_a_connection_count_the_usual_concurrency_counts() -> None:
    """A recording without the number of connections; without any concurrency nothing is known.

    One interval in twenty is an overload, and does not count.
    """
    at, n = np.arange(20) * 15.0, np.append(np.full(19, 40.0), 90.0)
    assert Observations.of(at, n, n).usual_connections == pytest.approx(40)
    open_ = np.append(np.full(18, 60.0), [90.0, np.nan])
    assert Observations.of(at, n, n, connections=open_).usual_connections == pytest.approx(60)
    assert Observations.of(at, n, np.nan).usual_connections is None
