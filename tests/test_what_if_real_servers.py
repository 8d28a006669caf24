"""The residence time at higher loads on real servers, predicted from below half of the peak."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from test_sla_real_servers import UNIX, known, measured, of_all_recordings

from agent.what_if.current_state import current_state_of
from models.what_if.changes import Changes
from models.what_if.predict import what_if
from models.what_if.predicted_value import PredictedValue


class MetResidenceTime(NamedTuple):
    """A mean residence time that was measured at a higher load later, and the predicted one (s)."""

    measured: float
    predicted: PredictedValue | None
    """None: the load is predicted to be above the capacity."""

    @property
    def is_above(self) -> bool:
        """Whether it was longer than the interval's upper bound."""
        upper = None if self.predicted is None else self.predicted.upper
        return upper is not None and self.measured > upper


def predicted(file: Path) -> list[MetResidenceTime]:
    """Predict the residence time at each higher load that was measured later."""
    today = current_state_of(known(file)[0], UNIX)
    assert today.load is not None
    now = today.load.throughput
    return [
        MetResidenceTime(r, what_if(today, Changes(load=x / now)).together.residence_time)
        for x, r in measured(file)
    ]


@cache
def residence_times() -> list[MetResidenceTime]:
    """Those of all recordings."""
    return of_all_recordings(predicted)


def test_nine_of_ten_residence_times_at_higher_loads_are_within_their_interval() -> None:
    """Most of them have no upper bound: the load may be above the capacity."""
    found = [one for one in residence_times() if one.predicted is not None]
    held = [
        one.predicted is not None and one.predicted.lower <= one.measured and not one.is_above
        for one in found
    ]
    bounded = [one for one in found if one.predicted is not None and one.predicted.upper]
    print(f"{np.mean(held):.1%} of {len(found)} hold, {len(bounded)} of them bounded")
    assert len(found) > 150
    assert np.mean(held) > 0.9
    assert len(bounded) > 15


def test_few_loads_that_were_served_are_predicted_to_be_above_the_capacity() -> None:
    """One of eight at most, though they are up to twice as high as what was seen."""
    beyond = [one.predicted is None for one in residence_times()]
    print(f"{np.mean(beyond):.1%} of {len(beyond)}")
    assert np.mean(beyond) < 1 / 8
