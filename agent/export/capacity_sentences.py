"""The capacity in words: its value, the limit, the uncertainty and the headroom."""

from agent.assessment.snapshot import Snapshot
from agent.config.durations import format_duration
from agent.export.fit_report import format_number, past_peak_text
from models.capacity.client_connections import CLIENT_CONNECTIONS
from models.capacity.headroom import Headroom
from models.capacity.result import USL, Capacity, CapacityReason
from models.capacity.saturation_probability import Probabilities
from models.trust import Trust

MIN_CLEAR_SHARE = 0.7  # a limit with at least this probability is named alone
KINDS = {
    "cpu": "this host's CPU",
    "server_cpu": "the server's own CPU",
    "connections": "max_connections",
    CLIENT_CONNECTIONS: "the clients' connections",
    "innodb_threads": "innodb_thread_concurrency",
    "redo_log": "the redo log",
    USL: "contention",
}
PARTS = {
    "disk": "disk {}",
    "operations": "operations of disk {}",
    "bytes": "bandwidth of disk {}",
    "received": "what interface {} receives",
    "sent": "what interface {} sends",
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
    limit = f"the limit is {_likely_limits(capacity)}"
    if capacity.trust is Trust.TRUSTED:
        return f"This server can do {format_number(capacity.value)} queries/s; {limit}.{left}"
    estimate = f"{format_number(capacity.value)} queries/s ({bounds(capacity)})"
    return f"This server can do about {estimate}; {limit}. This is only indicative.{left}"


def _likely_limits(capacity: Capacity) -> str:
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
        return "The present load is above that."
    return f"{100 * headroom.ratio:.0f} % of that is left."


def saturation_cell(likely: Probabilities) -> tuple[str, str]:
    """Return the saturation probability of the present load, and a note with that of more load."""
    now, *grown = [(growth, f"{100 * p:.0f} %") for growth, p in likely]
    more = ", ".join(f"{100 * (growth - 1):.0f} % more: {p}" for growth, p in grown)
    return now[1], f"probability at this load; at {more}"


def saturation_soon_cell(soon: Probabilities) -> tuple[str, str]:
    """Return the probability of saturation within an hour, and a note with shorter times."""
    *sooner, (_, hour) = [(seconds, f"{100 * p:.0f} %") for seconds, p in soon]
    less = ", ".join(f"{format_duration(seconds)}: {p}" for seconds, p in sooner)
    return hour, f"probability that the load reaches the capacity; within {less}"


def doubt_sentences(capacity: Capacity) -> list[str]:
    """List reasons for doubt, remarks, and the load that would settle the capacity, each once."""
    reasons = list(capacity.reasons)
    if CapacityReason.NO_LIMIT_SEEN in reasons and CapacityReason.NO_RESOURCE_LIMIT in reasons:
        reasons.remove(CapacityReason.NO_RESOURCE_LIMIT)
    texts = [reason.sentence for reason in reasons]
    if capacity.usl is None and capacity.usl_finding is not None:
        general = CapacityReason.CONCURRENCY_UNKNOWN.sentence
        texts = [text for text in texts if text != general]
        texts.append(capacity.usl_finding.check.sentence)
    if capacity.settling_throughput is not None:
        load = format_number(capacity.settling_throughput)
        texts.append(f"a load of about {load} queries/s would settle it")
    return texts


def why_no_prediction(snapshot: Snapshot) -> str:
    """Return why there is no prediction yet."""
    if snapshot.health.up is False:
        errors = [c.last_error for c in snapshot.health.collectors if c.last_error]
        return errors[0] if errors else "the server does not answer"
    return snapshot.assessed.waiting or "no complete interval yet"
