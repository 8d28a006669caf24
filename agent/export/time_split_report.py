"""The split of statement time as text: names, and a bar of characters."""

from agent.export.number_formats import MIN_SHOWN_SHARE, whole_percent
from models.time_split.limiting_resource import LimitedBy, LimitingResource
from models.time_split.time_parts import TimePart, TimeSplit

NAMES = {
    TimePart.CPU: "on CPU",
    TimePart.PROCESSOR_QUEUE: "waiting for a processor",
    TimePart.DISK_SEQUENTIAL: "disk (sequential)",
    TimePart.DISK_RANDOM: "disk (random)",
    TimePart.NETWORK: "network",
    TimePart.LOCKS: "locks",
    TimePart.NOT_ALLOCATED: "not allocated",
}
CHARACTERS = {
    TimePart.CPU: "C",
    TimePart.PROCESSOR_QUEUE: "w",
    TimePart.DISK_SEQUENTIAL: "S",
    TimePart.DISK_RANDOM: "R",
    TimePart.NETWORK: "N",
    TimePart.LOCKS: "L",
    TimePart.NOT_ALLOCATED: "·",
}
KEY = "C CPU, w waiting for a processor, S disk sequential, R disk random, N network, L locks"
KEY += ", · not allocated"
LIMITS = {
    LimitingResource.CPU: "CPU",
    LimitingResource.DISK: "disk",
    LimitingResource.NETWORK: "network",
    LimitingResource.LOCKS: "locks",
    LimitingResource.DBMS: "DBMS",
}
WIDTH = 20


def stacked_bar(split: TimeSplit) -> str:
    """Draw the parts side by side in `WIDTH` characters, each in proportion to its share."""
    bar, cumulative = "", 0.0
    for part, share in split.shares.items():
        cumulative += share
        bar += CHARACTERS[part] * (round(cumulative * WIDTH) - len(bar))
    return bar


def limit_text(limited: LimitedBy | None) -> str:
    """Return the limit and its share; a dash if no statement ran."""
    return f"{LIMITS[limited.limit]} {whole_percent(limited.share)}" if limited else "–"


def parts_text(split: TimeSplit) -> str:
    """List the parts with their shares, except negligible ones."""
    shares = split.shares.items()
    return ", ".join(
        f"{NAMES[p]} {whole_percent(share)}" for p, share in shares if share >= MIN_SHOWN_SHARE
    )


def doubt_texts(split: TimeSplit) -> list[str]:
    """List the reasons for doubt in the split."""
    doubts = []
    if split.over_explained:
        doubts.append(
            f"the parts exceed the time by {whole_percent(split.excess)} and were scaled down to it"
        )
    if split.unknown:
        names = ", ".join(NAMES[part] for part in TimePart if part in split.unknown)
        doubts.append(f"not known here, and so not allocated: {names}")
    return doubts
