"""The probability that a load saturates the server: P(C ≤ load), from the capacity's posterior.

The load is the present one, grown by a factor, or the highest expected within an hour.

The probability takes account of a wide interval. It is absent where the points contradict the
model, because then the interval itself is wrong.
"""

from collections.abc import Mapping

from models.capacity.distribution import Distribution
from models.capacity.headroom import Headroom
from models.capacity.result import Capacity, CapacityReason
from models.forecast.next_hour import STEP_SECONDS, Rise
from models.shared_constants import TOLERATED_CHANGE

GROWTHS = (1.0, 1.1, 1.25, 1.5)
"""Factors of the present load: unchanged, and grown by 10, 25 and 50 %."""
CONTRADICTING_REASONS = {
    CapacityReason.NO_LIMIT_SEEN,
    CapacityReason.MODEL_DOES_NOT_FIT,
    CapacityReason.RECENT_COST_DIFFERS,
    CapacityReason.LAW_DOES_NOT_FIT,
}
"""Reasons with which the points contradict the distribution, or there is none."""

Probabilities = tuple[tuple[float, float], ...]
"""Pairs of a growth, or of seconds ahead, ascending, and a probability; empty where not known."""


def is_contradicted(capacity: Capacity) -> bool:
    """Return whether the observations contradict the capacity's distribution."""
    return not CONTRADICTING_REASONS.isdisjoint(capacity.reasons)


def saturation_probability(
    capacity: Capacity, throughput: float, found: Headroom | None
) -> Probabilities:
    """Compute P(C ≤ growth · X) for each growth; X in queries/s, `found` its headroom.

    Past the peak X does not show the load, which already exceeds the capacity.
    """
    distribution = _unrefuted_distribution(capacity, found)
    if distribution is None or found is None:
        return ()
    if found.overloaded:
        return tuple((growth, 1.0) for growth in GROWTHS)
    return tuple((growth, float(distribution.at_most(growth * throughput))) for growth in GROWTHS)


def saturation_soon(
    capacity: Capacity, level: float, rises: Mapping[int, Rise], found: Headroom | None
) -> Probabilities:
    """Compute the probability that the load reaches C within each horizon of `rises`.

    level: the load of the last minutes, queries/s; rises: by the number of steps ahead, of
    `STEP_SECONDS` each; `found`: the present headroom.
    """
    distribution = _unrefuted_distribution(capacity, found)
    if distribution is None or found is None:
        return ()
    if found.overloaded:
        return tuple((STEP_SECONDS * steps, 1.0) for steps in rises)
    return tuple(
        (STEP_SECONDS * steps, rise.saturation_probability(level, distribution))
        for steps, rise in rises.items()
    )


def _unrefuted_distribution(capacity: Capacity, found: Headroom | None) -> Distribution | None:
    """Return the capacity's distribution; None where it is not known or refuted."""
    if found is None or is_contradicted(capacity):
        return None
    is_refuted = found.ratio < -TOLERATED_CHANGE and not found.overloaded
    return None if is_refuted else capacity.distribution
