"""Sums of what classes did recently."""

import numpy as np
import pytest

from agent.query_classes.exported_class_totals import DecayedTotals
from models.attribution.class_interval_table import OTHER

KEEP = 0.9


def test_older_intervals_and_their_seconds_count_less() -> None:
    """So that use per second is that of the recent time."""
    recent = DecayedTotals(("calls",), KEEP)
    for _ in range(3):
        recent.add(("a", OTHER), np.array([[30.0], [0.0]]), 60.0)
    assert recent.seconds == pytest.approx(60 * (1 + KEEP + KEEP**2))
    assert recent.of(("a",))["calls"] / recent.seconds == pytest.approx(0.5)
    assert recent.by("calls") == {"a": recent.of(("a",))["calls"], OTHER: 0.0}
    assert recent.of(("nobody",)) == {"calls": 0.0}


def test_the_use_of_a_class_without_a_column_passes_to_other() -> None:
    """Nothing is lost when another class is tracked."""
    recent = DecayedTotals(("calls", "statement_time"), KEEP)
    recent.add(("a", "b", OTHER), np.array([[10.0, 1], [20, 2], [5, 3]]), 60.0)
    recent.add(("c", "b", OTHER), np.array([[7.0, 4], [20, 2], [1, -5]]), 60.0)
    assert recent.of(("a",)) == {"calls": 0.0, "statement_time": 0.0}
    assert recent.of(("c",)) == {"calls": 7.0, "statement_time": 4.0}
    assert recent.of((OTHER,))["calls"] == pytest.approx(1 + KEEP * (10 + 5))
    assert recent.of((OTHER,))["statement_time"] == pytest.approx(KEEP * (1 + 3))
