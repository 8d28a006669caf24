"""Whether throughput has stopped growing: more statements at once, but no more throughput.

Below its limit a server completes more, the more statements are at work. Where 50 % more complete
no more, interval after interval, something else delays them, and the throughput is the maximum: by
the asymptotic bounds of a closed network (P. Denning, J. Buzen 1978) it is one over the longest
demand. A lock looks like this, while no resource is full.
"""

import numpy as np

from models.capacity.observations import Observations
from models.capacity.observed_maximum import HIGHEST
from models.capacity.observed_peak import BEYOND
from models.capacity.sample_sizes import MIN_POINTS
from models.numerics import median, quantile

AT_TOP = 0.92
"""From this share of the third highest throughput on it is the top: two may be bursts."""
FEW = 1.25
"""Up to so many times the concurrency that first reached the top are few, from `BEYOND` on many."""
GROWTH = 1.04
"""The throughput at many, over that at few, must not be more."""


def find_plateau(seen: Observations) -> float | None:
    """Find the throughput (queries/s) that more statements do not raise; None: it still grows."""
    loaded = seen.well_known
    if np.count_nonzero(loaded) < 2 * MIN_POINTS:
        return None
    n, x = seen.concurrency[loaded], seen.throughput[loaded]
    at_top = x >= AT_TOP * np.sort(x)[-HIGHEST]
    first = quantile(n[at_top], 0.1)
    many, few = n >= BEYOND * first, at_top & (n < FEW * first)
    if min(np.count_nonzero(many), np.count_nonzero(few)) < MIN_POINTS:
        return None
    level, before = median(x[many]), median(x[few])
    # else they piled up: most of the intervals with many statements are at the top, too
    stays = 2 * np.count_nonzero(at_top[many]) > np.count_nonzero(many)
    return level if stays and level <= GROWTH * before else None
