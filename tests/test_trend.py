"""The verdict of the soaks: whether memory rises; and that a run too short for one is refused."""

import runpy
import sys

import numpy as np
import pytest

from testbed.real.server_programs import ROOT
from testbed.trend_significance import trend


@pytest.mark.parametrize("values", [[], [80.0], [80.0, 90.0]])
def test_fewer_than_three_values_have_no_trend(values: list[float]) -> None:
    """Two lie on a line whatever they are: nothing tells how sure it is."""
    with pytest.raises(ValueError, match="takes 3 values"):
        trend(values)


def test_a_rise_is_distinguished_from_noise() -> None:
    """Three values are enough, also on a line without any error."""
    assert not trend([80.0, 90.0, 100.0]).is_flat
    assert trend([80.0, 80.0, 80.0]).is_flat
    noise = np.random.default_rng(1).normal(0.0, 1.0, 60)
    assert trend(list(80 + noise)).is_flat
    assert not trend(list(80 + noise + np.linspace(0, 10, 60))).is_flat


@pytest.mark.parametrize(
    "command",
    [
        ["soak_simulated.py", "--days", "14", "--every", "3"],
        ["soak_simulated.py", "--days", "0"],
        ["soak_simulated.py", "--every", "0"],
        ["soak.py", "--minutes", ".5", "--every", ".5"],
        ["soak.py", "--minutes", "1"],
        ["soak.py", "--every", "0"],
    ],
)
def test_a_run_that_is_too_short_for_a_verdict_is_refused(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At once, and not after the run."""
    program = ROOT / "bench" / command[0]
    monkeypatch.setattr(sys, "argv", [str(program), *command[1:]])
    monkeypatch.syspath_prepend(program.parent)
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(program), run_name="__main__")
    told = capsys.readouterr()
    assert end.value.code == 2
    assert "too few looks for a trend, 5 at least" in told.err
    assert told.out == ""
