"""The capacity in words: its value, the limit, the uncertainty and the headroom."""

from agent.assessment.snapshot import Snapshot
from agent.config.durations import format_duration
from agent.export.fit_report import past_peak_text
from agent.export.number_formats import format_number, whole_percent
from models.capacity.client_connections import CLIENT_CONNECTIONS
from models.capacity.headroom import Headroom
from models.capacity.resource_and_limit import FULL_UTILISATION
from models.capacity.result import USL, Capacity, CapacityReason
from models.capacity.saturation_probability import Probabilities
from models.trust import Trust

CPU_NAMES = ("cpu", "server_cpu")
FILLABLE = (*CPU_NAMES, "connections")
"""Resources whose utilisation is what is used of them, whoever uses them."""
CPU_UNKNOWN = "no processor's use is known"
MIN_CLEAR_SHARE = 0.7  # a limit with at least this probability is named alone
KINDS = {
    "cpu": "host CPU",
    "server_cpu": "server process CPU",
    "connections": "max_connections",
    CLIENT_CONNECTIONS: "client connections",
    "innodb_threads": "innodb_thread_concurrency",
    "redo_log": "redo log",
    USL: "contention",
}
PARTS = {
    "disk": "disk {}",
    "operations": "IOPS of disk {}",
    "bytes": "bandwidth of disk {}",
    "flush": "flushes of disk {}",
    "received": "network {} in",
    "sent": "network {} out",
}


def resource_display_name(name: str) -> str:
    """Return a resource's display name: `disk:sda` is "disk sda"."""
    if name in KINDS:
        return KINDS[name]
    kind, _, rest = name.partition(":")
    device, _, part = rest.partition(":")
    return PARTS.get(part or kind, name.replace("{}", "")).format(device)


def headline(capacity: Capacity, headroom: Headroom | None) -> str:
    """Return one or two sentences: the capacity, its limit, and how much of it is left now."""
    if capacity.trust is Trust.NOT_IDENTIFIABLE or capacity.value is None:
        bound = (
            ""
            if capacity.lower is None
            else f": at least {format_number(capacity.lower)} queries/s"
        )
        return f"The capacity of this server is not yet identifiable{bound}."
    left = "" if headroom is None else f" {headroom_sentence(headroom)}"
    limit = f"the limit is {likely_limits(capacity)}"
    if capacity.trust is Trust.TRUSTED:
        return f"This server can do {format_number(capacity.value)} queries/s; {limit}.{left}"
    estimate = f"{format_number(capacity.value)} queries/s ({bounds(capacity)})"
    return f"This server can do about {estimate}; {limit}. This is only indicative.{left}"


def likely_limits(capacity: Capacity) -> str:
    """Return the most likely limit, or the two likeliest if none is clearly ahead."""
    likely = sorted(capacity.shares, key=lambda name: -capacity.shares[name])
    named = likely[:1] if capacity.shares[likely[0]] >= MIN_CLEAR_SHARE else likely[:2]
    return " or ".join(resource_display_name(name) for name in named)


def bounds(capacity: Capacity) -> str:
    """Return the 90 % interval, or only the lower bound if there is no upper one."""
    if capacity.upper is None:
        return f"95 %: at least {format_number(capacity.lower)}"
    return f"90 %: {format_number(capacity.lower)} to {format_number(capacity.upper)}"


def headroom_sentence(headroom: Headroom) -> str:
    """Return a sentence on the part of the capacity that is left, or the loss by overload."""
    if headroom.overloaded:
        return f"It is {past_peak_text(headroom.overload_loss)}."
    if headroom.ratio < 0:
        return "The present load is above the capacity."
    return f"{whole_percent(headroom.ratio)} of the capacity is left."


def indicative_remark(trust: Trust) -> str:
    """Return a sentence to append to what is not trusted, or ""."""
    return "" if trust is Trust.TRUSTED else " That is indicative."


def full_resource_sentence(snapshot: Snapshot, now: float) -> str:
    """Return a sentence on a resource that is full though the load is below the capacity, or "".

    Others may use it, or the queries of this moment may cost more than those of the window. Of a
    capacity that is not identifiable it is not known whether the load is below it.
    """
    load, headroom, capacity = (
        snapshot.current_load(now),
        snapshot.headroom(now),
        snapshot.capacity(now),
    )
    if load is None or capacity is None or headroom is None:
        return ""
    if headroom.overloaded or headroom.ratio <= 0:
        return ""
    full = [name for name in FILLABLE if load.resources.get(name, 0.0) >= FULL_UTILISATION]
    if not full:
        return ""
    name, used = resource_display_name(full[0]), whole_percent(load.resources[full[0]])
    is_below = capacity.trust is not Trust.NOT_IDENTIFIABLE
    although = ", although the load is below the capacity" if is_below else ""
    return f"{name[0].upper()}{name[1:]} is {used} used now{although}."


def saturation_cell(likely: Probabilities) -> tuple[str, str]:
    """Return the saturation probability of the present load, and a note with that of more load."""
    now, *grown = [(growth, whole_percent(p)) for growth, p in likely]
    more = ", ".join(f"{whole_percent(growth - 1)} more: {p}" for growth, p in grown)
    return now[1], f"probability at this load; at {more}"


def saturation_soon_cell(soon: Probabilities) -> tuple[str, str]:
    """Return the probability of saturation within an hour, and a note with shorter times."""
    *sooner, (_, hour) = [(seconds, whole_percent(p)) for seconds, p in soon]
    less = ", ".join(f"{format_duration(seconds)}: {p}" for seconds, p in sooner)
    return hour, f"probability that the load reaches the capacity; within {less}"


def doubt_sentences(capacity: Capacity) -> list[str]:
    """List reasons for doubt, remarks, and the load that would settle the capacity, each once."""
    texts = [reason.sentence for reason in capacity.reasons]
    no_resource = CapacityReason.NO_RESOURCE_LIMIT
    if no_resource in capacity.reasons:
        if not _is_cpu_known(capacity):
            texts[texts.index(no_resource.sentence)] = CPU_UNKNOWN
        elif CapacityReason.NO_LIMIT_SEEN in capacity.reasons:
            texts.remove(no_resource.sentence)
    if capacity.usl is None and capacity.usl_finding is not None:
        general = CapacityReason.CONCURRENCY_UNKNOWN.sentence
        texts = [text for text in texts if text != general]
        texts.append(capacity.usl_finding.check.sentence)
    if capacity.settling_throughput is not None:
        load = format_number(capacity.settling_throughput)
        texts.append(f"a load of about {load} queries/s would settle it")
    return texts


def _is_cpu_known(capacity: Capacity) -> bool:
    """Return whether the use of a processor was measured, be there a limit or not."""
    return any(limit.resource in CPU_NAMES for limit in capacity.resource_limits)


def why_no_prediction(snapshot: Snapshot, now: float) -> str:
    """Return why there is no prediction at `now` (Unix seconds)."""
    if snapshot.assessed.capacity is not None and snapshot.assessed.at is not None:
        age = format_duration(now - snapshot.assessed.at)
        return f"the latest assessment is {age} old and withheld"
    return why_down(snapshot) or snapshot.assessed.waiting or "no complete interval yet"


def why_down(snapshot: Snapshot) -> str:
    """Return why the server cannot be read now; empty if it can be."""
    if snapshot.health.up is not False:
        return ""
    errors = (c.last_error for c in snapshot.health.collectors if c.last_error)
    return next(errors, "the server does not answer")
