"""Random numbers have the distributions that they are named after, and are the same for a seed."""

import numpy as np
import pytest
import scipy

from models.random_numbers import RandomNumbers

MANY = (100_000,)


def test_the_same_seed_gives_the_same_numbers() -> None:
    """So that the same load gives the same forecast; another seed gives others."""
    first, again, other = (RandomNumbers(seed).uniform((3, 4)) for seed in (5, 5, 6))
    assert first.tolist() == again.tolist()
    assert not np.isin(first, other).any()


@pytest.mark.parametrize(
    ("name", "drawn"),
    [
        ("uniform", RandomNumbers(1).uniform(MANY)),
        ("norm", RandomNumbers(2).normal(MANY)),
    ],
)
def test_uniform_and_normal_numbers_pass_a_distribution_test(name: str, drawn: np.ndarray) -> None:
    """Of Kolmogorov and Smirnov; and successive numbers are independent."""
    assert scipy.stats.kstest(drawn, name).pvalue > 0.001
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 4 / np.sqrt(len(drawn))


@pytest.mark.parametrize("freedom", [4.0, 7.5, 57.0])
def test_chi_square_has_the_right_quantiles_and_mean(freedom: float) -> None:
    """Its quantiles from 5 to 95 %."""
    drawn, shares = RandomNumbers(3).chi_square(freedom, MANY), (0.05, 0.25, 0.5, 0.75, 0.95)
    assert np.quantile(drawn, shares) == pytest.approx(
        scipy.stats.chi2.ppf(shares, freedom), rel=0.04
    )
    assert drawn.mean() == pytest.approx(freedom, rel=0.01)


def test_chi_square_is_never_zero() -> None:
    """A division by its root stays finite, however many are drawn."""
    drawn = RandomNumbers(3).chi_square(4.0, (1_000_000,))
    assert drawn.min() > 0.001


def test_integers_and_permutations_are_complete() -> None:
    """Each as often as another; a permutation has each once."""
    numbers = RandomNumbers(4)
    counts = np.bincount(numbers.integers(7, (70_000,)), minlength=7)
    assert len(counts) == 7
    assert scipy.stats.chisquare(counts).pvalue > 0.001
    assert sorted(numbers.permutation(9).tolist()) == list(range(9))
    assert numbers.permutation(9).tolist() != numbers.permutation(9).tolist()
