"""The three estimators: published numbers, known answers, and curves that say little."""

from dataclasses import replace
from math import isfinite

import numpy as np
import pytest
import scipy

from models.arrays import Array
from models.trust import Reason, Trust
from models.usl.classical_fits import linearise
from models.usl.fit import (
    FitMethod,
    fit,
    fit_bayes,
    fit_linearised,
    fit_lsq,
    throughput_band,
)
from models.usl.law import Usl
from models.usl.peak_posterior import law_with_peak, posterior_of
from models.usl.peak_posterior_grid import PeakPrior
from models.usl.points_and_scatter import Points
from models.usl.residence_curve import fit_curve
from testbed.published.usl_examples import (
    CISCO,
    RAYTRACER,
    SPECSDM91,
    SYNTHETIC,
    SYSBENCH_RW,
    WHITE_PAPER,
)

LAW = Usl(0.03, (1 - 0.03) / 40**2, 1000.0)
METHODS = list(FitMethod)


def noisy(law: Usl, n: Array, noise: float, seed: int) -> Array:
    """Throughputs with a relative error of this standard deviation."""
    errors = np.random.default_rng(seed).normal(0, noise, len(n))
    observed: Array = law.throughput(n) * np.exp(errors)
    return observed


def random_law(rng: np.random.Generator) -> Usl:
    """A peak between 8 and 200 threads; σ is 0 in a third of the cases, else up to 0.2."""
    n_max = float(np.exp(rng.uniform(np.log(8), np.log(200))))
    sigma = float(rng.choice([0.0, rng.uniform(0, 0.05), rng.uniform(0, 0.2)]))
    return Usl(sigma, (1 - sigma) / n_max**2, 1000.0)


# Published numbers


def test_the_white_papers_system_1_is_reproduced() -> None:
    """Its a, b, σ, κ and the peak of 11133 at N = 27, as printed."""
    parabola = linearise(Points.of(*WHITE_PAPER))
    assert parabola.a == pytest.approx(0.00131418, abs=5e-9)
    assert parabola.b == pytest.approx(0.0164629, abs=6e-8)
    fitted = fit_linearised(*WHITE_PAPER)
    assert fitted.law.sigma == pytest.approx(0.015149, abs=5e-7)
    assert fitted.law.kappa == pytest.approx(0.001314, abs=5e-7)
    assert fitted.n_max is not None
    assert int(fitted.n_max) == 27
    assert fitted.law.throughput(27.0) == pytest.approx(11133, abs=1)


def test_ciscos_32_points_are_reproduced_by_least_squares() -> None:
    """The σ 0.02671591, κ 7.690945e-4, λ 995.6486 within 0.02 %; the peak 12341 at 35."""
    fitted = fit_lsq(*CISCO)
    assert fitted.law.sigma == pytest.approx(0.02671591, rel=2e-4)
    assert fitted.law.kappa == pytest.approx(7.690945e-4, rel=2e-4)
    assert fitted.law.lam == pytest.approx(995.6486, rel=2e-4)
    assert fitted.n_max is not None
    assert int(fitted.n_max) == 35
    assert fitted.law.throughput(35.0) == pytest.approx(12341, rel=2e-4)


def test_ciscos_first_10_points_are_reproduced_by_least_squares() -> None:
    """The peak 16049 at 46 within 0.05 %."""
    fitted = fit_lsq(CISCO[0][:10], CISCO[1][:10])
    assert fitted.x_max == pytest.approx(16049, rel=5e-4)
    assert fitted.n_max is not None
    assert int(fitted.n_max) == 46


def test_specsdm91_is_reproduced_by_least_squares() -> None:
    """The σ 0.02773, κ 1.044e-4, λ 90.00, the peak 1884 at 96.52."""
    fitted = fit_lsq(*SPECSDM91)
    assert fitted.law.sigma == pytest.approx(0.02773, abs=5e-6)
    assert fitted.law.kappa == pytest.approx(1.044e-4, abs=5e-8)
    assert fitted.law.lam == pytest.approx(90.00, abs=5e-3)
    assert fitted.x_max == pytest.approx(1884, abs=0.5)
    assert fitted.n_max == pytest.approx(96.52, abs=5e-3)


def test_the_ray_tracer_is_reproduced_by_least_squares() -> None:
    """The estimates of R's usl from its first six points."""
    fitted = fit_lsq(RAYTRACER[0][:6], RAYTRACER[1][:6])
    assert fitted.law.sigma == pytest.approx(0.02444, abs=5.5e-6)
    assert fitted.law.kappa == pytest.approx(0.00163, abs=5.5e-6)
    assert fitted.law.lam == pytest.approx(20.856, abs=5.5e-4)


def test_the_synthetic_table_of_r_usl_is_reproduced() -> None:
    """0.02, 0.02, 1 to 1e-6 from exact throughputs; to 1e-5 from the table's four decimals."""
    law = Usl(0.02, 0.02, 1.0)
    exact = fit_lsq(SYNTHETIC[0], law.throughput(np.array(SYNTHETIC[0], dtype=float))).law
    rounded = fit_lsq(*SYNTHETIC).law
    for fitted, tolerance in ((exact, 1e-6), (rounded, 1e-5)):
        assert fitted.sigma == pytest.approx(0.02, abs=tolerance)
        assert fitted.kappa == pytest.approx(0.02, abs=tolerance)
        assert fitted.lam == pytest.approx(1, abs=tolerance)


@pytest.mark.parametrize("curve", [CISCO, SPECSDM91, SYSBENCH_RW])
def test_the_posterior_holds_the_peak_that_was_measured(
    curve: tuple[list[float], list[float]],
) -> None:
    """On published curves past their peak, the greatest throughput lies in the 90 % interval."""
    fitted = fit_bayes(*curve)
    assert fitted.trust is Trust.TRUSTED
    assert fitted.x_max_interval is not None
    assert 0.99 * fitted.x_max_interval.low < max(curve[1]) < 1.01 * fitted.x_max_interval.high


# Oracles


def test_least_squares_agrees_with_a_general_minimiser() -> None:
    """Nelder–Mead on the same sum of squares finds nothing better."""
    for curve in (CISCO, SPECSDM91, SYSBENCH_RW):
        n, x = (np.array(values, dtype=float) for values in curve)
        law = fit_lsq(n, x).law

        def cost(p: Array, n: Array = n, x: Array = x, law: Usl = law) -> float:
            scaled = np.abs(p) * np.array([law.sigma + 1e-3, law.kappa, law.lam])
            fitted = scaled[2] * n / (1 + scaled[0] * (n - 1) + scaled[1] * n * (n - 1))
            return float(np.sum((x - fitted) ** 2))

        start = np.array([law.sigma / (law.sigma + 1e-3), 1, 1])
        best = scipy.optimize.minimize(
            cost, start, method="Nelder-Mead", options={"xatol": 1e-9, "maxiter": 4000}
        )
        assert cost(start) <= best.fun * (1 + 1e-7)


def test_the_point_fit_agrees_with_a_general_minimiser() -> None:
    """Gauss–Newton on the logarithms ends where scipy does, bounds included."""
    for curve in (CISCO, RAYTRACER, SPECSDM91):
        points = Points.of(*curve)
        found = fit_curve(points)
        m, r = points.n / found.n_scale, points.n / points.x / found.r_scale

        def cost(p: Array, m: Array = m, r: Array = r) -> float:
            return float(np.sum(np.log(r / (p[0] + p[1] * m + p[2] * m * m)) ** 2))

        best = scipy.optimize.minimize(
            cost, [0.5, 0.5, 0.5], bounds=[(1e-12, None), (0, None), (0, None)], tol=1e-14
        )
        assert cost(found.coefficients) <= best.fun * (1 + 1e-4)


def test_the_narrowing_grid_agrees_with_brute_force() -> None:
    """Medians and intervals of the posterior, against Monte Carlo over both shapes."""
    n, x = (np.array(values[:15], dtype=float) for values in CISCO)
    posterior = posterior_of(
        Points.of(n, x), fit_curve(Points.of(n, x)), PeakPrior(np.log(2.5), 0.7)
    )
    rng = np.random.default_rng(5)
    size = 1_200_000
    ln_n = np.log(n.max()) + rng.uniform(-0.5, 3, size)
    ln_x = rng.uniform(np.log(9000), np.log(17000), size)
    sharpness = rng.choice([1.0, 2.0], size)
    efficiency = rng.normal(0.4, 0.25, size)
    kept = efficiency > 0
    ln_n, ln_x, sharpness, efficiency = (c[kept] for c in (ln_n, ln_x, sharpness, efficiency))
    squares = np.zeros(len(ln_n))
    for ni, xi in zip(n, x, strict=True):
        t = np.exp(sharpness * (np.log(ni) - ln_n))
        shape = np.log(t / (t + efficiency * (1 - t) ** 2)) / sharpness
        squares += (np.log(xi) - ln_x - shape) ** 2
    log_p = -0.5 * (4 + len(n)) * np.log(4 * 0.03**2 + squares)
    log_p -= 0.5 * ((ln_n - np.log(2.5 * n.max())) / 0.7) ** 2
    share = np.exp(log_p - log_p.max())
    for values, median, interval in (
        (ln_n, posterior.n_max_median, posterior.n_max_interval),
        (ln_x, posterior.x_max_median, posterior.x_max_interval),
    ):
        order = np.argsort(values)
        cumulative = np.cumsum(share[order]) / share.sum()
        low, middle, high = np.interp([0.05, 0.5, 0.95], cumulative, values[order])
        assert np.log(interval.low) == pytest.approx(low, abs=0.08)
        assert np.log(median) == pytest.approx(middle, abs=0.06)
        assert np.log(interval.high) == pytest.approx(high, abs=0.1)


# Known answers


@pytest.mark.parametrize("method", METHODS)
def test_an_exact_curve_past_its_peak_gives_its_law(method: FitMethod) -> None:
    """Least squares to nine digits; the posterior to its assumed noise of a few per cent."""
    n = np.array([1, 2, 4, 8, 16, 24, 32, 48, 64, 80], dtype=float)
    fitted = fit(n, LAW.throughput(n), method)
    tolerance = 0.03 if method is FitMethod.BAYES else 1e-7
    assert fitted.x_max == pytest.approx(LAW.x_max, rel=tolerance)
    assert fitted.n_max == pytest.approx(LAW.n_max, rel=tolerance)
    assert fitted.law.lam == pytest.approx(LAW.lam, rel=tolerance)


def test_the_peaks_interval_has_its_nominal_coverage() -> None:
    """200 curves of known law up to 0.6–0.9 of the peak: about 90 % of the intervals hold Xmax."""
    rng = np.random.default_rng(20)
    covered = []
    for seed in range(200):
        law = random_law(rng)
        assert law.x_max is not None
        top = law.concurrency_at_throughput(float(rng.uniform(0.6, 0.9)) * law.x_max)
        n = np.geomspace(1, top, 12)
        interval = fit_bayes(n, noisy(law, n, 0.03, seed)).x_max_interval
        assert interval is not None
        covered.append(interval.low <= law.x_max <= interval.high)
    assert 0.85 <= np.mean(covered) <= 0.99


def test_the_lower_bound_of_the_peak_holds_from_far_below_it() -> None:
    """At 0.2 of the peak nothing is trusted, and the low end of the interval holds."""
    rng = np.random.default_rng(21)
    held = []
    for seed in range(60):
        law = random_law(rng)
        assert law.x_max is not None
        n = np.linspace(0.5, law.concurrency_at_throughput(0.2 * law.x_max), 15)
        fitted = fit_bayes(n, noisy(law, n, 0.03, seed))
        held.append(fitted.x_max_lower_bound <= law.x_max)
        assert fitted.trust is not Trust.TRUSTED
    assert np.mean(held) >= 0.95


def test_trusted_peaks_are_near_the_truth() -> None:
    """Of 150 curves up to 0.3–1.2 of the peak, the trusted peaks err by 3 % (median), few by 10."""
    rng = np.random.default_rng(22)
    errors = []
    for seed in range(150):
        law = random_law(rng)
        assert law.x_max is not None
        assert law.n_max is not None
        share = float(rng.uniform(0.3, 1.2))
        top = law.concurrency_at_throughput(share * law.x_max) if share < 1 else share * law.n_max
        n = np.geomspace(1, top, 12)
        fitted = fit_bayes(n, noisy(law, n, 0.03, seed))
        if fitted.trust is Trust.TRUSTED:
            errors.append(abs((fitted.x_max or 0) / law.x_max - 1))
    assert len(errors) > 15
    assert np.median(errors) < 0.03
    assert np.quantile(errors, 0.9) < 0.1


def test_the_requested_load_makes_the_peak_trusted() -> None:
    """Points up to settle_concurrency make the same peak trusted, in most cases."""
    settled = []
    for seed in range(40):
        n = np.geomspace(1, 22, 12)
        first = fit_bayes(n, noisy(LAW, n, 0.02, seed))
        if first.settle_concurrency is None:
            continue
        more = np.append(n, np.linspace(22, first.settle_concurrency, 6)[1:])
        settled.append(fit_bayes(more, noisy(LAW, more, 0.02, seed)).trust)
    assert len(settled) >= 20
    assert settled.count(Trust.TRUSTED) >= 0.6 * len(settled)


# Noise in the concurrency


def live_windows(seed: int) -> tuple[Array, Array]:
    """300 windows: a wandering load, its concurrency the mean of 15 looks at Threads_running."""
    rng = np.random.default_rng(seed)
    load = rng.uniform(2, 25, 300)
    looks = rng.poisson(load[:, None], (300, 15)).mean(axis=1)
    seen = looks > 0
    x = LAW.throughput(load) * np.exp(rng.normal(0, 0.02, 300))
    return looks[seen], x[seen]


def test_effective_variance_reduces_the_bias_of_noisy_concurrency() -> None:
    """With n_variance the median error of Nmax from noisy windows is smaller than without."""
    with_variance, without = [], []
    for seed in range(12):
        n, x = live_windows(seed)
        with_variance.append((fit_bayes(n, x, n_variance=n / 15).n_max or 0) / 40)
        without.append((fit_bayes(n, x).n_max or 0) / 40)
    assert abs(np.median(with_variance) - 1) < 0.25
    assert abs(np.median(with_variance) - 1) < abs(np.median(without) - 1)


def test_the_total_weight_is_capped() -> None:
    """20 times the same windows give the same interval."""
    n, x = live_windows(1)
    once = fit_bayes(n, x, n_variance=n / 15).x_max_interval
    often = fit_bayes(np.tile(n, 20), np.tile(x, 20), n_variance=np.tile(n, 20) / 15).x_max_interval
    assert once is not None
    assert often is not None
    assert often.ratio == pytest.approx(once.ratio, rel=1e-3)


def test_a_weight_of_two_equals_two_points() -> None:
    """Weights count points; a weight of 0 leaves a point out."""
    n, x = (np.array(values, dtype=float) for values in CISCO)
    weights = np.ones(32)
    weights[4], weights[9] = 2, 0
    weighted = fit_bayes(n, x, weights=weights)
    order = [i for i in range(32) if i != 9]
    order.append(4)
    repeated = fit_bayes(n[order], x[order])
    assert weighted.x_max == pytest.approx(repeated.x_max, rel=1e-6)
    assert weighted.n_max == pytest.approx(repeated.n_max, rel=1e-6)


def test_a_variance_of_zero_equals_none() -> None:
    """The effective variance adds nothing where the concurrency is exact."""
    assert fit_bayes(*CISCO, n_variance=0.0) == fit_bayes(*CISCO)


def test_a_contention_at_its_bound_is_exactly_zero() -> None:
    """Not what rounding leaves of it."""
    n = np.array([1, 2, 4, 8, 12], dtype=float)
    assert fit_bayes(n, 100 * n * (1 + n / 40)).law.sigma == 0.0


def test_a_negative_variance_is_refused() -> None:
    """ValueError, not a nan from a square root."""
    with pytest.raises(ValueError, match="variance"):
        fit_bayes(*CISCO, n_variance=-1.0)


# Outliers


def test_outliers_are_left_out_and_reported() -> None:
    """Two points at a third of their throughput are named; the peak stays where it was."""
    n = np.linspace(1, 60, 40)
    x = noisy(LAW, n, 0.02, 3)
    clean = fit_bayes(n, x)
    x[[7, 21]] /= 3
    fitted = fit_bayes(n, x)
    assert fitted.outliers == (7, 21)
    assert fitted.points == 40
    assert fitted.x_max == pytest.approx(clean.x_max, rel=0.02)


def test_the_least_squares_methods_leave_no_outliers_out() -> None:
    """And report none."""
    n = np.linspace(1, 60, 40)
    x = noisy(LAW, n, 0.02, 3)
    x[7] /= 3
    assert fit_lsq(n, x).outliers == fit_linearised(n, x).outliers == ()


def test_clean_or_small_data_has_no_outliers() -> None:
    """With Gaussian noise of 10 % alone, and with fewer than ten points."""
    n = np.linspace(1, 60, 40)
    assert sum(len(fit_bayes(n, noisy(LAW, n, 0.1, seed)).outliers) for seed in range(20)) <= 1
    assert fit_bayes([1, 2, 3, 4, 5], [10, 20, 5, 40, 50]).outliers == ()


def test_a_misfit_has_no_outliers() -> None:
    """If more than a tenth of the points are beyond the threshold, all stay in."""
    n = np.linspace(1, 60, 40)
    x = noisy(LAW, n, 0.01, 3)
    x[::4] /= 3
    assert fit_bayes(n, x).outliers == ()


# Ill-conditioned


HARD: dict[str, tuple[list[float], list[float]]] = {
    "two levels": ([1, 1, 8, 8], [100, 101, 600, 590]),
    "one level": ([5, 5, 5, 5], [100, 101, 102, 99]),
    "three points": ([1, 2, 4], [10, 19, 33]),
    "falling": ([1, 2, 4, 8, 16], [100, 50, 24, 11, 5]),
    "collapsing": ([1, 2, 3, 4, 5], [1e6, 1e3, 10, 1, 0.1]),
    "flat": ([1, 2, 4, 8, 16], [100, 100, 100, 100, 100]),
    "linear": ([1, 2, 4, 8, 16], [100, 200, 400, 800, 1600]),
    "superlinear": ([1, 2, 4, 8, 16], [100, 300, 900, 2700, 8100]),
    "below one thread": ([0.01, 0.02, 0.03, 0.05], [10, 19, 29, 45]),
    "far above one thread": ([1000, 1100, 1200, 1300], [5e4, 5.1e4, 5.15e4, 5.1e4]),
    "huge": ([1e9, 2e9, 4e9], [1e12, 1.9e12, 3e12]),
    "tiny throughput": ([1, 2, 4, 8], [1e-12, 1.9e-12, 3.5e-12, 5e-12]),
    "huge throughput": ([1, 2, 4, 8], [1e15, 1.9e15, 3.5e15, 5e15]),
    "no order": (
        [4065, 4798, 7713, 10306, 78577, 151525, 531814],
        [4.2e6, 35482, 3.9e5, 1807, 85658, 87545, 315.6],
    ),
    "almost a vertical line": ([8, 8 + 1e-9, 8 + 2e-9], [10, 500, 90]),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", HARD)
def test_difficult_data_give_finite_fits(name: str, method: FitMethod) -> None:
    """Whatever the points, a fit is a law in bounds, finite, without a warning."""
    fitted = fit(*HARD[name], method)
    assert fitted.law.lam > 0
    for value in (fitted.n_max, fitted.x_max, *(fitted.x_max_interval or ())):
        assert value is None or (isfinite(value) and value > 0)
    if fitted.x_max_interval and fitted.n_max_interval:
        assert fitted.x_max_interval.low < fitted.x_max_interval.high
        assert fitted.n_max_interval.low < fitted.n_max_interval.high


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "name", ["two levels", "one level", "falling", "linear", "superlinear", "below one thread"]
)
def test_unidentifiable_curves_are_never_trusted(name: str, method: FitMethod) -> None:
    """They never yield a trusted peak, and always a reason."""
    fitted = fit(*HARD[name], method)
    assert fitted.trust is not Trust.TRUSTED
    assert fitted.reasons


def test_exact_amdahl_data_has_no_peak() -> None:
    """Least squares finds κ = 0 exactly; the posterior puts the peak past the data."""
    law = Usl(0.1, 0.0, 50.0)
    n = np.geomspace(1, 32, 12)
    lsq = fit_lsq(n, law.throughput(n))
    assert lsq.law.kappa == 0
    assert lsq.n_max is None
    assert lsq.x_max == pytest.approx(500, rel=1e-6)
    assert Reason.NO_PEAK in lsq.reasons
    posterior = fit_bayes(n, law.throughput(n))
    assert posterior.n_max is not None
    assert posterior.n_max > 32


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [1e-9, 1e6])
def test_the_throughputs_unit_scales_only_lambda_and_xmax(method: FitMethod, scale: float) -> None:
    """And Xmax's interval; σ, κ, Nmax, R² and trust stay."""
    n, x = np.array(CISCO[0], dtype=float), np.array(CISCO[1])
    one, other = fit(n, x, method), fit(n, x * scale, method)
    assert other.law.lam == pytest.approx(one.law.lam * scale, rel=1e-6)
    assert other.x_max == pytest.approx((one.x_max or 0) * scale, rel=1e-6)
    assert other.law.sigma == pytest.approx(one.law.sigma, rel=1e-5)
    assert other.law.kappa == pytest.approx(one.law.kappa, rel=1e-5)
    assert other.r_squared == pytest.approx(one.r_squared, rel=1e-6)
    assert (other.trust, other.reasons) == (one.trust, one.reasons)


@pytest.mark.parametrize("method", METHODS)
def test_the_order_of_the_points_does_not_matter(method: FitMethod) -> None:
    """Any permutation gives the same law."""
    order = np.random.default_rng(1).permutation(32)
    n, x = np.array(CISCO[0], dtype=float), np.array(CISCO[1])
    assert fit(n[order], x[order], method).x_max == pytest.approx(fit(n, x, method).x_max, rel=1e-6)


def test_the_linearised_fit_works_without_a_point_at_one_thread() -> None:
    """X(1) is then that of the law fitted to the logarithms, not of a straight line down."""
    n = np.array([4, 8, 16, 24, 32, 48], dtype=float)
    fitted = fit_linearised(n, LAW.throughput(n))
    assert fitted.law.lam == pytest.approx(1000, rel=1e-6)
    assert fitted.x_max == pytest.approx(LAW.x_max, rel=1e-4)


# The result


@pytest.mark.parametrize("method", METHODS)
def test_a_fit_is_consistent(method: FitMethod) -> None:
    """Nmax and Xmax are the law's; the counts are those of the points."""
    fitted = fit(*CISCO, method)
    assert (fitted.n_max, fitted.x_max) == (fitted.law.n_max, fitted.law.x_max)
    assert fitted.points == 32
    assert fitted.n_observed_max == 32
    assert fitted.x_observed_max == max(CISCO[1])
    assert fitted.confidence == 0.90
    assert fitted.method is method
    with pytest.raises(AttributeError):
        fitted.points = 3  # type: ignore[misc]
    assert replace(fitted) == fitted


def test_only_the_posterior_has_an_interval_and_can_be_trusted() -> None:
    """The other methods are indicative at most, with the reason that they have no interval."""
    for method in (FitMethod.LSQ, FitMethod.LINEARISED):
        fitted = fit(*CISCO, method)
        assert fitted.x_max_interval is None
        assert fitted.trust is Trust.INDICATIVE
        assert fitted.reasons == (Reason.NO_INTERVAL,)
    assert fit_bayes(*CISCO).reasons == ()


def test_too_little_load_is_reported_with_the_load_to_measure() -> None:
    """Cisco's first five points: a lower bound, the reasons, and a higher load."""
    fitted = fit_bayes(CISCO[0][:5], CISCO[1][:5])
    assert fitted.trust is Trust.NOT_IDENTIFIABLE
    assert Reason.LOAD_TOO_LOW in fitted.reasons
    assert fitted.x_max_lower_bound < 12211
    assert fitted.settle_concurrency is not None
    assert fitted.settle_concurrency > 10


def test_the_band_holds_the_curve_and_widens_beyond_the_points() -> None:
    """90 % of X(N) lies around the law, closely where it was measured."""
    n, x = CISCO[0][:15], CISCO[1][:15]
    at = np.array([1.0, 10.0, 15.0, 40.0])
    low, high = throughput_band(n, x, at)
    curve = fit_bayes(n, x).law.throughput(at)
    assert (low < curve).all()
    assert (curve < high).all()
    assert (high / low)[3] - 1 > 5 * ((high / low)[1] - 1)


@pytest.mark.parametrize(
    ("n", "x", "message"),
    [
        ([1, 2], [1, 2], "at least 3"),
        ([], [], "at least 3"),
        ([1, 2, 3], [1, 2], "one length"),
        ([[1, 2, 3]], [[1, 2, 3]], "one length"),
        ([0, 1, 2], [1, 2, 3], "above 0"),
        ([1, 2, 3], [1, -2, 3], "above 0"),
        ([1, 2, float("nan")], [1, 2, 3], "finite"),
        ([1, 2, 3], [1, 2, float("inf")], "finite"),
    ],
)
@pytest.mark.parametrize("method", METHODS)
def test_invalid_points_are_refused(
    n: list[float], x: list[float], message: str, method: FitMethod
) -> None:
    """ValueError with the reason, from every method."""
    with pytest.raises(ValueError, match=message):
        fit(n, x, method)


def test_weights_that_leave_too_few_points_are_refused() -> None:
    """Three points with weight are needed, and no weight is negative."""
    with pytest.raises(ValueError, match="at least 3"):
        fit_bayes([1, 2, 3], [1, 2, 3], weights=[1, 1, 0])
    with pytest.raises(ValueError, match="weights"):
        fit_bayes([1, 2, 3, 4], [1, 2, 3, 4], weights=[1, 1, 1, -1])


def test_an_unknown_method_is_refused() -> None:
    """A misspelt method is no other method."""
    with pytest.raises(ValueError, match="magic"):
        fit(*CISCO, "magic")


@pytest.mark.parametrize("method", list(FitMethod))
def test_contention_alone_gives_no_trusted_peak(method: FitMethod) -> None:
    """Amdahl's law, σ = 0.05 up to 128 threads: no peak; `bayes`: indicative, still growing."""
    n = 2.0 ** np.arange(8)
    fitted = fit(n, 1000 * n / (1 + 0.05 * (n - 1)), method)
    if method is FitMethod.BAYES:
        assert fitted.trust is not Trust.TRUSTED
        assert Reason.STILL_GROWING in fitted.reasons
    else:
        assert fitted.n_max is None
        assert Reason.NO_PEAK in fitted.reasons


def test_residence_times_thirteen_orders_of_magnitude_apart_have_a_fit() -> None:
    """No curve is positive at all of them; the constant one stays, and is not trusted."""
    n = [36960334084053.0, 378133931426038.0, 534343054853235.0, 7.0]
    x = [4.0, 325306827383506.0, 230207070983832.0, 49.0]
    found = fit(n, x)
    assert np.isfinite([found.law.sigma, found.law.kappa, found.law.lam]).all()
    assert found.trust is not Trust.TRUSTED


@pytest.mark.parametrize("n_max", [0.23, 0.5, 0.9, 40.0])
def test_a_law_is_built_with_its_peak_wherever_that_is(n_max: float) -> None:
    """Also below half a thread, where the first thread is already past it."""
    law = law_with_peak(n_max, x_max=100.0, a=0.2 * n_max / 100.0)
    assert law.n_max == pytest.approx(n_max)
    assert law.x_max == pytest.approx(100.0)
    assert law.residence_time(0.0) == pytest.approx(0.2 * n_max / 100.0)


def test_the_estimate_is_within_its_interval_where_throughput_only_falls() -> None:
    """The peak of a lock that is passed on ever more slowly is below one statement at once."""
    found = fit_bayes([1, 2, 4, 8], [100.0, 50.0, 25.0, 12.5])
    assert found.x_max_interval is not None
    assert found.x_max is not None
    assert found.x_max_interval.low <= found.x_max <= found.x_max_interval.high
    assert Reason.PEAK_BELOW_DATA in found.reasons
