"""Whether a host's CPU time is mostly that of other programs, over weeks of intervals."""

from agent.prometheus.host_used_by_others import is_mostly_used_by_others
from agent.window.interval_buffer import IntervalBuffer
from agent.window.intervals import Interval
from agent.window.resource_utilisation import CPU, CPUS

SECONDS, DAY = 60.0, 86_400.0


def seen(index: int, throughput: float, busy: float) -> Interval:
    """An interval of a minute with 0.1 s of statements a second, on two processors."""
    used = {CPU: busy, CPUS: 2.0}
    return Interval(SECONDS * (index + 1), SECONDS, throughput, 0.1, 1.0, 4.0, 1.0, 0.0, 0.0, used)


def test_a_rare_use_by_others_is_not_that_of_most_intervals() -> None:
    """Of a week those at rare loads are kept, as in a nightly backup, and most others dropped."""
    buffer = IntervalBuffer(SECONDS, 7 * DAY, 15.0)
    count = round(7 * DAY / SECONDS)
    backup = [1000 * 1.12**k for k in range(10)]
    week = [
        seen(k, backup[k % 100], 0.9) if k % 100 < len(backup) else seen(k, 900.0, 0.05)
        for k in range(count)
    ]
    buffer.append_intervals(week, SECONDS * count)
    window = buffer.latest_window
    assert window["stands_for"].sum() == count
    assert not is_mostly_used_by_others(window)
    always = [each._replace(resources={CPU: 0.9, CPUS: 2.0}) for each in week]
    buffer = IntervalBuffer(SECONDS, 7 * DAY, 15.0)
    buffer.append_intervals(always, SECONDS * count)
    assert is_mostly_used_by_others(buffer.latest_window)
