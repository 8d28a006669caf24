"""The cost model of one resource: the cost of each class, and the prediction of the total use."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np
from numpy.typing import NDArray

from models.arrays import Array, Mask
from models.attribution.call_and_row_costs import CpuBounds, UnitCosts, interval_weights
from models.attribution.class_cost_fit import BASE_SPREAD, ClassPriors, FittedMixture
from models.attribution.class_interval_table import OTHER, ClassIntervals
from models.attribution.empirical_bayes import fit_class_unit_costs, fit_unit_costs_by_interval
from models.attribution.prior_mixture_fit import fit_mixture
from models.attribution.rolling_block_sums import Block
from models.attribution.sufficient_statistics import Moments
from models.attribution.waiting_classes import Elasticity, cannot_compute_all
from models.shared_constants import UNLIKELY

NO_WAIT_LOG_ODDS = log((1 - UNLIKELY) / UNLIKELY)
"""Log of odds against waiting for a class whose text is known and names no wait."""


@dataclass(frozen=True)
class CostModel:
    """Cost of one unit of each class's regressor, and the base, which no class causes."""

    names: tuple[str, ...]
    mixture: FittedMixture
    regressor_totals: Array
    """Of the intervals that were fitted, shape (K,)."""
    base_per_second: float
    shared_costs: UnitCosts | None
    """How calls and rows become a regressor; None: the regressor is the statement time."""

    def regressors(self, intervals: ClassIntervals) -> Array:
        """Compute what the total is regressed on, shape (T, K)."""
        if self.shared_costs is None:
            return intervals.statement_time
        return self.shared_costs.costs(intervals)

    @property
    def unit_costs(self) -> Array:
        """Units of y per unit of regressor, shape (K,); 0 for a class that did nothing."""
        present = self.regressor_totals > 0
        unit = np.where(present, self.regressor_totals, 1.0)
        return np.where(present, self.mixture.totals / unit, 0.0)

    def indices_of(self, names: Sequence[str]) -> NDArray[np.intp]:
        """Return the index of each of these classes in the model; −1 for one it does not know."""
        index = {name: i for i, name in enumerate(self.names)}
        return np.array([index.get(name, -1) for name in names], dtype=np.intp)

    def predict(self, intervals: ClassIntervals) -> Array:
        """Predict y, shape (T,), of any classes; a new one is part of `other`, or adds nothing."""
        unit_costs = self.unit_costs
        new = unit_costs[self.names.index(OTHER)] if OTHER in self.names else 0.0
        by_column = np.append(unit_costs, new)[self.indices_of(intervals.names)]
        result: Array = self.regressors(intervals) @ by_column
        return result + self.base_per_second * intervals.seconds


def fit_statement_times(intervals: ClassIntervals, y: Array) -> CostModel:
    """Fit y, shape (T,), on statement times alone, one unit cost per class, without calls."""
    time = intervals.statement_time
    mixture = fit_unit_costs_by_interval(time, intervals.seconds, y, interval_weights(y))
    return _make_model(
        intervals.names, time.sum(axis=0), mixture, float(intervals.seconds.sum()), None
    )


def fit_block(
    block: Block,
    shared_costs: UnitCosts,
    *,
    bounds: CpuBounds | None = None,
    texts: Sequence[str | None] | None = None,
) -> tuple[CostModel, Mask]:
    """Fit the cost of each class to a window's sum, whose regressors have these unit costs.

    If the block has times, a class that computes uses y in proportion to them. `bounds`: y is CPU;
    `texts`: the digest texts of the block's classes, None where none is known.
    Classes that did nothing are left out of the model. Returns the model, and which of its K
    classes cannot have computed all their time, shape (K,).
    """
    active = np.flatnonzero(block.moments.totals[:-1] > 0)
    moments = _select_classes(block.moments, active)
    names = tuple(block.names[i] for i in active)
    sizes, seconds = moments.totals[:-1], float(moments.totals[-1])
    if block.times is None:
        mixture = fit_class_unit_costs(moments, BASE_SPREAD)
        nothing = np.zeros(len(names), dtype=np.bool_)
        return _make_model(names, sizes, mixture, seconds, shared_costs), nothing
    priors, waiting = priors_of(sizes, block.times.work[active], moments.y_total, bounds)
    active_texts = None if texts is None else [texts[int(i)] for i in active]
    waits = evidence_of_waiting(block.times.elasticity.at(active), sizes, active_texts)
    priors = replace(priors, wait_evidence=waits, inflation=block.errors.inflation)
    mixture = fit_mixture(moments, priors)
    return _make_model(names, sizes, mixture, seconds, shared_costs), waiting


def _select_classes(moments: Moments, active: NDArray[np.intp]) -> Moments:
    kept = np.append(active, len(moments.totals) - 1)
    return replace(
        moments,
        gram=moments.gram[np.ix_(kept, kept)],
        projection=moments.projection[kept],
        totals=moments.totals[kept],
    )


def priors_of(
    by_size: Array, work: Array, y_total: float, bounds: CpuBounds | None
) -> tuple[ClassPriors, Mask]:
    """Compute the prior of each class, and which cannot have computed all their work time.

    Shape (K,) each. Where y is CPU no class uses more of it than its time.
    """
    if bounds is None:
        return ClassPriors(by_size, work), np.zeros(len(work), dtype=np.bool_)
    waiting = cannot_compute_all(work, float(y_total), bounds.min_computing_level)
    return ClassPriors(
        by_size, np.where(waiting, 0.0, work), work, bounds.min_computing_level
    ), waiting


def evidence_of_waiting(
    elasticity: Elasticity, size: Array, texts: Sequence[str | None] | None
) -> Array:
    """Compute the log likelihood ratio of the data, waiting over computing, shape (K,).

    `size`, shape (K,), is each class's calls and rows at their unit costs; `texts` are the digest
    texts.
    """
    known = np.array([bool(text) for text in texts or [None] * len(size)])
    return elasticity.evidence(size) - NO_WAIT_LOG_ODDS * known


def _make_model(
    names: tuple[str, ...],
    totals: Array,
    mixture: FittedMixture,
    seconds: float,
    shared_costs: UnitCosts | None,
) -> CostModel:
    base = mixture.base / seconds if seconds > 0 else 0.0
    return CostModel(names, mixture, totals, base, shared_costs)
