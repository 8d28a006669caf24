"""The servers in a Prometheus: found by a selector, and read as recordings."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from agent.prometheus.client import NAME, Client, Labels, Series, chunks
from agent.prometheus.exporters import (
    BUSY_MODES,
    IDLE_MODE,
    MYSQLD,
    QUESTIONS,
    STATEMENT_TIME,
    Utilisation,
    matcher,
    selector,
    without_braces,
)
from agent.prometheus.replicas import (
    Span,
    in_turn,
    is_within,
    of_replica,
    replica_labels,
    require_one_host,
    require_one_server,
)
from agent.replay.recorded_samples import CPUS, Reading, RecordedCollectors
from agent.window.interval_buffer import max_gap
from collectors.node_exporter import CPU

INSTANCE = "instance"
CHUNK_SAMPLES = 5000
"""Samples of the slowest source in one response, or steps: below Prometheus' maximum of 11,000."""
HOUR, MEASURED_SAMPLES = 3600.0, 10
"""Seconds from which the distance between samples is measured, and how many of the last count."""
MAX_LOST_SHARE = 0.05
"""The share of the hours with samples that may be farther apart than intervals hold."""
DEFAULT_SAMPLING = 60.0
"""Seconds between two samples, if too few are in that time to measure it."""
MAX_NAMED = 10
"""Servers or hosts that are named in one message."""
HOST_BUSY = "host_cpu_busy_s"
UPTIME = "mysql_global_status_uptime"


@dataclass(frozen=True, slots=True)
class FleetQuery:
    """Selects servers, and the hosts that belong to them; times in Unix seconds."""

    start: float
    end: float
    selector: str = ""
    host_selector: str | None = ""
    """Selector of node_exporter's series; None: hosts are left out."""
    join: str | None = None
    """The label whose value a server and its host share; None: the host in `instance`."""
    service: Utilisation | None = None
    """The source of the CPU of a managed service's instances; None: node_exporter."""
    vcpus: float = 2.0
    """The number of processors of such an instance."""

    def join_key(self, labels: Labels) -> str:
        """Return what a server shares with its host; an instance's name begins the host's."""
        if self.join:
            return labels.get(self.join, "")
        host = host_of(labels.get(INSTANCE, ""))
        return host.partition(".")[0] if self.service else host


@dataclass(frozen=True, slots=True)
class FleetTarget:
    """One server: its instance, and those of the hosts that match."""

    instance: str
    hosts: tuple[str, ...]

    @property
    def host(self) -> str | None:
        """Its host; None if several match, as none can be chosen."""
        return self.hosts[0] if len(self.hosts) == 1 else None


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


def find_targets(client: Client, query: FleetQuery) -> list[FleetTarget]:
    """Return the servers of the selector, in the order of their names."""
    span = (query.start, query.end)
    servers = client.series(selector(QUESTIONS, without_braces(query.selector)), *span)
    pairs = ((labels.get(INSTANCE, ""), query.join_key(labels)) for labels in servers)
    keys, hosts = _sets_by_key(pairs), _sets_by_key(_hosts(client, query))
    hosts.pop("", None)  # a host without such a label matches no server
    keys.pop("", None)
    return [
        FleetTarget(instance, tuple(sorted(set().union(*(hosts.get(key, ()) for key in own)))))
        for instance, own in sorted(keys.items())
    ]


def missing_hosts(targets: Sequence[FleetTarget], query: FleetQuery) -> Iterator[str]:
    """Yield a line for each server of which several hosts match, and one for those without any."""
    if query.host_selector is None:
        return
    for target in targets:
        if len(target.hosts) > 1:
            problem = f"several hosts match: {names_text(target.hosts)}"
            yield f"{target.instance}: {problem}; choose one with --host-selector"
    if alone := [target.instance for target in targets if not target.hosts]:
        problem = f"no host matches {len(alone)} of {len(targets)} servers"
        remedy = "match them with --join LABEL, or leave all hosts out with --no-hosts"
        yield f"{names_text(alone)}: {problem}, whose CPU is therefore not known; {remedy}"


def names_text(names: Sequence[str]) -> str:
    """Return the names, of many the first ones."""
    return ", ".join(names[:MAX_NAMED]) + (", …" if len(names) > MAX_NAMED else "")


def _sets_by_key(pairs: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for key, value in pairs:
        found.setdefault(key, set()).add(value)
    return found


def _hosts(client: Client, query: FleetQuery) -> Iterator[tuple[str, str]]:
    """Yield the key that each host shares with its server, and the host's name."""
    if query.host_selector is None:
        return
    service, chosen = query.service, without_braces(query.host_selector)
    if service is None:
        wanted = selector(CPU, IDLE_MODE, 'cpu="0"', chosen)
    else:
        wanted = selector(service.metric, *service.matchers, chosen)
    for labels in client.series(wanted, query.start, query.end):
        name = labels.get(service.identifier if service else INSTANCE, "")
        yield name if service and not query.join else query.join_key(labels), name


def host_of(instance: str) -> str:
    """Return the host of `HOST:PORT`, or the whole if there is no port; IPv6 without brackets."""
    host, _, port = instance.rpartition(":")
    has_port = host and port.isdigit() and (":" not in host or host.endswith("]"))
    return (host if has_port else instance).strip("[]")


def measure_samplings(client: Client, target: FleetTarget, query: FleetQuery) -> list[float]:
    """Return the seconds between samples of the server and of its host's CPU, if any.

    The first are those at the end; the second, if any, those of the earlier samples that would be
    gaps there. The slowest source counts: an interval without a sample of the CPU says nothing
    about a limit.
    """
    sources = [_server_selector(name, target, query) for name in (QUESTIONS, STATEMENT_TIME)]
    if target.host is not None:
        sources.append(_cpu_selector(target.host, query))
    status, *others = (_spacing_before(client, source, query.end, query) for source in sources)
    latest = max([status or DEFAULT_SAMPLING, *(each or 0.0 for each in others)])
    hours = [(source, _end_of_sparse_hour(client, source, query)) for source in sources]
    sparse = [_spacing_before(client, source, end, query) for source, end in hours if end]
    earlier = max((each or 0.0 for each in sparse), default=0.0)
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
    """Return the median distance of a series' last samples, s; None if fewer than three."""
    longest = max((series.at for series in found), key=len, default=np.empty(0))
    if len(longest) < 3:
        return None
    return max(round(float(np.median(np.diff(longest[-MEASURED_SAMPLES:]))), 1), 0.1)


def readings(
    client: Client, target: FleetTarget, query: FleetQuery, sampling: float
) -> Iterator[Reading]:
    """Yield the readings of a server and its host in the order of time, with a part in memory."""
    collectors = RecordedCollectors()
    cpu_until, busy = -math.inf, BusyTime()
    for start, end in chunks(query.start, query.end, CHUNK_SAMPLES * sampling):
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
    client: Client, target: FleetTarget, query: FleetQuery, span: Span
) -> dict[float, dict[str, float]]:
    """Return the columns by time; a metric of another scrape has its own times.

    It has other labels, as where each job scrapes some of an exporter's collectors. Raises
    `SourceError` if several servers have the instance.
    """
    columns = {QUESTIONS: "questions", **MYSQLD}
    names = "|".join(columns)
    found = client.samples(_server_selector("", target, query, f'__name__=~"{names}"'), *span)
    questions = _of_metric(found, QUESTIONS)
    require_one_server(target.instance, _of_metric(found, UPTIME), questions)
    of_status = list(in_turn(questions))
    scraped_together = {replica_labels(labels) for labels, _ in of_status}
    by_time: dict[float, dict[str, float]] = {}
    for name, column in columns.items():
        own = _of_metric(found, name)
        apart = (one for one in own if replica_labels(one.labels) not in scraped_together)
        for labels, covered in (*of_status, *in_turn(apart)):
            for at, value in _by_time(of_replica(own, labels)).items():
                if not is_within(at, covered):
                    by_time.setdefault(at, {})[column] = value
    return by_time


def _of_metric(found: Iterable[Series], name: str) -> list[Series]:
    return [series for series in found if series.labels.get(NAME) == name]


def _host_cpu(
    client: Client, host: str, query: FleetQuery, span: Span, step: float
) -> Iterator[tuple[float, dict[str, float]]]:
    """Yield the host's CPU time at the times of its samples, which a sum over CPUs does not keep.

    The times are read from the samples themselves: Prometheus takes twenty times as long for
    `timestamp()` at each step. Raises `SourceError` if several hosts have the instance.
    """
    idle = client.samples(_cpu_selector(host, query), *span)
    if not any(len(series.at) for series in idle):
        return
    require_one_host(host, idle)
    matchers = _host_matchers(host, query)
    busy, counted = (
        client.range(f"{function} without (cpu, mode) ({selected})", *span, step)
        for function, selected in (
            ("sum", selector(CPU, BUSY_MODES, *matchers)),
            ("count", selector(CPU, IDLE_MODE, *matchers)),
        )
    )
    for labels, covered in in_turn(idle):
        times = of_replica(idle, labels).at
        used, cpus = (_by_time(of_replica(found, labels)) for found in (busy, counted))
        latest = np.searchsorted(times, list(used), side="right") - 1
        for (step_at, value), index in zip(used.items(), latest.tolist(), strict=True):
            at = float(times[index])
            if index >= 0 and not is_within(at, covered):
                yield at, {HOST_BUSY: value, CPUS: cpus.get(step_at, math.nan)}


def _service_cpu(
    client: Client, host: str, query: FleetQuery, span: Span, busy: BusyTime
) -> Iterator[tuple[float, dict[str, float]]]:
    """Yield the CPU time of a service's instance, from its utilisation; `busy` is that so far."""
    if query.service is None:
        return
    found = client.samples(_cpu_selector(host, query), *span)
    utilisations = {
        at: per_cent
        for labels, covered in in_turn(found)
        for at, per_cent in _by_time(of_replica(found, labels)).items()
        if not is_within(at, covered)
    }
    for at, per_cent in sorted(utilisations.items()):
        used = busy.advance(at, per_cent / 100 * query.vcpus)
        yield at, {HOST_BUSY: used, CPUS: query.vcpus}


def _cpu_selector(host: str, query: FleetQuery) -> str:
    """Return the selector of the series that shows when the CPU of a host or service was read."""
    matchers = _host_matchers(host, query)
    if query.service is None:
        return selector(CPU, 'cpu="0"', IDLE_MODE, *matchers)
    return selector(query.service.metric, *query.service.matchers, *matchers)


def _host_matchers(host: str, query: FleetQuery) -> tuple[str, str]:
    label = query.service.identifier if query.service else INSTANCE
    return matcher(label, host), without_braces(query.host_selector or "")


def _by_time(series: Series) -> dict[float, float]:
    return dict(zip(series.at.tolist(), series.values.tolist(), strict=True))


def _server_selector(metric: str, target: FleetTarget, query: FleetQuery, *more: str) -> str:
    return selector(
        metric, *more, matcher(INSTANCE, target.instance), without_braces(query.selector)
    )
