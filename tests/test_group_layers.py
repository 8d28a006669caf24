"""The layers of several servers: where time of a known composition goes."""

import pytest

from models.group.node_time_split import (
    Layer,
    Replication,
    add_replication,
    mean_replication,
    shares_by_layer,
    split_into_layers,
)
from models.group.ntp_clock_filter import ROUND_TRIP_LIFETIME
from models.time_split.time_parts import TimePart, TimeSplit

SPENT = {
    TimePart.CPU: 60.0,
    TimePart.PROCESSOR_QUEUE: 15.0,
    TimePart.DISK_SEQUENTIAL: 30.0,
    TimePart.DISK_RANDOM: 30.0,
    TimePart.NETWORK: 15.0,
    TimePart.LOCKS: 30.0,
}
SPLIT = TimeSplit.of(600.0, SPENT)
"""Of two statements at once over 300 s: 0.5 on resources, 0.1 for locks, 1.4 not allocated."""


def test_a_nodes_time_is_divided_over_the_layers() -> None:
    """Of 1.4 that no resource explains, 0.9 waited for a replica; 0.3 of appliers are added."""
    found = split_into_layers(SPLIT, 300.0, Replication(0.0, applying=0.3, waiting=0.9))
    assert found == pytest.approx(
        {Layer.SYSTEM: 0.5, Layer.DISTRIBUTION: 1.2, Layer.APPLICATION: 0.6}
    )
    assert sum(found.values()) == pytest.approx(2.0 + 0.3)


def test_waits_are_at_most_the_unexplained_time() -> None:
    """Samples of threads that are too high leave no negative layer, and the same sum."""
    found = split_into_layers(SPLIT, 300.0, Replication(0.0, applying=0.0, waiting=9.0))
    assert found[Layer.APPLICATION] == pytest.approx(0.1)
    assert sum(found.values()) == pytest.approx(2.0)


def test_a_single_server_spends_no_time_on_distribution() -> None:
    """It applies nothing and waits for no replica."""
    found = split_into_layers(SPLIT, 300.0, Replication(0.0, 0.0, 0.0))
    assert found[Layer.DISTRIBUTION] == 0.0


@pytest.mark.parametrize(
    "split",
    [
        TimeSplit.of(600.0, {**SPENT, TimePart.CPU: None}),
        TimeSplit.of(600.0, {**SPENT, TimePart.DISK_RANDOM: None}),
        TimeSplit.of(50.0, SPENT),
    ],
    ids=["no CPU", "no disk", "contradicted"],
)
def test_unknown_parts_give_no_layers(split: TimeSplit) -> None:
    """Unseen time on a resource would look like the DBMS's own."""
    assert split_into_layers(split, 300.0, Replication(0.0, 0.0, 0.0)) == {}


def test_without_replication_samples_there_are_no_layers() -> None:
    """Without performance_schema a wait for a replica would look like the DBMS's own."""
    assert split_into_layers(SPLIT, 300.0, None) == {}


def test_replication_samples_are_averaged_over_the_last_minutes() -> None:
    """One of four saw a wait; old samples do not count."""
    known: tuple[Replication, ...] = (Replication(0.0, 100.0, 100.0),)
    for at, waiting in ((300.0, 1.0), (305.0, 0.0), (310.0, 0.0), (315.0, 0.0)):
        known = add_replication(known, Replication(at, 2.0, waiting))
    assert mean_replication(known, 315.0) == Replication(315.0, 2.0, 0.25)
    assert mean_replication(known, 315.0 + ROUND_TRIP_LIFETIME) is None
    assert mean_replication((), 0.0) is None


def test_layer_shares_are_of_all_nodes() -> None:
    """A primary that waits for its replica, and the replica that applies."""
    primary = {Layer.SYSTEM: 1.0, Layer.DISTRIBUTION: 2.0, Layer.APPLICATION: 1.0}
    replica = {Layer.SYSTEM: 3.0, Layer.DISTRIBUTION: 1.0, Layer.APPLICATION: 0.0}
    assert shares_by_layer([primary, replica, {}]) == pytest.approx(
        {Layer.SYSTEM: 0.5, Layer.DISTRIBUTION: 0.375, Layer.APPLICATION: 0.125}
    )
    assert shares_by_layer([{}]) == {}
