"""The learnt model of one target: what its classes cost, and what they will use."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.attribution.autocorrelation import Autocorrelation
from models.attribution.class_intervals import Array, ClassIntervals
from models.attribution.deliberate_waits import CpuBounds, Mask, must_wait
from models.attribution.elasticity import Elasticity
from models.attribution.empirical_bayes import learn_shrunk, learn_shrunk_ticks
from models.attribution.mixture_fit import learn
from models.attribution.priors import FittedMixture, Priors
from models.attribution.sufficient_statistics import Moments
from models.attribution.unit_costs import UnitCosts, pool_prices, robust_weights, tick_weights

LEAST_CALL_SHARE = 0.3
"""Of the mean price of a call, where only the calls tell classes apart."""
TOLD = 3.0
"""Log of how much less probable it is that a class waits whose text is known and says no such."""


@dataclass(frozen=True)
class CostModel:
    """Cost of one unit of each class's regressor, and the base that nobody causes."""

    names: tuple[str, ...]
    learned: FittedMixture
    regressor_totals: Array
    """Of the ticks learnt from, shape (K,)."""
    base_per_second: float
    prices: UnitCosts | None
    """How calls and rows become a regressor; None: the regressor is the statement time."""

    def regressors(self, ticks: ClassIntervals) -> Array:
        """Compute what the total is regressed on, shape (T, K)."""
        return ticks.statement_time if self.prices is None else self.prices.price(ticks)

    @property
    def unit_costs(self) -> Array:
        """Units of y per unit of regressor, shape (K,); 0 for a class that did nothing."""
        present = self.regressor_totals > 0
        unit = np.where(present, self.regressor_totals, 1.0)
        return np.where(present, self.learned.totals / unit, 0.0)

    def parts(self, ticks: ClassIntervals) -> Array:
        """Predict the use of each class in each tick, shape (T, K); ticks of the same classes."""
        return self.regressors(ticks) * self.unit_costs

    def predict(self, ticks: ClassIntervals) -> Array:
        """Predict y, shape (T,), of any classes; those never seen before add nothing."""
        known = ticks.arranged(self.names)
        answer: Array = self.parts(known).sum(axis=1) + self.base_per_second * ticks.seconds
        return answer


def fit_cost_model(
    ticks: ClassIntervals, y: Array, work: Array | None, bounds: CpuBounds | None = None
) -> CostModel:
    """Learn from calls and rows where they are known, from statement time where they are not.

    `work`, s, shape (T, K), is what a class that computes uses in proportion to; None where time
    says nothing about y. `bounds` are those of CPU seconds; None where y is something else.
    """
    if ticks.count is None or not ticks.count.any():
        time = ticks.statement_time
        learned = learn_shrunk_ticks(time, ticks.seconds, y, tick_weights(y))
        return _model(ticks, time.sum(axis=0), learned, None)
    if work is None:
        return _by_calls(ticks, y)
    prices = pool_prices(ticks, y, bounds=bounds)
    size = prices.price(ticks)
    beliefs, _ = believe(size.sum(axis=0), work.sum(axis=0), y.sum(), bounds)
    stretch = Elasticity.of_parts(work, ticks.count, size)
    waiting = evidence_of_waiting(stretch, size.sum(axis=0), ticks.texts)
    beliefs = replace(beliefs, waiting=waiting)
    model = _learnt(ticks, y, prices, robust_weights(y, prices.total(ticks)), beliefs)
    expected = model.predict(ticks)
    beliefs = replace(beliefs, inflation=Autocorrelation.of(y, expected).inflation)
    return _learnt(ticks, y, prices, robust_weights(y, expected), beliefs)


def believe(
    by_size: Array, work: Array, y_total: float, bounds: CpuBounds | None
) -> tuple[Priors, Mask]:
    """Tell what is believed of each class, and which cannot have computed all their work time.

    Where y is CPU nobody uses more of it than its time.
    """
    if bounds is None:
        return Priors(by_size, work), np.zeros(len(work), dtype=np.bool_)
    waiting = must_wait(work, float(y_total), bounds.least_level)
    return Priors(by_size, np.where(waiting, 0.0, work), work, bounds.least_level), waiting


def evidence_of_waiting(
    stretch: Elasticity, size: Array, texts: Sequence[str | None] | None
) -> Array:
    """Compute how much more probable what was seen is of a class that waits, log, shape (K,).

    `size`, shape (K,), is each class's priced calls and rows; `texts` are the digest texts.
    """
    known = np.array([bool(text) for text in texts or [None] * len(size)])
    return stretch.evidence(size) - TOLD * known


def _by_calls(ticks: ClassIntervals, y: Array) -> CostModel:
    """Learn one price per class: bytes go to few classes, and rows may not say to whom."""
    prices = pool_prices(ticks, y, LEAST_CALL_SHARE)
    weights = robust_weights(y, prices.total(ticks))
    moments = Moments.of(prices.price(ticks), ticks.seconds, y, weights)
    return _model(ticks, moments.totals[:-1], learn_shrunk(moments), prices)


def _learnt(
    ticks: ClassIntervals, y: Array, prices: UnitCosts, weights: Array, beliefs: Priors
) -> CostModel:
    moments = Moments.of(prices.price(ticks), ticks.seconds, y, weights)
    return _model(ticks, moments.totals[:-1], learn(moments, beliefs), prices)


def _model(
    ticks: ClassIntervals, regressor_totals: Array, learned: FittedMixture, prices: UnitCosts | None
) -> CostModel:
    seconds = float(ticks.seconds.sum())
    base = learned.base / seconds if seconds > 0 else 0.0
    return CostModel(ticks.names, learned, regressor_totals, base, prices)
