"""The law: its questions agree with each other, and with themselves at the edges."""

from itertools import product
from math import isnan, nan, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.usl.law import Usl

CISCO = Usl(0.02671591, 7.690945e-4, 995.6486)
SIGMAS = (0.0, 1e-6, 0.02, 0.3, 0.9)
KAPPAS = (0.0, 1e-8, 1e-5, 1e-3, 0.06)
LAMBDAS = (1e-3, 40.0, 1e7)
LAWS = [Usl(*parameters) for parameters in product(SIGMAS, KAPPAS, LAMBDAS)]
PEAKED = [law for law in LAWS if law.n_max is not None]


def loads(law: Usl, share: float = 1.0) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Loads from half a thread up to a share of the peak, or to 10 000 where there is none."""
    return np.geomspace(0.5, share * (law.n_max or 1e4), 40)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_littles_law_holds_between_throughput_and_residence_time(law: Usl) -> None:
    """N = X·R at every load, past the peak too."""
    n = np.geomspace(0.1, 1e5, 50)
    np.testing.assert_allclose(law.throughput(n) * law.residence_time(n), n, rtol=1e-14)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_residence_time_is_a_quadratic_in_concurrency(law: Usl) -> None:
    """R(N) = A + B·N + C·N² with A = (1−σ)/λ, B = (σ−κ)/λ, C = κ/λ."""
    n = np.geomspace(0.5, 1e4, 30)
    a, b, c = 1 - law.sigma, law.sigma - law.kappa, law.kappa
    np.testing.assert_allclose(law.residence_time(n) * law.lam, a + b * n + c * n**2, rtol=1e-12)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_concurrency_round_trips_through_throughput(law: Usl) -> None:
    """N(X(N)) is N on the whole rising branch, κ = 0 included."""
    n = loads(law, 0.99)
    np.testing.assert_allclose(law.concurrency_at_throughput(law.throughput(n)), n, rtol=1e-8)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_throughput_round_trips_through_concurrency(law: Usl) -> None:
    """X(N(X)) is X up to the peak."""
    x = np.linspace(0.01, 0.999, 40) * (law.x_max or 1e4 * law.lam)
    np.testing.assert_allclose(law.throughput(law.concurrency_at_throughput(x)), x, rtol=1e-9)


@pytest.mark.parametrize("law", [law for law in LAWS if law.sigma or law.kappa], ids=str)
def test_concurrency_round_trips_through_residence_time(law: Usl) -> None:
    """N(R(N)) is N from half a thread on, before and past the peak."""
    n = np.geomspace(0.5, 1e4, 50)
    times = law.residence_time(n)
    found = law.concurrency_at_residence_time(times)
    np.testing.assert_allclose(law.residence_time(found), times, rtol=1e-12)
    well_conditioned = times > 1.0001 * law.residence_time(0.0)
    np.testing.assert_allclose(found[well_conditioned], n[well_conditioned], rtol=1e-9)


@pytest.mark.parametrize("law", [law for law in LAWS if law.sigma or law.kappa], ids=str)
def test_throughput_and_residence_time_are_inverse_on_the_rising_branch(law: Usl) -> None:
    """X(R(X)) is X and R(X) is R(N(X)), up to the peak."""
    x = np.linspace(0.3, 0.95, 20) * (law.x_max or 1.0)
    times = law.residence_time_at_throughput(x)
    n = law.concurrency_at_throughput(x)
    kept = n > 0.5
    np.testing.assert_allclose(times, law.residence_time(n), rtol=1e-11)
    np.testing.assert_allclose(law.throughput_at_residence_time(times)[kept], x[kept], rtol=1e-6)


@given(
    sigma=st.floats(0, 0.99),
    kappa=st.floats(1e-9, 0.9),
    lam=st.floats(1e-6, 1e9),
    share=st.floats(0.01, 1),
)
def test_every_law_is_inverted_on_its_rising_branch(
    sigma: float, kappa: float, lam: float, share: float
) -> None:
    """X(N(X)) is X to nine digits for any parameters."""
    law = Usl(sigma, kappa, lam)
    assert law.x_max is not None
    x = share * law.x_max
    assert law.throughput(law.concurrency_at_throughput(x)) == pytest.approx(x, rel=1e-9)


@pytest.mark.parametrize("law", PEAKED, ids=str)
def test_no_load_is_above_the_peak(law: Usl) -> None:
    """X(Nmax) is Xmax, N(Xmax) is Nmax, and no other load has a higher throughput."""
    assert law.n_max is not None
    assert law.x_max is not None
    assert law.throughput(law.n_max) == pytest.approx(law.x_max, rel=1e-12)
    assert law.concurrency_at_throughput(law.x_max) == pytest.approx(law.n_max, rel=1e-8)
    around = law.throughput(law.n_max * np.linspace(0.5, 2, 101))
    assert around.max() <= law.x_max * (1 + 1e-12)


@pytest.mark.parametrize("law", PEAKED, ids=str)
def test_rounding_at_the_peak_gives_no_nan(law: Usl) -> None:
    """A throughput a few units in the last place above the peak still has its concurrency."""
    assert law.x_max is not None
    for ulps in range(-4, 3):
        assert law.concurrency_at_throughput(law.x_max * (1 + ulps * 2.2e-16)) > 0


@pytest.mark.parametrize("law", PEAKED, ids=str)
def test_a_throughput_above_the_peak_gives_nan(law: Usl) -> None:
    """Alone and in an array."""
    assert law.x_max is not None
    assert isnan(law.concurrency_at_throughput(1.001 * law.x_max))
    answers = law.residence_time_at_throughput(np.array([0.5, 1.001]) * law.x_max)
    assert not isnan(answers[0])
    assert isnan(answers[1])


def test_without_coherency_there_is_an_asymptote_and_no_peak() -> None:
    """That is κ = 0: Nmax is None, and λ/σ the least upper bound, which no load reaches."""
    law = Usl(0.05, 0.0, 100.0)
    assert law.n_max is None
    assert law.x_max == pytest.approx(2000)
    assert law.throughput(1e12) == pytest.approx(2000)
    assert law.concurrency_at_throughput(1900.0) == pytest.approx(0.95 * 0.95 / 0.05 / 0.05)
    assert isnan(law.concurrency_at_throughput(2000.0))


def test_a_linear_law_has_no_limit() -> None:
    """Σ = κ = 0: X = λN, nothing limits it, and R does not depend on N."""
    law = Usl(0.0, 0.0, 10.0)
    assert law.n_max is None
    assert law.x_max is None
    assert law.throughput(7.0) == 70
    assert law.concurrency_at_throughput(70.0) == 7
    assert law.residence_time_at_throughput(1e9) == pytest.approx(0.1)
    assert isnan(law.concurrency_at_residence_time(0.1))


def test_the_residence_time_at_zero_load_is_the_service_time() -> None:
    """At X = 0 there is no load, and R(0) = A."""
    assert CISCO.throughput(0.0) == 0
    assert CISCO.concurrency_at_throughput(0.0) == 0
    assert CISCO.residence_time_at_throughput(0.0) == pytest.approx(CISCO.residence_time(0.0))
    assert CISCO.residence_time(0.0) == pytest.approx((1 - CISCO.sigma) / CISCO.lam)


def test_one_thread_gets_lambda() -> None:
    """X(1) = λ and its efficiency is 1, by the definition of the parameters."""
    assert CISCO.throughput(1.0) == CISCO.lam
    assert CISCO.efficiency(1.0) == 1
    assert CISCO.efficiency(8.0) == pytest.approx(CISCO.throughput(8.0) / (8 * CISCO.lam))


def test_negative_arguments_give_nan() -> None:
    """A negative load, throughput or time; and nan gives nan."""
    for value in (-1.0, nan):
        assert isnan(CISCO.throughput(value))
        assert isnan(CISCO.concurrency_at_throughput(value))
        assert isnan(CISCO.concurrency_at_residence_time(value))


def test_a_residence_time_below_the_shortest_gives_nan() -> None:
    """Faster than R(0) is not possible."""
    assert isnan(CISCO.concurrency_at_residence_time(0.9 * CISCO.residence_time(0.0)))


def test_results_have_the_shape_of_the_argument() -> None:
    """A float gives a float; an array one of its shape, empty and two-dimensional too."""
    assert type(CISCO.throughput(3.0)) is float
    for shape in ((0,), (4,), (2, 3)):
        n = np.full(shape, 5.0)
        for method in (CISCO.throughput, CISCO.efficiency, CISCO.concurrency_at_throughput):
            assert method(n).shape == shape


@pytest.mark.parametrize(
    "parameters",
    [
        (-0.01, 0.001, 1.0),
        (1.0, 0.001, 1.0),
        (0.1, -1e-9, 1.0),
        (0.0, 4.0, 1.0),
        (0.1, 0.001, 0.0),
        (nan, 0.001, 1.0),
        (0.1, float("inf"), 1.0),
    ],
)
def test_impossible_parameters_are_refused(parameters: tuple[float, float, float]) -> None:
    """Residence times are above 0 at every load, and parameters are finite; else ValueError."""
    with pytest.raises(ValueError, match="must be"):
        Usl(*parameters)


def test_just_below_the_bound_of_kappa_the_law_is_positive_everywhere() -> None:
    """κ < (1 + √(1−σ))² is what keeps R(N) above 0 below one thread."""
    law = Usl(0.19, (1 + sqrt(0.81)) ** 2 * (1 - 1e-6), 1.0)
    assert law.residence_time(np.linspace(0, 2, 2001)).min() > 0
    assert law.x_max is not None
    assert law.x_max > 0


@pytest.mark.parametrize("law", [CISCO, Usl(0.02, 0.02, 995.0), Usl(0.5, 0.0, 40.0)], ids=str)
def test_the_residence_time_of_no_load_is_that_of_no_concurrency(law: Usl) -> None:
    """N(R(0)) = 0 where contention is at least the coherency, also where both are the same."""
    assert law.concurrency_at_residence_time(law.residence_time(0.0)) == pytest.approx(0, abs=1e-9)


def test_a_constant_residence_time_gives_no_concurrency() -> None:
    """Without contention and coherency every concurrency has the same."""
    law = Usl(0.0, 0.0, 1.0)
    assert np.isnan(law.concurrency_at_residence_time(2.0))
    assert np.isnan(law.throughput_at_residence_time(2.0))
