"""Intervals of a target from the metrics that an agent has exported, as stored by a Prometheus.

Each scrape shows the latest interval and its end, so that nothing has to be computed: scrapes with
the same end show the same interval. The metrics are those of docs/metrics.md.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from agent.config.resources import ResourceSettings
from agent.prometheus.client import NAME, Client, Labels, Series, split_period
from agent.prometheus.exporters import matcher, selector, without_braces
from agent.prometheus.fleet_targets import FleetQuery
from agent.replay.recording_opener import SourceError
from agent.window.concurrency import ConcurrencySource
from agent.window.interval_buffer import MAX_OVERLAP
from agent.window.intervals import EXCLUDED, Interval
from agent.window.resource_utilisation import CLOCK, CPU, CPU_PARTS, CpuSource
from agent.window.time_split_inputs import RATE

PREFIX = "mysql_headroom_"
INTERVAL_END, THROUGHPUT = "interval_end_timestamp_seconds", "throughput_queries_per_second"
CONCURRENCY, THREADS = "concurrency", "concurrency_excluded_threads"
UTILISATION, CPU_PART = "resource_utilisation_ratio", "cpu_part_utilisation_ratio"
CLOCK_RATIO, CPU_SOURCE, TARGET_INFO = "cpu_clock_ratio", "cpu_source_info", "target_info"
OWN_LABELS: Mapping[str, tuple[str, ...]] = {
    INTERVAL_END: (),
    THROUGHPUT: (),
    CONCURRENCY: ("source",),
    THREADS: ("kind",),
    UTILISATION: ("resource", "device", "dimension"),
    CPU_PART: ("part",),
    CLOCK_RATIO: (),
    CPU_SOURCE: ("source",),
    TARGET_INFO: ("server_identity",),
}
"""The metrics that are read, and the labels that distinguish series of one target."""
AGENT_LABELS = ("job", "instance", "target")
"""The labels that name an agent's target in a Prometheus."""
TARGET_MATCHER = re.compile(r"(^|,)\s*target\s*[=!]")
"""Finds the label `target` in a selector."""
BUSY_DIMENSION = "busy"
"""The `dimension` label that is not part of a resource's name."""
CHUNK_SECONDS = 6 * 3600.0
"""Seconds of one request: 30 series scraped each second take some 20 MiB."""
MIN_SCRAPES_PER_INTERVAL = 2.0
"""Scrapes between two ends, however they are spaced, from which on no interval was missed."""

ScrapeValues = dict[tuple[str, str], float]
"""The values of one scrape, by metric and own labels; the labels are joined by colons."""


@dataclass(frozen=True, slots=True)
class OwnTarget:
    """A target's present configuration; the series have its name as a label."""

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
    """Return the `AGENT_LABELS` of the agent that has exported the target; None if none has.

    A selector with a `target` chooses that one: Prometheus may rename it when it scrapes the agent.
    Raises `SourceError` if several have.
    """
    chosen = without_braces(agent_selector)
    named = "" if TARGET_MATCHER.search(chosen) else matcher("target", target.name)
    known = client.series(selector(PREFIX + INTERVAL_END, named, chosen), query.start, query.end)
    found = sorted({tuple(labels.get(name, "") for name in AGENT_LABELS) for labels in known})
    agents = [dict(zip(AGENT_LABELS, values, strict=True)) for values in found]
    if len(agents) > 1:
        shown = ", ".join(
            f"{{{','.join(matcher(*pair) for pair in agent.items())}}}" for agent in agents[:10]
        )
        problem = f"{len(agents)} agents export this target: {shown}"
        raise SourceError(f"{target.name}: {problem}; choose one with --agent-selector")
    return agents[0] if agents else None


def exported_intervals(
    client: Client, target: OwnTarget, query: FleetQuery, agent: Labels
) -> Iterator[Interval]:
    """Yield the intervals that this agent has exported, oldest first, their ends in Unix seconds.

    Intervals of another server or of unknown width are left out.
    """
    last = -math.inf
    for span in split_period(query.start, query.end, CHUNK_SECONDS):
        scrapes = _scrapes(client, agent, span)
        by_end = {
            round(shown[INTERVAL_END, ""], 3): shown
            for shown in scrapes.values()
            if (INTERVAL_END, "") in shown and _is_of_server(target.server, shown)
        }
        width = _interval_width(sorted(by_end), sorted(scrapes), target.width)
        if width is None:
            continue
        for ended, shown in sorted(by_end.items()):
            if (THROUGHPUT, "") in shown and ended - width >= last - MAX_OVERLAP * width:
                last = ended
                yield _interval(target, shown, ended, width)


def _scrapes(client: Client, agent: Labels, span: tuple[float, float]) -> dict[float, ScrapeValues]:
    """Return the values of each scrape, by its time."""
    names = "|".join(PREFIX + name for name in OWN_LABELS)
    wanted = selector("", f'__name__=~"{names}"', *(matcher(n, v) for n, v in agent.items()))
    scrapes: dict[float, ScrapeValues] = {}
    for series in client.samples(wanted, *span):
        key = _series_key(series)
        for at, value in zip(series.at.tolist(), series.values.tolist(), strict=True):
            scrapes.setdefault(at, {})[key] = value
    return scrapes


def _series_key(series: Series) -> tuple[str, str]:
    name = series.labels[NAME].removeprefix(PREFIX)
    own = (series.labels.get(label, "") for label in OWN_LABELS[name])
    return name, ":".join(value for value in own if value not in ("", BUSY_DIMENSION))


def _is_of_server(server: str, shown: ScrapeValues) -> bool:
    """Return whether a scrape is of that server; True if it does not say."""
    known = [own for name, own in shown if name == TARGET_INFO and own]
    return not known or server in known


def _interval_width(ends: list[float], scraped: list[float], configured: float) -> float | None:
    """Return the width of the intervals with these ends, s; None if it is not known.

    If scrapes are twice as close as the ends, the width is the distance of the ends. Else some may
    not have been scraped, and the width is the one configured now, unless the ends are closer. A
    pair of Prometheus scrapes at uneven distances: the wide ones count.
    """
    if len(ends) < 2:
        return None
    spacing, scrape_spacing = (
        float(np.quantile(np.diff(ends), 0.1)),
        float(np.quantile(np.diff(scraped), 0.9)),
    )
    if spacing >= MIN_SCRAPES_PER_INTERVAL * scrape_spacing:
        return round(spacing, 1)
    return configured if configured <= spacing * (1 + MAX_OVERLAP) else None


def _interval(target: OwnTarget, shown: ScrapeValues, ended: float, width: float) -> Interval:
    """Return the interval with the exported values; the rest is not known."""
    excluded = {kind: value for (name, kind), value in shown.items() if name == THREADS}
    counted = shown.get((CONCURRENCY, ConcurrencySource.THREADS_RUNNING.value), math.nan)
    return Interval(
        end=ended,
        seconds=width,
        throughput=shown[THROUGHPUT, ""],
        statement_time=shown.get((CONCURRENCY, ConcurrencySource.STATEMENT_TIME.value), math.nan),
        threads_running=counted + sum(excluded.values()),
        thread_samples=width / target.sampling,
        **{f"excluded_{kind}": excluded.get(kind, math.nan) for kind in EXCLUDED},
        resources=dict(_stored_utilisations(target.ceilings, shown)),
    )


def _stored_utilisations(
    ceilings: ResourceSettings, shown: ScrapeValues
) -> Iterator[tuple[str, float]]:
    """Yield the utilisations as they are stored: not yet divided by the configured ceilings."""
    of_statements = (CPU_SOURCE, CpuSource.STATEMENTS.value) in shown
    for (name, own), value in shown.items():
        if name == UTILISATION and not (own == CPU and of_statements):
            used = value * ceilings.ceilings.get(own, 1.0)
            limit = ceilings.limits.get(own)
            yield (own, used) if limit is None else (own + RATE, used * limit)
        elif name == CPU_PART and f"{CPU}:{own}" in CPU_PARTS:
            yield f"{CPU}:{own}", value
        elif name == CLOCK_RATIO:
            yield CLOCK, value
