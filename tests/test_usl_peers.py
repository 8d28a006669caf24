"""Where other implementations go wrong, and we do not: each with the wrong number, stated."""

from math import isfinite, sqrt

import numpy as np
import pytest
import scipy

from models.usl.fit import fit_bayes, fit_lsq
from models.usl.law import Usl
from testbed.published.usl_examples import CISCO, RAYTRACER

LAW = Usl(0.02671591, 7.690945e-4, 995.6486)
UNEQUAL = Usl(0.06, 0.002, 40.0)


@pytest.mark.parametrize(("x", "theirs", "right"), [(11048, 15.35, 19.92), (12201, 17.73, 29.57)])
def test_concurrency_at_a_throughput_is_not_amdahls(x: float, theirs: float, right: float) -> None:
    """Usl4j and usl-rs compute N(X) by a form that only holds at κ = 0, and test for it."""
    assert LAW.concurrency_at_throughput(float(x)) == pytest.approx(right, abs=0.005)
    amdahl = x * (LAW.sigma - 1) / (LAW.sigma * x - LAW.lam)
    residence = (LAW.sigma - 1) / (LAW.sigma * x - LAW.lam)
    assert amdahl == pytest.approx(theirs, abs=0.01)
    assert LAW.residence_time_at_throughput(float(x)) == pytest.approx(right / x, rel=1e-3)
    assert residence < 0.8 * right / x


def their_root(law: Usl, r: float) -> float:
    """√(σ² + κ² + 2κ(2λR + σ − 2)): the discriminant that the variants of X(R) share."""
    s, k = law.sigma, law.kappa
    return sqrt(s**2 + k**2 + 2 * k * (2 * law.lam * r + s - 2))


def test_throughput_at_a_residence_time_has_the_right_sign() -> None:
    """usl4j, usl-rs and the ebook have −κ+σ where κ−σ must be; only σ = κ hides it."""
    r = 0.03
    s, k = UNEQUAL.sigma, UNEQUAL.kappa
    root = their_root(UNEQUAL, r)
    right, theirs = (root + k - s) / (2 * k * r), (root - k + s) / (2 * k * r)
    x = UNEQUAL.throughput_at_residence_time(r)
    assert x == pytest.approx(right)
    assert UNEQUAL.residence_time(x * r) == pytest.approx(r)
    assert theirs > 1.5 * right
    same = Usl(0.06, 0.06, 40.0)
    assert same.throughput_at_residence_time(r) == pytest.approx(
        their_root(same, r) / (2 * same.kappa * r)
    )


def test_throughput_at_a_residence_time_keeps_the_sign_outside_of_the_root() -> None:
    """The article on usl4j prints −κ+σ inside of the root."""
    r = 0.03
    s, k = UNEQUAL.sigma, UNEQUAL.kappa
    article = sqrt(their_root(UNEQUAL, r) ** 2 - k + s) / (2 * k * r)
    right = UNEQUAL.throughput_at_residence_time(r)
    assert UNEQUAL.throughput(right * r) == pytest.approx(right)
    assert abs(article / right - 1) > 0.5


def test_concurrency_is_not_rounded_to_whole_threads() -> None:
    """Usl-rs cuts N to an integer, which ruins live averages: X(1.9) is not X(1)."""
    assert LAW.throughput(1.9) == pytest.approx(1.9 / LAW.residence_time(1.9))
    assert LAW.throughput(1.9) > 1.8 * LAW.throughput(1.0)
    n, x = np.array(CISCO[0]) + 0.0, np.array(CISCO[1])
    scaled = fit_lsq(n / 4, x)
    assert scaled.n_max == pytest.approx((fit_lsq(n, x).n_max or 0) / 4, rel=1e-4)


def test_an_unconstrained_fit_loses_the_peak_of_the_ray_tracer() -> None:
    """Levenberg–Marquardt from usl4j's start ends at κ < 0, Nmax nan; ours stays in the law."""
    n, x = (np.array(values, dtype=float) for values in RAYTRACER)

    def residuals(p: np.ndarray[tuple[int], np.dtype[np.float64]]) -> object:
        return x - p[2] * n / (1 + p[0] * (n - 1) + p[1] * n * (n - 1))

    start = [0.1, 0.01, float(np.max(x / n))]
    theirs = scipy.optimize.least_squares(residuals, start, method="lm").x  # type: ignore[arg-type]
    assert theirs[1] < 0
    bounded, ours = fit_lsq(n, x), fit_bayes(n, x)
    assert bounded.law.kappa == 0
    assert bounded.n_max is None
    assert ours.law.kappa > 0
    assert ours.n_max is not None
    assert isfinite(ours.n_max)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
def test_no_scale_of_the_throughput_drives_lambda_negative(scale: float) -> None:
    """An unconstrained fit gave one published curve λ = −213964; ours is above 0 at any scale."""
    for curve in (CISCO, RAYTRACER):
        fitted = fit_lsq(curve[0], np.array(curve[1]) * scale)
        assert fitted.law.lam > 0
        assert fitted.law.sigma >= 0
        assert fitted.law.kappa >= 0


def test_contention_is_compared_with_coherency_times_load() -> None:
    """σ > κ says nothing, their units differ: coherency passes contention where κN = σ."""
    assert LAW.sigma > LAW.kappa
    crossing = LAW.sigma / LAW.kappa
    assert crossing < 35
    assert LAW.coherency_cost(0.9 * crossing) < LAW.contention_cost(0.9 * crossing)
    assert LAW.coherency_cost(1.1 * crossing) > LAW.contention_cost(1.1 * crossing)
    total = 1 + LAW.contention_cost(20.0) + LAW.coherency_cost(20.0)
    assert LAW.residence_time(20.0) == pytest.approx(total / LAW.lam)


def test_the_linear_bound_meets_the_asymptote_past_the_peak() -> None:
    """R's usl calls N = 1/σ optimal, which can lie past the peak; we offer the peak alone."""
    law = Usl(0.02, 0.002, 1.0)
    assert law.n_max is not None
    assert 1 / law.sigma > law.n_max
    assert law.throughput(1 / law.sigma) < law.throughput(law.n_max)


def test_equation_11_of_the_white_paper_is_a_concurrency() -> None:
    """The white paper labels √((1−σ)/κ) Cmax; it is Nmax, and Xmax is the throughput there."""
    assert LAW.n_max == pytest.approx(sqrt((1 - LAW.sigma) / LAW.kappa))
    assert LAW.n_max == pytest.approx(35.57, abs=0.01)
    assert LAW.x_max == pytest.approx(12343, abs=1)


def test_scaled_parameters_reach_the_optimum() -> None:
    """An optimiser left to its default scale stopped at Nmax 73.5; 44.0 is right at any scale."""
    law = Usl(0.03, (1 - 0.03) / 44.0**2, 1e5)
    n = np.geomspace(1, 60, 25)
    for scale in (1e-8, 1.0, 1e8):
        assert fit_lsq(n, law.throughput(n) * scale).n_max == pytest.approx(44, rel=1e-6)
