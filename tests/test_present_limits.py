"""Intervals from before a limit changed are shares of the latest one, or are left out."""

import pytest
from law_windows import interval

from agent.window.intervals import Window
from agent.window.present_limits import by_present_limits

Row = tuple[float, float | None]


def by_latest_quota(*rows: Row) -> tuple[list[float], list[float], list[bool]]:
    """Assess rows of a used share of a quota, and the quota, in processors, if it is known.

    Returns the shares and quotas by the latest one, and which rows had as many.
    """
    used = [
        {"server_cpu": share} | ({} if quota is None else {"server_cpu:cpus": quota})
        for share, quota in rows
    ]
    kept = by_present_limits(
        Window(interval(k, 1.0)._replace(resources=each) for k, each in enumerate(used))
    )
    shares, quotas = kept.utilisations["server_cpu"], kept.utilisations["server_cpu:cpus"]
    return shares.tolist(), quotas.tolist(), kept.has_as_many_processors.tolist()


@pytest.mark.parametrize("latest", [4.0, 1.0, 0.25])
def test_a_use_is_a_share_of_the_latest_quota(latest: float) -> None:
    """Of whole processors or of a part of one, whether it was raised or lowered."""
    shares, quotas, same = by_latest_quota((0.8, latest / 2), (0.2, 2 * latest), (0.5, latest))
    assert shares == pytest.approx([0.4, 0.4, 0.5])
    assert quotas == pytest.approx([latest] * 3)
    assert same == [False, False, True]


def test_a_use_of_an_unknown_quota_stays_as_it_was() -> None:
    """As where the quota could not be read for a while."""
    shares, _, _ = by_latest_quota((0.8, None), (0.5, 2.0))
    assert shares == pytest.approx([0.8, 0.5])


def test_an_interval_that_used_more_than_there_is_now_is_left_out() -> None:
    """One that used all of it stays, and one that was measured a little above its own quota."""
    shares, _, same = by_latest_quota((0.6, 2.0), (0.5, 2.0), (1.02, 1.0), (0.7, 1.0))
    assert shares == pytest.approx([1.0, 1.02, 0.7])
    assert same == [False, True, True]
