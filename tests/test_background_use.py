"""What a server uses at any load, told from what its calls use beside their classes."""

import numpy as np
import pytest

from models.arrays import Array
from models.attribution.background_use import BACKGROUND_PRIOR, NOTHING_UNATTRIBUTED, BackgroundUse
from models.attribution.class_interval_table import AGENT, ClassIntervals

SECONDS = 2.0


def use(
    calls: Array, background: float, per_call: float, noise: float = 0.0
) -> tuple[BackgroundUse, float]:
    """One class that is counted for half a second, the agent, and what nobody is counted for."""
    random = np.random.default_rng(1)
    counts = np.column_stack([calls, np.full(len(calls), 10.0)])
    seconds = np.full(len(calls), SECONDS)
    classes = np.column_stack([np.full(len(calls), 0.5), np.full(len(calls), 0.01)])
    rest = background * SECONDS - 0.01 + per_call * calls + noise * random.normal(size=len(calls))
    y = classes.sum(axis=1) + rest
    intervals = ClassIntervals(("a", AGENT), seconds, counts * 0.0, counts)
    return BackgroundUse.of(intervals, y, classes), float(y.sum())


@pytest.mark.parametrize("background", [0.0, 0.03, 0.06])
def test_background_use_does_not_grow_with_the_calls(background: float) -> None:
    """Of 0.06 processors beside the classes, the agent's part of them included."""
    calls = np.linspace(1000.0, 5000.0, 30)
    per_call = (0.06 - background) * SECONDS / calls.mean()
    found, total = use(calls, background, per_call, noise=0.002)
    unattributed = found.unattributed_use(total)
    rest = 0.06 * SECONDS * 30 / total
    assert unattributed.background + unattributed.uncounted_calls == pytest.approx(rest, rel=0.02)
    assert unattributed.background == pytest.approx(
        rest * background / 0.06, abs=3 * unattributed.error
    )
    assert unattributed.error < 0.1 * rest


def test_a_constant_load_does_not_identify_the_background() -> None:
    """Any part may be background."""
    found, total = use(np.full(30, 3000.0), 0.03, 2e-5, noise=0.002)
    assert found.part == BACKGROUND_PRIOR
    assert BackgroundUse.empty().part == found.part
    assert BackgroundUse.empty().unattributed_use(0.0) == NOTHING_UNATTRIBUTED
    assert found.unattributed_use(total).background == pytest.approx(
        found.unattributed_use(total).uncounted_calls
    )


@pytest.mark.parametrize("calls", [3221.1, 4097.7])
def test_rounding_is_no_change_of_the_load(calls: float) -> None:
    """Where neither the calls nor the use ever change, the sums differ by rounding alone."""
    found, _ = use(np.full(240, calls), 0.03, 2e-5)
    assert found.part == BACKGROUND_PRIOR


def test_sums_of_blocks_add_up() -> None:
    """Older ones that count less change the sums, not the part."""
    calls = np.linspace(1000.0, 5000.0, 30)
    whole, _ = use(calls, 0.03, 2e-5)
    first, _ = use(calls[:15], 0.03, 2e-5)
    second, _ = use(calls[15:], 0.03, 2e-5)
    assert (first + second).sums == pytest.approx(whole.sums)
    assert whole.faded(0.5).part[0] == pytest.approx(whole.part[0], abs=1e-6)
