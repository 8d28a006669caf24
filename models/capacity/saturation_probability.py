"""The probability that a load saturates the server: P(C ≤ load), from the capacity's posterior.

A wide interval is no reason for silence: it is in the probability. A model that the points
contradict is one, for then the interval itself is wrong.
"""

from models.capacity.headroom import Headroom
from models.capacity.result import Capacity, CapacityReason

GROWTHS = (1.0, 1.1, 1.25, 1.5)
"""The present load, and what it is when it has grown by 10, 25 and 50 %."""
REFUTED = -0.15
"""Headroom below it, without overload, refutes the prediction: more is served than can be."""
CONTRADICTED = {
    CapacityReason.NO_LIMIT_SEEN,
    CapacityReason.MODEL_DOES_NOT_FIT,
    CapacityReason.LATEST_DIFFER,
    CapacityReason.LAW_DOES_NOT_FIT,
}
"""With one of these the points contradict the distribution, or there is none."""

Probabilities = tuple[tuple[float, float], ...]
"""By growth, rising; empty where it is not known."""


def is_contradicted(capacity: Capacity) -> bool:
    """Tell whether what was seen contradicts the capacity's distribution."""
    return not CONTRADICTED.isdisjoint(capacity.reasons)


def saturation_probability(
    capacity: Capacity, throughput: float, found: Headroom | None
) -> Probabilities:
    """Compute P(C ≤ growth · X) for each growth; X in queries/s, `found` its headroom.

    Past the peak X says nothing of the load, which is more than the capacity already.
    """
    if found is None or capacity.distribution is None or is_contradicted(capacity):
        return ()
    if found.overloaded:
        return tuple((growth, 1.0) for growth in GROWTHS)
    if found.ratio < REFUTED:
        return ()
    reached = capacity.distribution.at_most
    return tuple((growth, float(reached(growth * throughput))) for growth in GROWTHS)
