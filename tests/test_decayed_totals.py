"""Sums of what classes did recently."""

import numpy as np
import pytest

from agent.query_classes.exported_class_totals import DecayedTotals
from models.attribution.class_interval_table import OTHER

KEEP = 0.9


def test_older_intervals_count_less_and_so_do_their_seconds() -> None:
    """So that a rate over both is one of the time that it is about."""
    recent = DecayedTotals(("calls",), KEEP)
    for _ in range(3):
        recent.add(("a", OTHER), np.array([[30.0], [0.0]]), 60.0)
    assert recent.seconds == pytest.approx(60 * (1 + KEEP + KEEP**2))
    assert recent.of(("a",))["calls"] / recent.seconds == pytest.approx(0.5)
    assert recent.by("calls") == {"a": recent.of(("a",))["calls"], OTHER: 0.0}
    assert recent.of(("nobody",)) == {"calls": 0.0}


def test_what_a_class_did_that_left_is_the_rests() -> None:
    """Nothing gets lost when another is tracked."""
    recent = DecayedTotals(("calls", "statement_time"), KEEP)
    recent.add(("a", "b", OTHER), np.array([[10.0, 1], [20, 2], [5, 3]]), 60.0)
    recent.add(("c", "b", OTHER), np.array([[7.0, 4], [20, 2], [1, -5]]), 60.0)
    assert recent.of(("a",)) == {"calls": 0.0, "statement_time": 0.0}
    assert recent.of(("c",)) == {"calls": 7.0, "statement_time": 4.0}
    assert recent.of((OTHER,))["calls"] == pytest.approx(1 + KEEP * (10 + 5))
    assert recent.of((OTHER,))["statement_time"] == pytest.approx(KEEP * (1 + 3))
