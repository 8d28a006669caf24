"""What changed from one of the agent's pages to a later one."""

from itertools import pairwise

from agent.query_classes.digest_deltas import LossReason
from collectors.base import FailureKind
from testbed.real.daemon import PREFIX, Page

QUERIES = f"{PREFIX}queries_total"
LAG = 15.0  # seconds that counters of query classes may be behind: two intervals and more
ALWAYS_POSSIBLE = {"slow"}  # a machine with much else to do


def increases(name: str, before: Page, after: Page) -> dict[str, float]:
    """Return the increase of each kind of failure, over all collectors of a target."""
    return {
        str(kind): sum(after.all("collector_failures_total", target=name, kind=kind))
        - sum(before.all("collector_failures_total", target=name, kind=kind))
        for kind in FailureKind
    }


def skipped(name: str, page: Page) -> float:
    """Return the missed runs, over all collectors of a target."""
    return sum(page.all("collector_skipped_total", target=name))


def falls(pages: list[Page], only: str | None) -> list[str]:
    """Every counter that has fallen from one page to the next; of `only` that target, if any.

    The server's own count of its queries starts again when the server does, and at no other time.
    """
    return [
        f"{name}{dict(labels)}: {earlier.samples[name, labels]} to {value}"
        for earlier, later in pairwise(pages)
        for (name, labels), value in later.samples.items()
        if name.endswith("_total")
        and (only is None or ("target", only) in labels)
        and value < earlier.samples.get((name, labels), 0)
        and not (name == QUERIES and has_restarted(dict(labels)["target"], earlier, later))
    ]


def has_restarted(name: str, before: Page, after: Page) -> bool:
    """Return whether a restart of that target's server was counted between the pages."""
    return rise("server_restarts_total", before, after, target=name) > 0


def lost(name: str, before: Page, after: Page) -> dict[str, int]:
    """Return the lost intervals of a target's query classes, by reason."""
    rises = {
        str(k): rise("query_intervals_lost_total", before, after, target=name, kind=k)
        for k in LossReason
    }
    return {kind: round(found) for kind, found in rises.items() if found}


def rise(metric: str, before: Page, after: Page, **labels: str) -> float:
    """Return the increase of a counter, over all series with these labels."""
    return sum(after.all(metric, **labels)) - sum(before.all(metric, **labels))


def was_undisturbed(name: str, pages: list[Page]) -> None:
    """Check that a target was up on every page, with one session and no new failure."""
    assert {page.get("up", target=name) for page in pages} == {1}
    assert len({page.get("connects_total", target=name) for page in pages}) == 1
    counted = increases(name, pages[0], pages[-1])
    assert {kind for kind, n in counted.items() if n} <= ALWAYS_POSSIBLE
    stamps = {page.get("last_sample_timestamp_seconds", target=name) for page in pages}
    assert len(stamps) > (pages[-1].at - pages[0].at) / 4
