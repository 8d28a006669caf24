"""Samples to intervals: what the window holds, and that it stays bounded."""

import gc
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from agent.window.interval_buffer import IntervalBuffer
from agent.window.intervals import Interval, Window
from agent.window.sample_columns import SampleColumns
from collectors.base import Sample

QPS = 100.0
Reader = Callable[[float], Mapping[str, float]]


def status(at: float, *, restarted: float = 1e9, own: float = 4.0) -> dict[str, float]:
    """A server that started at −1000 s and answers 100 client queries per second."""
    born = restarted if at >= restarted else -1000.0
    return {
        "questions": np.floor((QPS + own) * (at - born)),
        "own_statements": np.floor(own * (at + 1000.0)),
        "threads_running": 4.0 + (round(at) % 2),
        "uptime": np.floor(at - born),
    }


def fill(buffer: IntervalBuffer, readers: Mapping[str, Reader], start: float, end: float) -> None:
    """One sample of each collector every second, a little off the grid, and a look at each."""
    for at in np.arange(start, end) + 0.21:
        for name, read in readers.items():
            buffer.append(Sample(name, float(at), read(float(at))))
        buffer.window(float(at))


def window(readers: Mapping[str, Reader], end: float = 61.0, **changes: float) -> Window:
    """The window after a minute of samples in intervals of ten seconds."""
    buffer = IntervalBuffer(width=10, horizon=changes.get("horizon", 3600), sampling=1)
    fill(buffer, readers, changes.get("start", 0.0), end)
    return buffer.window(end + 5)


def test_intervals_are_on_a_grid_and_adjacent() -> None:
    """Six of ten seconds; the first one, begun before the first sample, does not count."""
    found = window({"status": status})
    assert found["end"].tolist() == [20, 30, 40, 50, 60]
    assert found["seconds"].tolist() == [10] * 5


def test_throughput_excludes_the_agents_statements() -> None:
    """Its own statements are subtracted."""
    assert window({"status": status})["throughput"] == pytest.approx([QPS] * 5, rel=0.01)


def test_cpu_utilisation_is_at_most_one() -> None:
    """Counters are read up to 30 ms off the sample's time; half of a processor stays half."""
    for part in (1.0, 0.5):
        host = lambda at, part=part: {  # noqa: E731
            "cpus": 2.0,
            "cpu_user_seconds": 2 * part * (at + 0.03 * (-1) ** (round(at) // 10)),
        }
        used = window({"status": status, "host": host}).utilisation_or_rate("cpu")
        assert used.max() == 1.0 if part == 1.0 else used.max() > part
        assert used == pytest.approx([part] * 5, abs=0.01)


def test_an_idle_server_has_a_throughput_of_zero() -> None:
    """Rounding makes neither a gap nor a negative rate of an interval without clients."""
    idle = window({"status": lambda at: {**status(at), "questions": np.floor(4 * (at + 1000))}})
    assert idle["throughput"] == pytest.approx([0.0] * 5, abs=0.11)
    assert (idle["throughput"] >= 0).all()


def test_without_clients_the_throughput_is_exactly_zero() -> None:
    """The interpolation's rounding would show 7e-15 queries/s on a page."""
    buffer = IntervalBuffer(width=10, horizon=3600, sampling=1)
    for at in map(float, np.arange(0, 65, 1.037)):
        own = np.floor(4 * at)
        known = {**status(at), "questions": 1234567 + own, "own_statements": own}
        buffer.append(Sample("status", at, known))
    found = buffer.window(66.0)["throughput"].tolist()
    assert len(found) == 4
    assert set(found) == {0.0}


def test_concurrency_includes_running_statements() -> None:
    """A statement of ten minutes shows as one in every interval, not as 600 in the last."""

    def statements(at: float) -> dict[str, float]:
        ended = at >= 45
        return {
            "statements": np.floor((QPS + 4) * at) + ended,
            "statement_seconds": 645.0 * ended + 1e-5 * at,
            "in_flight_seconds": 0.0 if ended else at + 600.0,
        }

    found = window({"status": status, "statements": statements})
    assert found["statement_time"] == pytest.approx([1, 1, 1, 0.5, 0], abs=0.05)


def test_concurrency_above_the_connections_is_unknown() -> None:
    """Where running statements cannot be read, a long report is no burst at its end."""

    def connected(at: float) -> dict[str, float]:
        return {**status(at), "threads_connected": 7.0}

    def statements(at: float) -> dict[str, float]:
        return {"statement_seconds": 2 * at + (600.0 if at >= 45 else 0.0)}

    found = window({"status": connected, "statements": statements})
    assert found["statement_time"] == pytest.approx([2, 2, 2, np.nan, 2], nan_ok=True)
    assert found["throughput"] == pytest.approx([QPS] * 5, rel=0.01)


@pytest.mark.parametrize("left_out", [0.05, 0.2, 1.0])
def test_untimed_statements_make_the_concurrency_unknown(left_out: float) -> None:
    """From 34 s on some users' statements are untimed, or all; one long one may run beside them."""

    def statements(at: float) -> dict[str, float]:
        timed = (QPS + 4) * (at if at < 34 else 34 + (1 - left_out) * (at - 34))
        return {"statements": np.floor(timed) - 1, "statement_seconds": 0.02 * timed}

    found = window({"status": status, "statements": statements})
    known = [True, True, *[left_out < 0.1] * 3]
    assert np.isfinite(found["statement_time"]).tolist() == known
    assert found["throughput"] == pytest.approx([QPS] * 5, rel=0.01)


def test_untimed_statements_of_a_recording_make_it_unknown() -> None:
    """An exporter has their time only: from 34 s on it stands still while the server answers."""
    statements = {"statements": lambda at: {"statement_seconds": 3 * min(at, 34.0)}}
    found = window({"status": status, **statements})
    assert found["statement_time"] == pytest.approx([3, 3, *[np.nan] * 3], nan_ok=True)
    assert found["throughput"] == pytest.approx([QPS] * 5, rel=0.01)


def test_a_truncated_statement_table_loses_one_interval() -> None:
    """The sums start over; the interval that saw it has no concurrency."""

    def statements(at: float) -> dict[str, float]:
        return {"statement_seconds": 3 * (at if at < 34 else at - 34)}

    found = window({"status": status, "statements": statements})
    assert found["statement_time"] == pytest.approx([3, 3, np.nan, 3, 3], nan_ok=True)
    assert found["throughput"] == pytest.approx([QPS] * 5, rel=0.01)


def test_a_restart_loses_the_intervals_around_it() -> None:
    """No negative and no huge rate: the interval is left out of the window."""
    found = window({"status": lambda at: status(at, restarted=33.5)})
    assert found["end"].tolist() == [20, 30, 50, 60]
    assert found["throughput"] == pytest.approx([QPS] * 4, rel=0.01)


def test_a_restart_resets_statement_time_too() -> None:
    """Sums that exceed their old value again are no burst."""

    def statements(at: float) -> dict[str, float]:
        return {"statement_seconds": 2 * at if at < 33.5 else 5000 + 2 * at}

    found = window({"status": lambda at: status(at, restarted=33.5), "statements": statements})
    assert found["statement_time"] == pytest.approx([2, 2, 2, 2])


def test_a_pause_loses_only_intervals_without_samples() -> None:
    """While the server was frozen nothing is known, and after it all is."""
    buffer = IntervalBuffer(width=10, horizon=3600, sampling=1)
    fill(buffer, {"status": status}, 0, 25)
    fill(buffer, {"status": status}, 47, 71)
    assert buffer.window(75)["end"].tolist() == [20, 60, 70]


def test_threads_running_is_averaged_and_reduced_by_excluded() -> None:
    """The mean of the samples, less the agent, the replicas and the system's threads."""

    def threads(at: float) -> dict[str, float]:
        del at
        return {"agent": 1.0, "binlog_dump": 1.0, "system": 1.0}

    found = window({"status": status, "threads": threads})
    assert found["threads_running"] == pytest.approx([4.5] * 5)
    assert found["thread_samples"].tolist() == [10] * 5
    assert found.excluded.tolist() == [3] * 5
    assert found.client_threads == pytest.approx([1.5] * 5)


def test_without_the_threads_collector_the_status_is_used() -> None:
    """The agent is one thread; MariaDB counts its replicas in the status."""
    found = window({"status": lambda at: {**status(at), "replicas_connected": 2.0}})
    assert found["excluded_binlog_dump"].tolist() == [2] * 5
    assert np.isnan(found["excluded_system"]).all()
    assert found.excluded.tolist() == [3] * 5


def test_concurrency_is_never_negative() -> None:
    """Not if more threads are excluded than run."""
    found = window(
        {
            "status": lambda at: {**status(at), "threads_running": 1.0},
            "threads": lambda _: {"agent": 1.0, "binlog_dump": 0.0, "system": 1.0},
        }
    )
    assert found.client_threads.tolist() == [0] * 5


def host(at: float) -> dict[str, float]:
    """Four CPUs, one busy, a fifth of one stolen; a server that may use two; a disk; a link."""
    busy = {f"cpu_{name}_seconds": 0.0 for name in ("nice", "system", "irq", "softirq")}
    return {
        **busy,
        "cpu_user_seconds": at,
        "cpu_steal_seconds": 0.2 * at,
        "cpus": 4.0,
        "process_cpu_seconds": 0.5 * at,
        "process_cpus": 2.0,
        "disk:sda:busy_seconds": 0.3 * at,
        "network:eth0:received_bytes": 1e5 * at,
        "network:eth0:sent_bytes": 4e5 * at,
        "network:eth0:bytes_per_second": 1e6,
        "network:lo:sent_bytes": 1e9 * at,
    }


def test_host_counters_become_utilisations() -> None:
    """Used over available; a resource without a known ceiling has no utilisation."""
    found = window({"status": status, "host": host})
    expected = {
        "cpu": 0.3,
        "server_cpu": 0.25,
        "cpu:server": 0.125,
        "cpu:steal": 0.05,
        "cpu:cpus": 4.0,
        "server_cpu:cpus": 2.0,
        "disk:sda": 0.3,
        "network:eth0:received": 0.1,
        "network:eth0:sent": 0.4,
    }
    assert set(found.utilisations) == set(expected)
    for name, used in expected.items():
        assert found.utilisations[name] == pytest.approx([used] * 5)


def test_the_clock_rate_is_averaged_over_known_samples() -> None:
    """A sample at which every CPU was idle has none; nor has an interval of such."""

    def clocked(at: float) -> dict[str, float]:
        told = at >= 20 and round(at) % 2 == 0
        return {**host(at), **({"cpu_clock_ratio": 0.4 if at < 30 else 1.0} if told else {})}

    found = window({"status": status, "host": clocked}).utilisations["cpu:clock"]
    assert found == pytest.approx([np.nan, 0.4, 1.0, 1.0, 1.0], nan_ok=True)


def test_idle_entries_are_not_known_while_processors_go_offline() -> None:
    """Those that stay may have gone idle far more often; a reading in between has no count."""

    def shrinking(at: float) -> dict[str, float]:
        idle = {"cpu_idle_entries": 50.0 * at + (1e6 if at > 35 else 0.0)}
        return {**host(at), "cpus": 2.0 if at > 35 else 4.0, **({} if 35 < at < 36 else idle)}

    found = window({"status": status, "host": shrinking}).rates["cpu:idle_entries_per_second"]
    assert found == pytest.approx([50.0, 50.0, np.nan, 50.0, 50.0], nan_ok=True)


def test_a_resource_without_a_ceiling_is_kept_as_a_rate() -> None:
    """Operations and bytes of a disk and of a link, for a configured limit."""

    def busy(at: float) -> dict[str, float]:
        disk = {
            "reads": 200 * at,
            "writes": 100 * at,
            "read_bytes": 4e6 * at,
            "written_bytes": 1e6 * at,
        }
        return {**host(at), **{f"disk:sda:{name}": value for name, value in disk.items()}}

    rates = window({"status": status, "host": busy}).rates
    assert {name: rate[-1] for name, rate in rates.items()} == pytest.approx(
        {
            "disk:sda:reads_per_second": 200.0,
            "disk:sda:read_bytes_per_second": 4e6,
            "disk:sda:operations_per_second": 300.0,
            "disk:sda:bytes_per_second": 5e6,
            "network:eth0:received_per_second": 1e5,
            "network:eth0:sent_per_second": 4e5,
        }
    )


def test_the_servers_settings_are_resources_too() -> None:
    """Connections, the redo log and InnoDB's threads, where the server limits them."""

    def limited(at: float) -> dict[str, float]:
        limits = {"max_connections": 200.0, "innodb_thread_concurrency": 8.0}
        ages = {"checkpoint_age_bytes": 3e6, "checkpoint_max_age_bytes": 1e7}
        return {**status(at), "threads_connected": 50.0, **limits, **ages}

    def statements(at: float) -> dict[str, float]:
        return {"statement_seconds": 2 * at}

    found = window({"status": limited, "statements": statements}).utilisations
    assert {name: used[-1] for name, used in found.items()} == pytest.approx(
        {"connections": 0.25, "connections:open": 49.0, "innodb_threads": 0.25, "redo_log": 0.3}
    )


def samples_in_memory() -> int:
    """How many samples the process holds."""
    return sum(isinstance(held, Sample) for held in gc.get_objects())


def test_intervals_older_than_the_horizon_are_dropped() -> None:
    """Memory is bounded: intervals by the horizon, raw samples by a few intervals."""
    buffer, before = IntervalBuffer(width=10, horizon=50, sampling=1), samples_in_memory()
    fill(buffer, {"status": status}, 0, 1002)
    found = buffer.window(1005)
    assert found["end"].tolist() == [960, 970, 980, 990, 1000]
    assert samples_in_memory() - before < 60


def test_the_horizon_counts_time_not_intervals() -> None:
    """After two days without a server no interval is left."""
    buffer = IntervalBuffer(width=10, horizon=600, sampling=1)
    fill(buffer, {"status": status}, 0, 700)
    found = buffer.window(705)["end"]
    assert (found.min(), found.max()) == (110, 690)
    later = 2 * 86400.0
    assert len(buffer.window(later)) == 0
    fill(buffer, {"status": status}, later, later + 41)
    assert buffer.window(later + 45)["end"].tolist() == [later + 20, later + 30, later + 40]


def test_an_old_thread_count_is_no_longer_excluded() -> None:
    """A collector that does not read any more leaves no correction behind."""
    buffer = IntervalBuffer(width=10, horizon=3600, sampling=1)
    replica = {"threads": lambda _: {"agent": 1.0, "binlog_dump": 1.0, "system": 0.0}}
    fill(buffer, {"status": status, **replica}, 0, 31)
    fill(buffer, {"status": status}, 31, 202)
    found = buffer.window(205)["excluded_binlog_dump"]
    assert found[:2].tolist() == [1, 1]
    assert np.isnan(found[-1])


def made_up(count: int) -> list[Interval]:
    """Intervals of ten seconds: 17 idle loads, and a busy hour near the beginning."""
    rows = [
        Interval(10.0 * (k + 1), 10.0, 5.0 + k % 17, 1.0, 2.0, 10.0, 1.0, 0.0, 0.0, {})
        for k in range(count)
    ]
    for k in range(400, 760):
        rows[k] = rows[k]._replace(throughput=100.0 + 10.0 * (k - 400))
    return rows


def test_a_month_of_intervals_takes_as_little_memory_as_a_day() -> None:
    """The least informative are dropped and represented by others; the busy hour stays."""
    month = 31 * 8640
    buffer = IntervalBuffer(width=10, horizon=32 * 86400.0, sampling=1)
    most = 0
    rows = made_up(month)
    for start in range(0, month, 500):
        buffer.append_intervals(rows[start : start + 500], 0.0)
        most = max(most, len(buffer.window(0)))
    assert most <= 1000
    kept = buffer.window(0).as_intervals
    assert sum(row.stands_for for row in kept) == pytest.approx(month)
    assert max(row.throughput for row in kept) == 3690.0
    assert len([row for row in kept if row.throughput > 90]) > 40
    assert kept[-1] == rows[-1]


def test_the_window_is_the_same_object_until_an_interval_completes() -> None:
    """So that repeated calls cost nothing."""
    buffer = IntervalBuffer(width=10, horizon=50, sampling=1)
    fill(buffer, {"status": status}, 0, 45)
    first = buffer.window(45)
    assert buffer.window(45.5) is first
    fill(buffer, {"status": status}, 45, 55)
    assert buffer.window(55) is not first


def test_windows_are_concatenated() -> None:
    """What one of them does not know is NaN; a resource known in no interval is dropped."""
    first, second = made_up(1000)[:2]
    old, new = first._replace(resources={"cpu": 0.5}), second._replace(resources={"disk": 0.25})
    both = Window([old]).followed_by(Window([new]))
    assert both.as_intervals == Window([old, new]).as_intervals == [old, new]
    assert both.utilisations["cpu"].tolist() == pytest.approx([0.5, np.nan], nan_ok=True)
    later = both.select(both["end"] > old.end)
    assert later.as_intervals == [new]
    assert set(later.utilisations) == {"disk"}
    assert len(both) == 2


def test_without_samples_the_window_is_empty() -> None:
    """And no exception."""
    assert len(IntervalBuffer(10, 50, 1).window(100)) == 0


def test_intervals_begin_at_the_phase() -> None:
    """Those of several targets need not end at the same time."""
    buffer = IntervalBuffer(width=10, horizon=3600, sampling=1, phase=4.0)
    fill(buffer, {"status": status}, 3, 52)
    assert buffer.window(52)["end"].tolist() == [14.0, 24.0, 34.0, 44.0]


@pytest.mark.parametrize(("max_gap", "late"), [(5.0, np.nan), (200.0, 4.0)])
def test_a_last_value_is_valid_for_two_minutes_or_a_gap(max_gap: float, late: float) -> None:
    """From its own time on, not before."""
    samples = [Sample("threads", 10.0, {"system": 4.0})]
    edges = np.array([0.0, 9.0, 10.0, 130.0, 131.0])
    found = SampleColumns(samples, edges, max_gap).last("system")
    assert found.tolist() == pytest.approx([np.nan, 4.0, 4.0, late], nan_ok=True)


def test_a_counter_stalls_only_while_statements_are_counted() -> None:
    """A server without statements measures as before; each stall starts another rate."""
    used, counted = [0.1, 0.1, 0.2, 0.2, 0.2], np.array([5.0, 5.0, 6.0, 7.0, 9.0])
    samples = [Sample("statements", float(k), {"cpu": value}) for k, value in enumerate(used)]
    columns = SampleColumns(samples, np.array([0.0, 4.0]), max_gap=5.0)
    assert columns.stalls("cpu", counted).tolist() == [0, 0, 0, 1, 2]
