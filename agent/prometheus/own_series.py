"""Intervals of a target from what an agent has exported of it, as a Prometheus keeps that.

Each scrape shows the latest interval and when it ended, so that nothing has to be computed: what
several scrapes show of one end is one interval. The metrics are those of docs/metrics.md.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from agent.config.resources import ResourceSettings
from agent.prometheus.client import Client, Labels, Series, chunks
from agent.prometheus.exporters import inner, matcher, selector
from agent.prometheus.server_recordings import NAME, FleetQuery
from agent.replay.recording_opener import SourceError
from agent.window.concurrency import Source
from agent.window.intervals import EXCLUDED, Interval
from agent.window.resource_utilisation import CLOCK, CPU, PARTS, RATE, CpuSource

PREFIX = "mysql_headroom_"
ENDED, THROUGHPUT = "last_fit_timestamp_seconds", "throughput_queries_per_second"
CONCURRENCY, THREADS = "concurrency", "concurrency_excluded_threads"
UTILISATION, CPU_PART = "resource_utilisation_ratio", "cpu_part_utilisation_ratio"
CLOCKED, CPU_SOURCE, WHO = "cpu_clock_ratio", "cpu_source_info", "target_info"
OWN_LABELS: Mapping[str, tuple[str, ...]] = {
    ENDED: (),
    THROUGHPUT: (),
    CONCURRENCY: ("source",),
    THREADS: ("kind",),
    UTILISATION: ("resource", "device", "dimension"),
    CPU_PART: ("part",),
    CLOCKED: (),
    CPU_SOURCE: ("source",),
    WHO: ("server_uuid",),
}
"""The metrics that are read, and the labels that distinguish series of one target."""
BUSY = "busy"
"""The dimension of a device that is the resource itself."""
CHUNK_SECONDS = 6 * 3600.0
"""Seconds that are asked for at once: of 30 series scraped each second some 20 MiB."""
MAX_OVERLAP = 0.01
"""Of an interval, by which two may do that follow each other."""
MIN_SCRAPES_PER_INTERVAL = 1.5
"""Scrapes between ends from which on each interval was seen more than once."""

Shown = dict[tuple[str, str], float]
"""What one scrape shows: a number for each metric and its own labels, joined by colons."""


@dataclass(frozen=True, slots=True)
class OwnTarget:
    """A target's present configuration; its name is that of the series."""

    name: str
    server: str
    width: float
    """fit.interval, s."""
    sampling: float
    """Seconds between two readings of the server's status."""
    ceilings: ResourceSettings


def exporting_agent(
    client: Client, target: OwnTarget, query: FleetQuery, agent_selector: str
) -> Labels | None:
    """The `job` and `instance` of the one agent that has exported it; None where none has.

    Raises `SourceError` where there are several.
    """
    wanted = selector(PREFIX + ENDED, matcher("target", target.name), inner(agent_selector))
    known = client.series(wanted, query.start, query.end)
    found = sorted({(labels.get("job", ""), labels.get("instance", "")) for labels in known})
    if len(found) > 1:
        shown = ", ".join(f'{{job="{job}",instance="{at}"}}' for job, at in found[:10])
        problem = f"{len(found)} agents have exported it: {shown}"
        raise SourceError(f"{target.name}: {problem}; choose one with --agent-selector")
    return dict(zip(("job", "instance"), found[0], strict=True)) if found else None


def own_intervals(
    client: Client, target: OwnTarget, query: FleetQuery, agent: Labels
) -> Iterator[Interval]:
    """The intervals that this agent has shown, oldest first, their ends in Unix seconds.

    Those of another server are left out, and those of which it is not known how wide they are.
    """
    last = -math.inf
    for span in chunks(query.start, query.end, CHUNK_SECONDS):
        scrapes = _scrapes(client, target, agent, span)
        by_end = {
            round(shown[ENDED, ""], 3): shown
            for shown in scrapes.values()
            if (ENDED, "") in shown and _is_of(target.server, shown)
        }
        width = _width(sorted(by_end), sorted(scrapes), target.width)
        if width is None:
            continue
        for ended, shown in sorted(by_end.items()):
            if (THROUGHPUT, "") in shown and ended - width >= last - MAX_OVERLAP * width:
                last = ended
                yield _interval(target, shown, ended, width)


def _scrapes(
    client: Client, target: OwnTarget, agent: Labels, span: tuple[float, float]
) -> dict[float, Shown]:
    """What each scrape shows, by its time."""
    names = "|".join(PREFIX + name for name in OWN_LABELS)
    who = {"target": target.name, **agent}
    wanted = selector("", f'__name__=~"{names}"', *(matcher(n, v) for n, v in who.items()))
    scrapes: dict[float, Shown] = {}
    for series in client.samples(wanted, *span):
        key = _key(series)
        for at, value in zip(series.at.tolist(), series.values.tolist(), strict=True):
            scrapes.setdefault(at, {})[key] = value
    return scrapes


def _key(series: Series) -> tuple[str, str]:
    name = series.labels[NAME].removeprefix(PREFIX)
    own = (series.labels.get(label, "") for label in OWN_LABELS[name])
    return name, ":".join(value for value in own if value not in ("", BUSY))


def _is_of(server: str, shown: Shown) -> bool:
    """Return whether it is that server's, as far as that is exported: MariaDB has no UUID."""
    known = [own for name, own in shown if name == WHO and own]
    return not known or server in known


def _width(ends: list[float], scraped: list[float], configured: float) -> float | None:
    """How wide the intervals were that ended then, s; None where it is not known.

    Seen more than once each, they were as wide as their ends are apart. Else some were not seen,
    and they are as wide as is configured now, unless their ends are closer than that.
    """
    if len(ends) < 2:
        return None
    apart, step = float(np.quantile(np.diff(ends), 0.1)), float(np.median(np.diff(scraped)))
    if apart >= MIN_SCRAPES_PER_INTERVAL * step:
        return round(apart, 1)
    return configured if configured <= apart * (1 + MAX_OVERLAP) else None


def _interval(target: OwnTarget, shown: Shown, ended: float, width: float) -> Interval:
    """The exported part of it; the rest is not known."""
    excluded = {kind: value for (name, kind), value in shown.items() if name == THREADS}
    counted = shown.get((CONCURRENCY, Source.THREADS_RUNNING.value), math.nan)
    return Interval(
        end=ended,
        seconds=width,
        throughput=shown[THROUGHPUT, ""],
        statement_time=shown.get((CONCURRENCY, Source.STATEMENT_TIME.value), math.nan),
        threads_running=counted + sum(excluded.values()),
        thread_samples=width / target.sampling,
        **{f"excluded_{kind}": excluded.get(kind, math.nan) for kind in EXCLUDED},
        resources=dict(_used(target.ceilings, shown)),
    )


def _used(ceilings: ResourceSettings, shown: Shown) -> Iterator[tuple[str, float]]:
    """Utilisations as they are stored: not yet divided by the configured ceilings."""
    of_statements = (CPU_SOURCE, CpuSource.STATEMENTS.value) in shown
    for (name, own), value in shown.items():
        if name == UTILISATION and not (own == CPU and of_statements):
            used = value * ceilings.ceilings.get(own, 1.0)
            limit = ceilings.limits.get(own)
            yield (own, used) if limit is None else (own + RATE, used * limit)
        elif name == CPU_PART and f"{CPU}:{own}" in PARTS:
            yield f"{CPU}:{own}", value
        elif name == CLOCKED:
            yield CLOCK, value
