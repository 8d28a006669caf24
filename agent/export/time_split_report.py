"""The split of statement time for people: names, and a bar of characters."""

from models.time_split.limiting_resource import Limit, LimitedBy
from models.time_split.split import Part, TimeSplit

NAMES = {
    Part.CPU: "on CPU",
    Part.PROCESSOR_QUEUE: "waiting for a processor",
    Part.DISK_SEQUENTIAL: "disk, sequential",
    Part.DISK_RANDOM: "disk, random",
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
"""A smaller share is not written."""


def stacked_bar(split: TimeSplit, width: int = WIDTH) -> str:
    """Draw the parts side by side, each with as many characters as its share has of the width."""
    bar, reached = "", 0.0
    for part, share in split.shares.items():
        reached += share
        bar += CHARACTERS[part] * (round(reached * width) - len(bar))
    return bar


def limited_words(limited: LimitedBy | None) -> str:
    """Name what limits, and its share; a dash where nothing ran."""
    return f"{LIMITS[limited.limit]} {limited.share:.0%}" if limited else "–"


def parts_in_words(split: TimeSplit) -> str:
    """List the parts that there are, with their shares."""
    shares = split.shares.items()
    return ", ".join(f"{NAMES[p]} {share:.0%}" for p, share in shares if share >= MIN_SHOWN_SHARE)


def doubts_in_words(split: TimeSplit) -> list[str]:
    """List what weakens the split."""
    said = []
    if split.over_explained:
        said.append(f"the parts exceed the time by {split.excess:.0%} and were scaled down to it")
    if split.unknown:
        names = ", ".join(NAMES[part] for part in Part if part in split.unknown)
        said.append(f"not known here, and so not allocated: {names}")
    return said
