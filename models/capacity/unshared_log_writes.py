"""How far a demand may still fall because queries do not share the writes of the log yet.

The models of `demand_extrapolation` exclude each other: a demand falls because processors are woken
more rarely, or because commits share the writes of the log. On a server that commits much both
happen. Where the points prefer the first, the processor time of the writes that are still made
remains to be saved: once processors are full, commits queue and share them (group commit:
`shared_cost`). On a recorded server without a binary log that was 40 % of the demand at half
of the limit, of which the points showed nothing.
"""

from typing import NamedTuple

import numpy as np

from models.arrays import Array
from models.capacity.contention_peak import UNCOUNTED_LOG_PRIOR
from models.capacity.demand_extrapolation import log_write_prior
from models.capacity.resource_and_limit import Resource
from models.numerics import median, quantile
from models.shared_constants import HIGH_QUANTILE, MIN_LASTING


class FurtherFall(NamedTuple):
    """The possible falls of a demand beyond those that its models expect."""

    shares: Array
    """By which share of the demand at the highest loads; shape (falls,), from 0."""
    probabilities: Array
    """Of each, shape (falls,); they sum to 1 or less, with the rest for none."""

    @property
    def mean(self) -> float:
        """The expected fall, a share."""
        return float(self.probabilities @ self.shares)


def further_fall(resource: Resource, x: Array, log_shared: float) -> FurtherFall | None:
    """Compute the fall of a processor's demand if no query pays for a write of the log any more.

    x in queries/s, shape (intervals,); log_shared is the probability of the models that share them.
    None where no writes are to be expected. Where they were not counted and statements wait even
    when few run, they may wait for one write each.
    """
    own, writes, missing = resource.own, resource.log_writes, 1 - log_shared
    if resource.may_wait_for_log:
        writes, missing = x, UNCOUNTED_LOG_PRIOR
    elif resource.log_sharing is None:
        return None
    if own is None or writes is None:
        return None
    high = (own > 0) & np.isfinite(writes) & (x >= quantile(x, HIGH_QUANTILE))
    if np.count_nonzero(high) < MIN_LASTING:
        return None
    prior = log_write_prior(median(writes[high] / own[high]) / (resource.count or 1.0))
    return FurtherFall(prior.places, missing * np.exp(prior.ln_p))
