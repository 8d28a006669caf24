"""Where statement time goes: the paper's figures, the parts' sum, classes, calibration."""

from dataclasses import replace

import numpy as np
import pytest

from models.time_split.disk_reads import Reads, fit_profile, random_share, sequential_part
from models.time_split.disk_time_formulas import (
    DiskProfile,
    random_seconds,
    sequential_seconds,
)
from models.time_split.interval_split import IntervalCounters, time_split
from models.time_split.limiting_resource import LimitedBy, LimitingResource
from models.time_split.per_class import (
    MIN_THREAD_SAMPLES,
    ClassColumns,
    class_splits,
    divide_with_redistribution,
)
from models.time_split.queueing import statements_at_resource
from models.time_split.time_parts import TimePart, TimeSplit

SLOW_DISK = DiskProfile(22.0e6, 7.3e-3)
FAST_DISK = DiskProfile(30.5e6, 6.8e-3)
"""Section 2.4: read performance and access time of the paper's two disks."""
SLOW_CLOCK, FAST_CLOCK = 400e6, 1000e6  # Hz, section 2.4


def split_of(total: float, **seconds: float | None) -> TimeSplit:
    """Split so much statement time by what was measured."""
    return TimeSplit.of(total, {TimePart(name): value for name, value in seconds.items()})


def test_query_1_is_cpu_limited_with_the_papers_shares() -> None:
    """Query 1 of 80 % CPU is of 60 % with a clock 2.5 times as fast (figure 2, section 4.1)."""
    slow = split_of(100.0, cpu=80.0, disk_sequential=20.0)
    fast_cpu = 80.0 * SLOW_CLOCK / FAST_CLOCK
    fast = split_of(fast_cpu + 20.0, cpu=fast_cpu, disk_sequential=20.0)
    for split, share in ((slow, 0.8), (fast, 0.6)):
        found = LimitedBy.of(split)
        assert found is not None
        assert found.limit is LimitingResource.CPU
        assert found.share == pytest.approx(share, abs=0.02)


def test_query_4_keeps_the_papers_ratio_of_sequential_reads() -> None:
    """90 % sequential to 10 % random on the slow disk is 85 % to 15 % on the fast (section 4.1)."""
    seconds = 90.0
    read = seconds * SLOW_DISK.sequential_bytes_per_second
    accesses = 10.0 / SLOW_DISK.random_seconds
    assert sequential_seconds(read, SLOW_DISK) == pytest.approx(90.0)
    assert random_seconds(accesses, SLOW_DISK) == pytest.approx(10.0)
    sequential, random = sequential_seconds(read, FAST_DISK), random_seconds(accesses, FAST_DISK)
    assert sequential / (sequential + random) == pytest.approx(0.85, abs=0.03)
    found = LimitedBy.of(
        split_of((sequential + random) / 0.92, disk_sequential=sequential, disk_random=random)
    )
    assert found is not None
    assert (found.limit, found.share > 0.9) == (LimitingResource.DISK, True)


@pytest.mark.parametrize("explained", [0.20, 0.25])
def test_query_8_is_limited_by_the_dbms(explained: float) -> None:
    """With 20 % of the time explained on one node, 25 % on six, it is the DBMS (figure 5)."""
    parts = {"disk_random": 60 * explained, "disk_sequential": 0.0, "cpu": 40 * explained}
    found = LimitedBy.of(split_of(100.0, **parts))
    assert found == LimitedBy(LimitingResource.DBMS, pytest.approx(1 - explained))  # type: ignore[arg-type]


def test_query_3_without_network_is_limited_by_its_disk() -> None:
    """30 % CPU and 70 % disk without the network; limited by it as it outgrows both (figure 4)."""
    alone = LimitedBy.of(split_of(100.0, cpu=30.0, disk_sequential=70.0))
    grown = LimitedBy.of(split_of(210.0, cpu=30.0, disk_sequential=70.0, network=110.0))
    assert alone == LimitedBy(LimitingResource.DISK, 0.7)
    assert grown is not None
    assert grown.limit is LimitingResource.NETWORK


def test_parts_and_the_rest_add_up_to_statement_time() -> None:
    """Whatever is measured, no part is negative."""
    rng = np.random.default_rng(4)
    for _ in range(200):
        total = float(rng.uniform(0, 10))
        measured = {part.value: float(rng.normal(2, 3)) for part in list(TimePart)[:-1]}
        split = split_of(total, **measured)
        assert min(split.seconds.values()) >= 0
        assert sum(split.seconds.values()) == pytest.approx(total, abs=1e-9)


def test_parts_above_the_statement_time_are_flagged() -> None:
    """Parts of 15 s in 10 s are scaled to them and flagged; 10.5 s are not."""
    split = split_of(10.0, cpu=10.0, locks=5.0)
    assert split.excess == pytest.approx(0.5)
    assert split.over_explained
    assert split.seconds[TimePart.CPU] == pytest.approx(6.667, abs=0.001)
    assert not split_of(10.0, cpu=10.5).over_explained


def test_unknown_parts_are_listed() -> None:
    """An unknown part has no time; a measured 0 is known."""
    split = split_of(10.0, cpu=2.0, locks=0.0, network=None)
    assert TimePart.NETWORK in split.unknown
    assert TimePart.LOCKS not in split.unknown
    assert split.seconds[TimePart.NOT_ALLOCATED] == pytest.approx(8.0)


def test_without_cpu_or_disk_there_is_no_limiting_resource() -> None:
    """What is not allocated may be theirs, and is not called the DBMS."""
    seen: dict[str, float | None] = {"cpu": 1.0, "disk_sequential": 0.0, "disk_random": 0.5}
    assert LimitedBy.of(split_of(10.0, **seen)) == LimitedBy(LimitingResource.DBMS, 0.85)
    for unseen in seen:
        assert LimitedBy.of(split_of(10.0, **{**seen, unseen: None})) is None
    assert LimitedBy.of(split_of(10.0, locks=9.0)) == LimitedBy(LimitingResource.LOCKS, 0.9)


def test_an_idle_server_has_no_limiting_resource() -> None:
    """There is no statement time."""
    assert LimitedBy.of(split_of(0.0, cpu=1.0)) is None


def test_pages_are_random_and_large_requests_sequential() -> None:
    """By mean sizes of one page, of read-ahead, and of halves of both; merges are sequential."""
    page, large = 16384.0, 131072.0
    assert random_share(Reads(100, 100 * page)) == 1.0
    assert random_share(Reads(100, 100 * large)) == 0.0
    assert random_share(Reads(100, 50 * (page + large))) == pytest.approx(0.5)
    assert random_share(Reads(100, 100 * page, merged=100)) == pytest.approx(0.5)
    assert sequential_part(Reads(100, 50 * (page + large)), None) == pytest.approx(8 / 9)
    disk = DiskProfile(50 * large, 1 / 50)  # a second for either half
    assert sequential_part(Reads(100, 50 * (page + large)), disk) == pytest.approx(0.5)


def test_a_disk_profile_is_fitted_to_its_counters() -> None:
    """Both numbers of a simulated disk are found within 5 %, with 5 % of noise."""
    rng = np.random.default_rng(7)
    n, size = rng.uniform(100, 400, 60), rng.uniform(16e3, 500e3, 60)
    took = (n * 2e-3 + n * size / 100e6) * rng.normal(1, 0.05, 60)
    found = fit_profile(n, n * size, took)
    assert found is not None
    assert found.random_seconds == pytest.approx(2e-3, rel=0.05)
    assert found.sequential_bytes_per_second == pytest.approx(100e6, rel=0.05)


def test_requests_of_one_size_give_no_profile() -> None:
    """One size cannot separate access from transfer."""
    n = np.linspace(100, 400, 60)
    assert fit_profile(n, n * 16384.0, n * 1e-3) is None


def test_queue_lengths_are_those_of_mean_value_analysis() -> None:
    """One statement never queues; at a full resource are all; else as many as were simulated."""
    assert statements_at_resource(0.7, 1) == pytest.approx(0.7)
    assert statements_at_resource(1.0, 8) == pytest.approx(8.0)
    assert statements_at_resource(0.5, 1e9) == pytest.approx(1.0)  # U / (1 - U)
    assert statements_at_resource(0.0, 5) == 0.0


def test_time_on_disk_follows_the_profile() -> None:
    """980 page reads a second of a disk of 1000 take 98 % of one scan's time."""
    reads = Reads(9800.0, 9800 * 16384.0)
    profile = DiskProfile(130e6, 1e-3)
    split = time_split(IntervalCounters(10.0, 10.0, cpu=0.2, disk=reads, profile=profile))
    assert split.seconds[TimePart.DISK_RANDOM] == pytest.approx(9.8)
    assert not split.over_explained


def test_the_disk_profile_is_the_configured_or_the_fitted_one() -> None:
    """Half of the requests are random: half of the time by the profile, a ninth by bytes."""
    page, large = 16384.0, 131072.0
    disk = DiskProfile(50 * large, 1 / 50)
    far_off = DiskProfile(5000 * large, 1 / 50)
    usage = IntervalCounters(10.0, 10.0, disk=Reads(100, 50 * (page + large)), disk_seconds=2.0)
    for known, seconds in (
        (usage, 2.0 * 8 / 9),
        (replace(usage, profile=disk), 1.0),
        (replace(usage, fitted_profile=disk), 1.0),
        (replace(usage, profile=disk, fitted_profile=far_off), 1.0),
    ):
        split = time_split(known)
        assert split.seconds[TimePart.DISK_SEQUENTIAL] == pytest.approx(seconds)
        assert split.seconds[TimePart.DISK_RANDOM] == pytest.approx(2.0 - seconds)


def test_a_full_disk_delays_only_reading_statements() -> None:
    """Eight statements, of which one is seen waiting for a full disk: one is there, not eight."""
    reads, profile = Reads(9990.0, 9990 * 16384.0), DiskProfile(130e6, 1e-3)
    one = IntervalCounters(10.0, 80.0, reads_waiting=0.97, disk=reads, profile=profile)
    assert time_split(one).seconds[TimePart.DISK_RANDOM] == pytest.approx(9.99)
    five = replace(one, reads_waiting=5.0)
    assert time_split(five).seconds[TimePart.DISK_RANDOM] == pytest.approx(50.0)
    nothing_seen = replace(one, reads_waiting=None)
    assert time_split(nothing_seen).shares[TimePart.DISK_RANDOM] > 0.95


def test_other_programs_reads_are_not_the_servers() -> None:
    """Of a disk that others read as much, the server's own half counts."""
    reads = Reads(1000.0, 1000 * 16384.0)
    used = IntervalCounters(10.0, 10.0, disk=reads, read_bytes=500 * 16384.0, disk_seconds=8.0)
    assert time_split(used).seconds[TimePart.DISK_RANDOM] == pytest.approx(4.0)


def test_a_full_link_delays_all_sending_statements() -> None:
    """Four sessions over a full link wait for it all the time that they do not compute."""
    split = time_split(IntervalCounters(10.0, 40.0, cpu=2.0, link_share=0.99))
    assert split.shares[TimePart.NETWORK] > 0.9
    assert split.excess == 0


def test_classes_are_split_by_their_own_use() -> None:
    """A scan, a reader, a sender, a class behind locks and a sleeper, each by its own limit."""
    target = split_of(
        50.0,
        cpu=10.0,
        disk_sequential=0.0,
        disk_random=9.0,
        network=8.0,
        locks=9.0,
        processor_queue=0.5,
    )
    use = ClassColumns(
        statement_time=np.full(5, 10.0),
        cpu=np.array([9.0, 0.5, 0.4, 0.1, 0.0]),
        locks=np.array([0.0, 0.0, 0.0, 9.0, 0.0]),
        read_bytes=np.array([0.0, 1e9, 0.0, 0.0, 0.0]),
        sent_bytes=np.array([1e3, 1e3, 1e9, 1e3, 1e3]),
    )
    splits = class_splits(target, use)
    limits = [found.limit for split in splits if (found := LimitedBy.of(split))]
    assert limits == [
        LimitingResource.CPU,
        LimitingResource.DISK,
        LimitingResource.NETWORK,
        LimitingResource.LOCKS,
        LimitingResource.DBMS,
    ]
    assert all(sum(s.seconds.values()) == pytest.approx(10.0) for s in splits)


@pytest.mark.parametrize("looks", [9, 90])
def test_the_disk_is_of_the_classes_that_were_seen_to_wait_for_it(looks: int) -> None:
    """A scan whose pages others evict waits for them; rows say so of none. Few looks say nothing.

    As measured on MariaDB: the scan examines most rows, the other's pages are read all the time.
    """
    target = split_of(20.0, cpu=4.5, processor_queue=1.0, disk_random=14.0, disk_sequential=0.0)
    use = ClassColumns(
        statement_time=np.array([10.0, 10.0, 10.0]),
        cpu=np.array([4.0, 0.5, 0.0]),
        read_bytes=np.array([3e7, 4e4, 0.0]),  # rows examined, in their place
        on_disk=looks / 90 * np.array([35.0, 55.0, 0.0]),
        ready=looks / 90 * np.array([30.0, 10.0, 0.0]),
    )
    scan, reader, sleeper = class_splits(target, use)
    if looks < MIN_THREAD_SAMPLES:
        assert (
            scan.shares[TimePart.DISK_RANDOM] < 0.53
        )  # the room that its wait for processors leaves
        assert reader.shares[TimePart.DISK_RANDOM] > 0.85
        return
    assert scan.shares[TimePart.DISK_RANDOM] == pytest.approx(14 * 35 / 90 / 10)
    assert reader.shares[TimePart.DISK_RANDOM] == pytest.approx(14 * 55 / 90 / 10)
    ready = 0.25 * (4.5 + 1.0)  # s of the reader, whose CPU is 0.5
    assert reader.seconds[TimePart.PROCESSOR_QUEUE] == pytest.approx(ready - 0.5)
    assert sleeper.shares[TimePart.NOT_ALLOCATED] == 1.0


def test_a_full_class_passes_the_excess_to_others() -> None:
    """No class gets more than its room, and nothing is lost while there is some."""
    given = divide_with_redistribution(10.0, np.array([3.0, 1.0, 0.0]), np.array([4.0, 9.0, 9.0]))
    assert given == pytest.approx([4.0, 6.0, 0.0])


def test_locks_are_row_locks_and_those_that_statements_are_seen_to_wait_for() -> None:
    """Either alone is known too; where neither is, locks are unknown and not zero."""
    both = time_split(IntervalCounters(10.0, 20.0, row_locks=4.0, other_locks=6.0))
    assert both.seconds[TimePart.LOCKS] == pytest.approx(10.0)
    assert time_split(IntervalCounters(10.0, 20.0, other_locks=6.0)).shares[
        TimePart.LOCKS
    ] == pytest.approx(0.3)
    assert TimePart.LOCKS in time_split(IntervalCounters(10.0, 20.0)).unknown


def test_a_sleeping_class_gets_no_time_of_a_full_link() -> None:
    """What the sending class has no room for goes to none; its bytes wait as long as others'."""
    target = split_of(12.0, network=11.0)
    use = ClassColumns(np.array([4.0, 8.0]), sent_bytes=np.array([9900.0, 100.0]))
    sends, sleeps = class_splits(target, use)
    assert sends.shares[TimePart.NETWORK] == pytest.approx(1.0)
    assert sleeps.seconds[TimePart.NETWORK] == pytest.approx(100 * 4.0 / 9900)
    assert sleeps.shares[TimePart.NOT_ALLOCATED] > 0.98
