"""The table of doubts: every reason has one, and each says where its worth is shown."""

import re
from pathlib import Path

import numpy as np
import pytest

from models.capacity.doubts import DOUBTS, REASONS_IF_MEASURED, Doubt
from models.capacity.result import REMARKS, CapacityReason
from testbed.simulated.day_scenarios import scenarios

TESTS = Path(__file__).resolve().parent
SCENARIOS = {scenario.name for scenario in scenarios()}
NAMES = {
    name
    for file in TESTS.glob("test_*.py")
    for name in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
}


@pytest.mark.parametrize("doubt", DOUBTS, ids=lambda doubt: f"{doubt.reason}-{doubt.justified_by}")
def test_a_doubt_names_the_scenario_or_the_test_that_shows_its_worth(doubt: Doubt) -> None:
    """So that whoever wants to change a threshold knows where to look."""
    assert doubt.justified_by in SCENARIOS | NAMES
    assert np.isfinite(doubt.threshold)


def test_every_reason_has_a_doubt_and_stands_in_the_docs() -> None:
    """None is left of former times, and docs/capacity.md lists them all."""
    assert {doubt.reason for doubt in DOUBTS} == set(CapacityReason)
    assert set(CapacityReason) > REMARKS
    assert set(CapacityReason) > REASONS_IF_MEASURED
    docs = (TESTS.parent / "docs" / "capacity.md").read_text(encoding="utf-8")
    assert {reason for reason in CapacityReason if f"`{reason}`" not in docs} == set()
