"""The Universal Scalability Law and the quantities that follow from it.

Source: N. Gunther, *Guerrilla Capacity Planning*; B. Schwartz and E. Fortune, *Forecasting MySQL
Scalability with the Universal Scalability Law* (Percona). With Little's law, N = X·R, the law is
a plain quadratic in the concurrency N:

    X(N) = λN / (1 + σ(N−1) + κN(N−1))                                  (1)
    R(N) = N/X(N) = A + B·N + C·N²                                       (2)
    A = (1−σ)/λ,  B = (σ−κ)/λ,  C = κ/λ   (seconds)

N is in threads, X in queries/s, R in seconds; λ is the throughput of one thread.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import cast

import numpy as np

from models.arrays import Array, Quantity
from models.numerics import NEGLIGIBLE, ROUNDING

SIGMA_BOUND = 1 - NEGLIGIBLE
"""The greatest σ that a fit returns; beyond it, throughput would fall from the first thread on."""


@dataclass(frozen=True, slots=True)
class Usl:
    """One server's scalability: contention σ, coherency κ, throughput of one thread λ.

    Every method takes a number or an array and returns the same kind, of the same shape. Where
    there is no solution (a throughput above the peak, a negative load) the result is nan; only
    parameters that no server can have are an error.

    Raises ValueError where a parameter is not finite, where σ < 0, κ < 0 or λ ≤ 0, where σ ≥ 1
    (then R(0) = (1−σ)/λ ≤ 0: a query would take no time, or less), and where
    κ ≥ (1 + √(1−σ))² (then R(N) < 0 somewhere below one thread).
    """

    sigma: float
    kappa: float
    lam: float

    def __post_init__(self) -> None:
        """Raise ValueError for a law whose residence time is not positive at every load."""
        if not all(map(isfinite, (self.sigma, self.kappa, self.lam))):
            raise ValueError(f"the parameters must be finite: {self}")
        if not 0 <= self.sigma < 1:
            raise ValueError(f"σ must be in [0, 1), not {self.sigma}")
        if self.lam <= 0:
            raise ValueError(f"λ must be above 0, not {self.lam}")
        if not 0 <= self.kappa < (1 + sqrt(1 - self.sigma)) ** 2:
            raise ValueError(f"κ must be in [0, (1 + √(1−σ))²), not {self.kappa}")

    @property
    def n_max(self) -> float | None:
        """Concurrency at the peak, threads: √((1−σ)/κ). None when κ = 0: X always rises.

        White paper, equation 11 (there floored, and labelled Cmax).
        """
        return sqrt((1 - self.sigma) / self.kappa) if self.kappa else None

    @property
    def x_max(self) -> float | None:
        """Throughput that the server cannot exceed, queries/s: 1/(B + 2√(A·C)).

        X(Nmax) from equations 1 and 11. When κ = 0 it is the asymptote λ/σ (Amdahl), which no
        load reaches; None when σ = 0 too, as nothing limits X then.
        """
        slope = self._slope_at_peak
        return self.lam / slope if slope > 0 else None

    def residence_time(self, n: Quantity) -> Quantity:
        """Compute R(N) in seconds, equation 2."""
        return self._evaluate(n, self._residence_time)

    def throughput(self, n: Quantity) -> Quantity:
        """Compute X(N) in queries/s, equation 1."""
        return self._evaluate(n, lambda m: m / self._residence_time(m))

    def efficiency(self, n: Quantity) -> Quantity:
        """Compute X(N)/(λN): throughput relative to N threads that do not disturb each other."""
        return self._evaluate(n, lambda m: 1 / (self.lam * self._residence_time(m)))

    def contention_cost(self, n: Quantity) -> Quantity:
        """Compute σ(N−1): waits for the serial part, in residence times of one thread."""
        return self._evaluate(n, lambda m: self.sigma * (m - 1))

    def coherency_cost(self, n: Quantity) -> Quantity:
        """Compute κN(N−1): crosstalk, in the same unit. It exceeds contention where κN > σ."""
        return self._evaluate(n, lambda m: self.kappa * m * (m - 1))

    def residence_time_at_throughput(self, x: Quantity) -> Quantity:
        """Compute R(X) = N(X)/X in seconds before the peak; R(0) = A. nan above the peak."""
        return self._evaluate(x, self._residence_time_at_throughput)

    def concurrency_at_throughput(self, x: Quantity) -> Quantity:
        """Compute N(X) in threads before the peak, a root of C·N² + (B − 1/X)·N + A = 0.

        It is the smaller root, in the form that holds at κ = 0: 2A/((1/X−B) + √((1/X−B)² − 4AC)).
        nan above the peak, and from the asymptote on when κ = 0.
        """
        return self._evaluate(x, lambda y: y * self._residence_time_at_throughput(y))

    def concurrency_at_residence_time(self, r: Quantity) -> Quantity:
        """Compute N(R) in threads, the larger root of C·N² + B·N + (A − R) = 0.

        nan where R is shorter than any of the law's, and where σ = κ = 0, as R does not depend on N
        then. Where σ < κ, R(N) falls at first, up to N = (κ−σ)/(2κ) < 1/2; the root is beyond it.
        """
        return self._evaluate(r, self._concurrency_at_residence_time)

    def throughput_at_residence_time(self, r: Quantity) -> Quantity:
        """Compute X(R) = N(R)/R in queries/s; also past the peak, where R keeps growing."""
        return self._evaluate(r, lambda s: self._concurrency_at_residence_time(s) / s)

    @property
    def _slope_at_peak(self) -> float:
        """λ/Xmax = (σ−κ) + 2√((1−σ)κ): by how much R grows per thread at the peak, times λ."""
        return self.sigma - self.kappa + 2 * sqrt((1 - self.sigma) * self.kappa)

    def _residence_time(self, n: Array) -> Array:
        return (1 + self.sigma * (n - 1) + self.kappa * n * (n - 1)) / self.lam

    def _residence_time_at_throughput(self, x: Array) -> Array:
        """Compute 2A/(e + √(e² − 4ACX²)), e = 1 − BX.

        The root is √(to_peak · (e + 2√(AC)X)), to_peak = 1 − X/Xmax, which is 0 at the peak.
        """
        a, c = (1 - self.sigma) / self.lam, self.kappa / self.lam
        e = 1 - (self.sigma - self.kappa) / self.lam * x
        to_peak = 1 - x * self._slope_at_peak / self.lam
        at_peak = (self.kappa > 0) & (abs(to_peak) < ROUNDING)
        to_peak = np.where(at_peak, 0, to_peak)
        unreachable = to_peak < 0 if self.kappa else to_peak <= 0
        root = np.sqrt(np.where(unreachable, np.nan, to_peak) * (e + 2 * sqrt(a * c) * x))
        return 2 * a / (e + root)

    def _concurrency_at_residence_time(self, r: Array) -> Array:
        """Compute 2(R−A)/(B + √d) or, where B ≤ 0, (−B + √d)/2C: neither loses digits."""
        a, b = 1 - self.sigma, self.sigma - self.kappa
        over = self.lam * r - a
        square = b * b + 4 * self.kappa * over
        shortest = abs(square) < ROUNDING * (b * b + 4 * self.kappa * a)
        root = np.sqrt(np.where(shortest, 0, square))
        n = 2 * over / (b + root) if b > 0 else (root - b) / (2 * self.kappa)
        return np.where((n >= 0) & np.isfinite(n), n, np.nan)

    @staticmethod
    def _evaluate(value: Quantity, function: Callable[[Array], Array]) -> Quantity:
        """Evaluate a function at values ≥ 0, nan for others; a number gives a number."""
        values = np.asarray(value, dtype=np.float64)
        with np.errstate(all="ignore"):
            results = np.where(values >= 0, function(values), np.nan)
        return cast(Quantity, results if np.ndim(value) else float(results))


def bounded_law(sigma: float, kappa: float, lam: float) -> Usl:
    """Build the law with the nearest valid parameters: σ in [0, 1), κ in [0, (1 + √(1−σ))²)."""
    sigma = min(max(sigma, 0.0), SIGMA_BOUND)
    return Usl(sigma, min(max(kappa, 0.0), SIGMA_BOUND * (1 + sqrt(1 - sigma)) ** 2), lam)
