"""The servers in a Prometheus, each read as a recording."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from agent.prometheus.client import NAME, Client, MissingSeriesError, Series, split_period
from agent.prometheus.exporters import (
    BUSY_MODES,
    IDLE_MODE,
    MYSQLD,
    PORT,
    QUESTIONS,
    SERVER_ID,
    STATEMENT_TIME,
    UPTIME,
    selector,
    without_braces,
)
from agent.prometheus.fleet_targets import (
    FleetQuery,
    FleetTarget,
    IdentifyingLabels,
    identity_matchers,
    identity_text,
)
from agent.prometheus.series_deduplication import (
    TimeSpan,
    is_in_span,
    labels_with_covered_spans,
    replica_labels,
    require_one_host,
    require_one_server,
    series_of_replica,
)
from agent.replay.recorded_samples import (
    CPUS,
    HOST_BUSY,
    REQUIRED_COLUMNS,
    Reading,
    RecordedCollectors,
)
from agent.window.interval_buffer import max_gap
from collectors.node_exporter import CPU

CHUNK_SAMPLES = 5000
"""Samples of the slowest source in one response, or steps: below Prometheus' maximum of 11,000."""
HOUR, MEASURED_SAMPLES = 3600.0, 10
"""Seconds from which the distance between samples is measured, and how many of the last count."""
MAX_LOST_SHARE = 0.05
"""The share of the hours with samples that may be farther apart than intervals hold."""
DEFAULT_SAMPLING = 60.0
"""Seconds between two samples, if too few are in that time to measure it."""
MAX_CLOCK_DIFFERENCE = 300.0
"""Seconds by which the clocks of a Prometheus and of this machine may differ, and starts with them:
without NTP a clock drifts by some seconds a day."""


@dataclass(slots=True)
class BusyTime:
    """CPU time (s) summed up from utilisations, each the mean since the previous sample."""

    at: float = math.nan
    total: float = 0.0

    def advance(self, at: float, processors: float) -> float:
        """Add the time since the previous sample, with `processors` in use; return the total."""
        if at > self.at:
            self.total += processors * (at - self.at)
        self.at = at
        return self.total


class ServerSeen(NamedTuple):
    """A server's start and the time of reading it (Unix seconds), and its port."""

    started: float
    read_at: float
    port: float | None
    """Its own `port`, whatever the address by which it is reached; None: not known."""

    def is_another_than(self, present: "ServerSeen") -> bool:
        """Return whether it cannot be the server that is present, which ran when it was read."""
        apart = abs(self.started - present.started) > MAX_CLOCK_DIFFERENCE
        ports = {self.port, present.port} - {None}
        return self.read_at > present.started and (apart or len(ports) > 1)


def measure_samplings(client: Client, target: FleetTarget, query: FleetQuery) -> list[float]:
    """Return the seconds between samples of the server and of its host's CPU, if any.

    The first are those at the end; the second, if any, those of the earlier samples that would be
    gaps there, which are the first where the server was not read at the end. The slowest source
    counts: an interval without a sample of the CPU says nothing about a limit.
    """
    sources = [_server_selector(name, target, query) for name in (QUESTIONS, STATEMENT_TIME)]
    if target.host is not None:
        sources.append(_cpu_selector(target.host, query))
    at_end = [_spacing_before(client, source, query.end, query) for source in sources]
    hours = [(source, _end_of_sparse_hour(client, source, query)) for source in sources]
    sparse = [_spacing_before(client, source, end, query) for source, end in hours if end]
    earlier = max((each or 0.0 for each in sparse), default=0.0)
    if at_end[0] is None:
        return [earlier or DEFAULT_SAMPLING]
    latest = max(each or 0.0 for each in at_end)
    return [latest, earlier] if earlier > max_gap(latest) else [latest]


def widest_sampling(samplings: Sequence[float], requested: float | None) -> float:
    """Return the farthest of these distances that intervals of the requested width (s) hold.

    None holds any; if it holds none, the least is returned.
    """
    held = [each for each in samplings if requested is None or requested >= 2 * each]
    return max(held, default=min(samplings))


def _spacing_before(client: Client, source: str, end: float, query: FleetQuery) -> float | None:
    """Return the distance of a source's samples in the hour before `end`, s."""
    return _sample_spacing(client.samples(source, max(query.start, end - HOUR), end))


def _end_of_sparse_hour(client: Client, source: str, query: FleetQuery) -> float | None:
    """Return the end of an hour in which a source has few samples; None if there is no whole one.

    `MAX_LOST_SHARE` of the hours have fewer.
    """
    expression = f"max(count_over_time({source}[{HOUR:g}s]))"
    for counts in client.range(expression, query.start, query.end, HOUR):
        if hours := len(counts.at):
            return float(counts.at[np.argsort(counts.values)[int(MAX_LOST_SHARE * hours)]])
    return None


def _sample_spacing(found: Sequence[Series]) -> float | None:
    """Return the median distance of a series' last samples, s; None if fewer than three.

    It is half of that over two: distances alternate where two Prometheus write into one series.
    """
    longest = max((series.at for series in found), key=len, default=np.empty(0))
    if len(longest) < 3:
        return None
    last = longest[-MEASURED_SAMPLES:]
    return max(round(float(np.median(last[2:] - last[:-2])) / 2, 1), 0.1)


def require_status_series(client: Client, target: FleetTarget, query: FleetQuery) -> None:
    """Raise `MissingSeriesError` if one is missing in that time without which is no interval.

    Scrape configurations often keep only some of an exporter's series.
    """
    required = [name for name, column in MYSQLD.items() if column in REQUIRED_COLUMNS]
    wanted = _server_selector("", target, query, f'__name__=~"{"|".join(required)}"')
    found = {labels.get(NAME) for labels in client.series(wanted, query.start, query.end)}
    if missing := [name for name in required if name not in found]:
        problem = f"Prometheus has no {' and no '.join(missing)} of it"
        remedy = "have mysqld_exporter's scrape keep them"
        raise MissingSeriesError(f"{target.name}: {problem}; {remedy}")


def last_seen(client: Client, target: FleetTarget, query: FleetQuery) -> ServerSeen | None:
    """Return what the last sample shows of a server; None without one in that time's last hour."""
    source = _server_selector("", target, query, f'__name__=~"{UPTIME}|{PORT}"')
    found = client.samples(source, max(query.start, query.end - HOUR), query.end)
    uptimes, ports = (
        [(float(s.at[-1]), float(s.values[-1])) for s in _of_metric(found, name) if len(s.at)]
        for name in (UPTIME, PORT)
    )
    if not uptimes:
        return None
    at, uptime = max(uptimes)
    return ServerSeen(at - uptime, at, max(ports)[1] if ports else None)


def readings(
    client: Client, target: FleetTarget, query: FleetQuery, sampling: float
) -> Iterator[Reading]:
    """Yield the readings of a server and its host in the order of time, with a part in memory."""
    collectors = RecordedCollectors()
    cpu_until, busy = -math.inf, BusyTime()
    for start, end in split_period(query.start, query.end, CHUNK_SAMPLES * sampling):
        by_time = _status_columns(client, target, query, (start, end))
        if target.host is not None:
            if query.service is None:
                cpu = _host_cpu(client, target.host, query, (start, end), sampling)
            else:
                cpu = _service_cpu(client, target.host, query, (start, end), busy)
            for at, known in sorted(cpu, key=itemgetter(0)):
                if at > cpu_until:
                    cpu_until = at
                    by_time.setdefault(at, {}).update(known)
        for at in sorted(by_time):
            yield collectors.reading(at, by_time[at])


def _status_columns(
    client: Client, target: FleetTarget, query: FleetQuery, span: TimeSpan
) -> dict[float, dict[str, float]]:
    """Return the columns by time; a metric of another scrape has its own times.

    It has other labels, as where each job scrapes some of an exporter's collectors. Raises
    `SourceError` if several servers have the name.
    """
    names = "|".join([*MYSQLD, SERVER_ID])
    found = client.samples(_server_selector("", target, query, f'__name__=~"{names}"'), *span)
    counters = (_of_metric(found, name) for name in (UPTIME, QUESTIONS, SERVER_ID))
    require_one_server(target.name, query.by, *counters)
    of_status = list(labels_with_covered_spans(_of_metric(found, QUESTIONS)))
    scraped_together = {replica_labels(labels) for labels, _ in of_status}
    by_time: dict[float, dict[str, float]] = {}
    for name, column in MYSQLD.items():
        own = _of_metric(found, name)
        apart = (one for one in own if replica_labels(one.labels) not in scraped_together)
        for labels, covered in (*of_status, *labels_with_covered_spans(apart)):
            for at, value in _by_time(series_of_replica(own, labels)).items():
                if not is_in_span(at, covered):
                    by_time.setdefault(at, {})[column] = value
    return by_time


def _of_metric(found: Iterable[Series], name: str) -> list[Series]:
    return [series for series in found if series.labels.get(NAME) == name]


def _host_cpu(
    client: Client, host: IdentifyingLabels, query: FleetQuery, span: TimeSpan, step: float
) -> Iterator[tuple[float, dict[str, float]]]:
    """Yield the host's CPU time at the times of its samples, which a sum over CPUs does not keep.

    The times are read from the samples themselves: Prometheus takes twenty times as long for
    `timestamp()` at each step. Raises `SourceError` if several hosts have the name.
    """
    idle = client.samples(_cpu_selector(host, query), *span)
    if not any(len(series.at) for series in idle):
        return
    require_one_host(identity_text(host), idle)
    matchers = _host_matchers(host, query)
    busy, counted = (
        client.range(f"{function} without (cpu, mode) ({selected})", *span, step)
        for function, selected in (
            ("sum", selector(CPU, BUSY_MODES, *matchers)),
            ("count", selector(CPU, IDLE_MODE, *matchers)),
        )
    )
    for labels, covered in labels_with_covered_spans(idle):
        times = series_of_replica(idle, labels).at
        used, cpus = (_by_time(series_of_replica(found, labels)) for found in (busy, counted))
        latest = np.searchsorted(times, list(used), side="right") - 1
        for (step_at, value), index in zip(used.items(), latest.tolist(), strict=True):
            at = float(times[index])
            if index >= 0 and not is_in_span(at, covered):
                yield at, {HOST_BUSY: value, CPUS: cpus.get(step_at, math.nan)}


def _service_cpu(
    client: Client, host: IdentifyingLabels, query: FleetQuery, span: TimeSpan, busy: BusyTime
) -> Iterator[tuple[float, dict[str, float]]]:
    """Yield the CPU time of a service's instance, from its utilisation; `busy` is that so far."""
    if query.service is None:
        return
    found = client.samples(_cpu_selector(host, query), *span)
    utilisations = {
        at: per_cent
        for labels, covered in labels_with_covered_spans(found)
        for at, per_cent in _by_time(series_of_replica(found, labels)).items()
        if not is_in_span(at, covered)
    }
    for at, per_cent in sorted(utilisations.items()):
        used = busy.advance(at, per_cent / 100 * query.vcpus)
        yield at, {HOST_BUSY: used, CPUS: query.vcpus}


def _cpu_selector(host: IdentifyingLabels, query: FleetQuery) -> str:
    """Return the selector of the series that shows when the CPU of a host or service was read."""
    matchers = _host_matchers(host, query)
    if query.service is None:
        return selector(CPU, 'cpu="0"', IDLE_MODE, *matchers)
    return selector(query.service.metric, *query.service.matchers, *matchers)


def _host_matchers(host: IdentifyingLabels, query: FleetQuery) -> tuple[str, ...]:
    return *identity_matchers(host), without_braces(query.host_selector or "")


def _by_time(series: Series) -> dict[float, float]:
    return dict(zip(series.at.tolist(), series.values.tolist(), strict=True))


def _server_selector(metric: str, target: FleetTarget, query: FleetQuery, *more: str) -> str:
    identity = identity_matchers(target.identity)
    return selector(metric, *more, *identity, without_braces(query.selector))
