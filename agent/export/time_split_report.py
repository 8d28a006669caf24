"""The split of statement time as text: names, and a bar of characters."""

from agent.export.fit_report import whole_percent
from models.time_split.limiting_resource import Limit, LimitedBy
from models.time_split.split import Part, TimeSplit

NAMES = {
    Part.CPU: "on CPU",
    Part.PROCESSOR_QUEUE: "waiting for a processor",
    Part.DISK_SEQUENTIAL: "disk (sequential)",
    Part.DISK_RANDOM: "disk (random)",
    Part.NETWORK: "network",
    Part.LOCKS: "locks",
    Part.NOT_ALLOCATED: "not allocated",
}
CHARACTERS = {
    Part.CPU: "C",
    Part.PROCESSOR_QUEUE: "w",
    Part.DISK_SEQUENTIAL: "S",
    Part.DISK_RANDOM: "R",
    Part.NETWORK: "N",
    Part.LOCKS: "L",
    Part.NOT_ALLOCATED: "·",
}
KEY = "C CPU, w waiting for a processor, S disk sequential, R disk random, N network, L locks"
KEY += ", · not allocated"
LIMITS = {
    Limit.CPU: "CPU",
    Limit.DISK: "disk",
    Limit.NETWORK: "network",
    Limit.LOCKS: "locks",
    Limit.DBMS: "DBMS",
}
WIDTH = 20
MIN_SHOWN_SHARE = 0.005
"""Smaller shares are not listed."""


def stacked_bar(split: TimeSplit, width: int = WIDTH) -> str:
    """Draw the parts side by side in `width` characters, each in proportion to its share."""
    bar, cumulative = "", 0.0
    for part, share in split.shares.items():
        cumulative += share
        bar += CHARACTERS[part] * (round(cumulative * width) - len(bar))
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
        names = ", ".join(NAMES[part] for part in Part if part in split.unknown)
        doubts.append(f"not known here, and so not allocated: {names}")
    return doubts
