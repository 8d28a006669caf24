"""The assumptions of a prediction, as sentences."""

from models.what_if.changes import Changes
from models.what_if.current_state import DISK_KINDS, CurrentState, LimitKind
from models.what_if.measured_at_other_load import measured_load_at


def assumptions(today: CurrentState, changes: Changes) -> tuple[str, ...]:
    """Return the assumptions of a prediction for these changes, as sentences."""
    found = [
        "Contention (σ), coherency (κ) and the time that no resource explains stay the same. λ"
        " follows the time that a query takes of the changed resources.",
        *_hardware_assumptions(today, changes),
        *_workload_assumptions(today, changes),
    ]
    if any(limit.kind is LimitKind.SETTING and limit.probability > 0 for limit in today.limits):
        found.append("Limits that are settings, such as the number of connections, do not change.")
    if today.capacity is not None and today.upper is None:
        found.append("Today's capacity has no upper bound, so the predicted one has none either.")
    return tuple(found)


def _hardware_assumptions(today: CurrentState, changes: Changes) -> list[str]:
    """List the assumptions behind changes of processors, disk, network and servers."""
    found = []
    if changes.cores != 1:
        found.append(
            "More processors run more statements at once, and none of them faster. Each does as"
            " much as one of today, unlike a hyper-thread."
        )
    if changes.cpu_speed != 1:
        found.append("A faster processor shortens all CPU time alike, including waits for memory.")
    if changes.disk_rate != 1 or changes.disk_latency != 1:
        found.append(
            "The share of the disk's time that is sequential, and the share that queries wait for,"
            " may each be anything from none to all."
        )
        if not any(limit.kind in DISK_KINDS for limit in today.limits):
            found.append("No disk has a known limit today, so changing it moves no known limit.")
    if changes.network != 1 and today.limit(LimitKind.NETWORK) is None:
        found.append("The link has no known limit today, so changing it moves no known limit.")
    if changes.servers != 1:
        found.append(
            "The servers are alike, share all queries equally, and none waits for another. That"
            " does not hold for writes that every server must repeat."
        )
    return found


def _workload_assumptions(today: CurrentState, changes: Changes) -> list[str]:
    """List the assumptions behind changes of the load and of queries' costs."""
    found = []
    if changes.load != 1:
        found.append("The mix of queries does not change with the load.")
    has_time = today.load is not None and not today.is_past_peak
    measured = measured_load_at(today.load, changes) if today.load and has_time else None
    if measured is not None:
        found.append(
            "The residence time starts from the one that was measured at that load:"
            f" {measured.intervals} intervals of the window had about"
            f" {_rounded(measured.throughput)} queries/s."
        )
    if changes.queries:
        found.append(
            "A class's cost changes by the same factor on every resource, and in the time that no"
            " resource explains. The others cost as before."
        )
    if changes != Changes() and today.uses and has_time:
        found.append(
            "Queues at a resource are at most those of random arrivals at its mean utilisation."
        )
    return found


def _rounded(value: float) -> str:
    """Write a number with three digits or more."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
