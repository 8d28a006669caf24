"""Changes whose effect cannot be predicted, because the agent knows too little."""

from models.what_if.changes import Changes
from models.what_if.current_state import DISK_KINDS, CurrentState, LimitKind


def unknown_effects(today: CurrentState, changes: Changes) -> tuple[str, ...]:
    """Return a sentence for each change whose effect is not known."""
    found = []
    if (changes.cpu_speed != 1 or changes.cores != 1) and LimitKind.CPU not in today.seen:
        found.append(_unknown_resource_text("processors", "its CPU use"))
    if (changes.disk_rate != 1 or changes.disk_latency != 1) and not today.seen & set(DISK_KINDS):
        found.append(_unknown_resource_text("disks", "their use"))
    if changes.network != 1 and LimitKind.NETWORK not in today.seen:
        found.append(_unknown_resource_text("links", "the speed of the network"))
    found += [why for name in changes.queries if (why := _unknown_class_text(today, name))]
    return tuple(found)


def _unknown_resource_text(what: str, use: str) -> str:
    return f"The effect of other {what} cannot be predicted: {use} is not known."


def _unknown_class_text(today: CurrentState, name: str) -> str:
    """Return why the class's share of the present limit is not known; empty where it is."""
    first = today.most_likely_limit
    if first is None:
        return ""
    if first.kind is LimitKind.SETTING:
        return (
            f"The effect of {name} on the capacity cannot be predicted: the limit is {first.name}, "
            "and the share of it that a class holds is not known."
        )
    shares = today.time_shares if first.kind is LimitKind.CONTENTION else first.shares
    if name in shares:
        return ""
    return (
        f"The effect of {name} on the capacity cannot be predicted: its share of {first.name} is "
        "not known, or too uncertain."
    )
