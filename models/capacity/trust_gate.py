"""The trust in a capacity: trusted, indicative or not identifiable, and the reasons."""

from dataclasses import replace

from models.capacity.doubts import CapacityEvidence, doubts
from models.capacity.headroom import peak_upper
from models.capacity.observed_peak import ObservedPeak
from models.capacity.result import REMARKS, Capacity, CapacityReason
from models.trust import MIN_LOAD, Trust, trust_of
from models.usl.fit import UslFit


def judge_capacity(evidence: CapacityEvidence) -> Capacity:
    """Return the estimate as a capacity, with its trust and all reasons."""
    estimate, found = evidence.estimate, doubts(evidence)
    doubted = bool(found - REMARKS)
    trust = trust_of(estimate.ratio, doubted=doubted, refused=estimate.value is None)
    if not doubted:
        found -= {CapacityReason.CONTENTION_UNKNOWN}
    return Capacity(
        value=estimate.value,
        lower=estimate.lower,
        upper=estimate.upper,
        limit=estimate.limit,
        shares=estimate.shares,
        trust=trust,
        reasons=tuple(reason for reason in CapacityReason if reason in found),
        x_seen=estimate.x_seen,
        settling_throughput=_settling_throughput(evidence, trust),
        distribution=estimate.distribution,
    )


def _settling_throughput(evidence: CapacityEvidence, trust: Trust) -> float | None:
    """Compute the load (queries/s) that would settle the capacity; None: more would not help.

    Halfway to it from the highest load seen, or from the least that may be trusted.
    """
    value, seen = evidence.estimate.value, evidence.estimate.x_seen
    if value is None:
        load = evidence.estimate.settling_throughput
        return load if load and load > seen else None
    if trust is Trust.TRUSTED or value <= seen:
        return None
    return (max(seen, MIN_LOAD * value) + value) / 2


def unknown_capacity() -> Capacity:
    """Return the capacity of a server of which nothing was seen."""
    reasons, unknown = (CapacityReason.NO_LIMIT_SEEN,), Trust.NOT_IDENTIFIABLE
    return Capacity(None, None, None, None, {}, unknown, reasons, 0.0, None)


def with_concurrency(
    capacity: Capacity, observed_peak: ObservedPeak | None, law: UslFit | None
) -> Capacity:
    """Return the capacity with its concurrency, as observed or else by a trusted law."""
    if observed_peak is not None:
        at_peak, upper = observed_peak.concurrency, observed_peak.concurrency_upper
        return replace(capacity, concurrency=at_peak, concurrency_upper=upper)
    if law is None or law.trust is not Trust.TRUSTED or law.n_max is None or capacity.value is None:
        return capacity
    at_peak = float(law.law.concurrency_at_throughput(capacity.value))
    at_peak = at_peak if at_peak < float("inf") else law.n_max
    return replace(capacity, concurrency=at_peak, concurrency_upper=peak_upper(law))
