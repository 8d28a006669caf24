"""How much of one interval's error is the next one's."""

import numpy as np
import pytest

from models.attribution.sufficient_statistics import (
    INFLATION,
    NO_ERRORS,
    Autocorrelation,
)

INTERVALS = 20_000


def errors(rho: float, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Intervals whose relative errors have this lag-1 autocorrelation, and what was expected."""
    rng = np.random.default_rng(seed)
    off, draws = np.zeros(INTERVALS), rng.normal(0, 0.05, INTERVALS)
    for t in range(1, INTERVALS):
        off[t] = rho * off[t - 1] + draws[t]
    expected = rng.uniform(0.5, 1.5, INTERVALS)
    return expected * (1 + off), expected


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.6])
def test_correlated_errors_inflate_the_variance(rho: float) -> None:
    """By Bayley and Hammersley, at least by the fixed inflation."""
    found = Autocorrelation.of(*errors(rho)).inflation
    assert found == pytest.approx(INFLATION * (1 + rho) / (1 - rho), rel=0.06)


def test_alternating_errors_do_not_deflate_the_variance() -> None:
    """The inflation is bounded, whatever comes in."""
    assert Autocorrelation.of(*errors(-0.5)).inflation == INFLATION
    assert Autocorrelation.of(*errors(0.99)).inflation == pytest.approx(INFLATION * 1.95 / 0.05)
    assert NO_ERRORS.inflation == INFLATION
    assert Autocorrelation.of(np.ones(5), np.zeros(5)) == NO_ERRORS


def test_one_large_error_is_no_autocorrelation() -> None:
    """An interval a thousand times the expected use, as after a frozen minute."""
    y, expected = errors(0.0)
    y[100] = 1000.0
    assert Autocorrelation.of(y, expected).inflation == pytest.approx(INFLATION, rel=0.06)


def test_the_sums_of_blocks_are_nearly_those_of_the_whole() -> None:
    """Except for the step from one to the next."""
    y, expected = errors(0.6)
    parts = [
        Autocorrelation.of(y[k : k + 60], expected[k : k + 60]) for k in range(0, INTERVALS, 60)
    ]
    together = sum(parts, start=NO_ERRORS)
    assert together.squares == pytest.approx(Autocorrelation.of(y, expected).squares)
    assert together.inflation == pytest.approx(Autocorrelation.of(y, expected).inflation, rel=0.1)
