"""From window to snapshot: which source, which points, when there is a fit and when not."""

import numpy as np
import pytest

from agent.config.settings import FitSettings
from agent.intervals import Interval, Window
from agent.pipeline import Now, assess, fit_usl, latest_load
from agent.snapshot import FitState, Health, Snapshot, Source
from models.trust import Trust
from models.usl import Usl

LAW = Usl(sigma=0.03, kappa=0.0008, lam=500.0)
SETTINGS = FitSettings(interval=10.0, stale_after=100.0)
UP = Health(up=True)
ZERO = 1_700_000_000.0


def window(n: list[float], *, statement_time: bool = True, idle: int = 0) -> Window:
    """Intervals of ten seconds on the law, the idle ones first."""
    return Window(intervals([0.01] * idle + n, statement_time=statement_time))


def intervals(loads: list[float], *, statement_time: bool = True) -> list[Interval]:
    """One interval a load."""
    return [
        Interval(
            end=10.0 * (k + 1),
            seconds=10.0,
            throughput=float(LAW.throughput(load)),
            statement_time=load if statement_time else np.nan,
            threads_running=load + 2.0,
            thread_samples=10.0,
            excluded_agent=1.0,
            excluded_binlog_dump=1.0,
            excluded_system=np.nan,
            resources={},
        )
        for k, load in enumerate(loads)
    ]


def now(seconds: float) -> Now:
    """That many seconds after the monotonic clock's zero."""
    return Now(monotonic=seconds, unix=ZERO + seconds)


def snapshot(found: Window, at: float, health: Health = UP) -> Snapshot:
    """What is known of those intervals at that time."""
    return assess("db", found, health, FitState(), SETTINGS, now(at))


RISING = [1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 20.0, 24.0, 30.0, 36.0]


def test_clean_points_give_back_the_law_that_made_them() -> None:
    """The whole path finds the peak it was shown, and trusts it."""
    known = snapshot(window(RISING), 101)
    fit = known.fit(ZERO + 101)
    assert fit is not None
    assert fit.x_max == pytest.approx(LAW.x_max, rel=0.03)
    assert fit.trust is Trust.TRUSTED
    assert known.throughput_headroom(ZERO + 101) == pytest.approx(
        1 - float(LAW.throughput(36)) / fit.x_max  # type: ignore[operator]
    )
    assert known.concurrency_headroom(ZERO + 101) == pytest.approx(1 - 36 / fit.n_max)  # type: ignore[operator]


def test_past_the_peak_the_concurrency_headroom_is_negative() -> None:
    """A server beyond its peak is not told that it has headroom."""
    known = snapshot(window([*RISING, 60.0, 80.0]), 121)
    headroom = known.concurrency_headroom(ZERO + 121)
    assert headroom is not None
    assert headroom < -0.5


def test_statement_time_is_preferred_where_it_is_known() -> None:
    """Little's law is the better concurrency; Threads_running is the other."""
    by_time = fit_usl(window(RISING), FitState(), SETTINGS, now(101))
    by_threads = fit_usl(window(RISING, statement_time=False), FitState(), SETTINGS, now(101))
    assert by_time.source is Source.STATEMENT_TIME
    assert by_threads.source is Source.THREADS_RUNNING
    assert by_threads.concurrency is not None
    assert by_threads.concurrency.tolist() == RISING


def test_a_source_that_is_gone_is_left_for_the_other() -> None:
    """When performance_schema goes away the fit goes on with Threads_running at once."""
    before = intervals(RISING * 5)
    after = intervals(RISING * 2, statement_time=False)
    state = fit_usl(Window([*before, *after]), FitState(), SETTINGS, now(701))
    assert state.source is Source.THREADS_RUNNING


def test_a_noisy_source_makes_a_wider_interval() -> None:
    """Ten readings of Threads_running are not taken for an exact concurrency."""
    found = [
        fit_usl(window(RISING[:7], statement_time=exact), FitState(), SETTINGS, now(71)).fit
        for exact in (True, False)
    ]
    exact, noisy = (fit.x_max_interval for fit in found if fit is not None)
    assert exact is not None
    assert noisy is not None
    assert noisy.ratio > exact.ratio


def test_idle_intervals_do_not_enter() -> None:
    """A night without load says nothing about the limit."""
    state = fit_usl(window(RISING, idle=50), FitState(), SETTINGS, now(601))
    assert state.fit is not None
    assert state.fit.points == len(RISING)


@pytest.mark.parametrize(
    ("loads", "idle", "words"),
    [
        ([], 0, "no complete interval yet"),
        ([4.0, 5.0], 3, "2 of 5 intervals had a concurrency of 0.5 or more; a fit needs 3"),
    ],
)
def test_without_enough_load_it_says_what_is_missing(
    loads: list[float], idle: int, words: str
) -> None:
    """`Cannot tell yet` comes with its reason, and no number."""
    state = fit_usl(window(loads, idle=idle), FitState(), SETTINGS, now(60))
    assert (state.fit, state.at, state.waiting) == (None, None, words)


def test_the_same_window_is_not_fitted_twice() -> None:
    """Between two intervals the fit is the one there was."""
    found = window(RISING)
    first = fit_usl(found, FitState(), SETTINGS, now(101))
    assert fit_usl(found, first, SETTINGS, now(104)) is first
    longer = fit_usl(window([*RISING, 40.0]), first, SETTINGS, now(111))
    assert longer is not first


def test_the_load_is_that_of_the_latest_interval() -> None:
    """Its end is told in Unix time; a source that is not known has no number."""
    load = latest_load(window([1.0, 3.0], statement_time=False), now(25))
    assert load is not None
    assert load.end == ZERO + 20
    assert load.throughput == pytest.approx(float(LAW.throughput(3.0)))
    assert load.concurrency == {Source.THREADS_RUNNING: 3.0}
    assert load.excluded == {"agent": 1.0, "binlog_dump": 1.0}


def test_a_stale_fit_and_a_stale_load_are_withheld() -> None:
    """What is older than allowed has no number any more, whoever asks."""
    known = snapshot(window(RISING), 101)
    late = ZERO + 100 + SETTINGS.stale_after + 1
    assert known.fit(late - 2) is not None
    assert known.fit(late) is None
    assert known.current_load(late) is None
    assert known.throughput_headroom(late) is None


def test_a_server_that_is_down_has_no_load_but_keeps_its_fit() -> None:
    """Nothing is told of a load that cannot be read; what the server can do has not changed."""
    known = snapshot(window(RISING), 101, Health(up=False))
    assert known.current_load(ZERO + 101) is None
    assert known.throughput_headroom(ZERO + 101) is None
    assert known.fit(ZERO + 101) is not None
