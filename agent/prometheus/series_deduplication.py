"""Series of one name: duplicates of one server's or host's, or those of several servers.

Prometheus in pairs, exporters in pairs and labels that change give one server several series, which
a label of the scrape distinguishes. So do servers that have one name.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from agent.prometheus.client import NAME, Labels, Series
from agent.prometheus.exporters import matcher
from agent.replay.recording_opener import SourceError
from models.arrays import Array

TimeSpan = tuple[float, float]
"""From when to when, Unix seconds."""
SERVERS_REMEDY = "name each with --by {labels}, or choose one with --selector"
HOSTS_REMEDY = "choose a host with --host-selector, or leave all out with --no-hosts"
MAX_START_DIFFERENCE = 60.0
"""Seconds by which the start of one server may differ for two Prometheus and their clocks."""
CERTAIN_SECONDS = 2.0
"""Seconds of uptime after which statements were counted later: it is read a moment before them, and
in whole seconds."""
MAX_OUT_OF_ORDER, MIN_OUT_OF_ORDER = 0.1, 3
"""The share of samples, and their number, from which two servers count: a counter that is set back
and a clock that is set make a few of one server's."""


class Statements(NamedTuple):
    """A server's statements so far at each uptime (s); arrays of shape (n,), in the order of time.

    `start` is when it was started (Unix seconds) by the clocks of its Prometheus.
    """

    start: Array
    uptime: Array
    counted: Array


def require_one_server(
    server: str,
    by: Sequence[str],
    uptimes: Sequence[Series],
    questions: Sequence[Series],
    server_ids: Sequence[Series],
) -> None:
    """Raise `SourceError` if these are of several servers: by starts, statements or server_ids.

    `by` are the labels that name the server.
    """
    for one, other in combinations(_longest_first(uptimes), 2):
        counted = (_statements(up, series_of_replica(questions, up.labels)) for up in (one, other))
        ids = (series_of_replica(server_ids, up.labels) for up in (one, other))
        if not _began_together(one, other) or _count_differently(*counted) or _have_own_ids(*ids):
            labels = ",".join([*by, *sorted(_distinguishing(one, other))])
            raise _several(server, "servers", one, other, SERVERS_REMEDY.format(labels=labels))


def require_one_host(host: str, idle: Sequence[Series]) -> None:
    """Raise `SourceError` if these counters of idle seconds are of several hosts."""
    for one, other in combinations(_longest_first(idle), 2):
        if not _began_together(one, other):
            raise _several(host, "hosts", one, other, HOSTS_REMEDY)


def _several(name: str, what: str, one: Series, other: Series, remedy: str) -> SourceError:
    found = f"{_own_labels_text(one, other)} and {_own_labels_text(other, one)}"
    return SourceError(f"{name} is the name of several {what}: {found}; {remedy}")


def _began_together(one: Series, other: Series) -> bool:
    """Return whether both count the same time since one start; True without a common time.

    They do where the value between two samples, or the start of either of these, is the same: the
    former while the time does not count, the latter where a gap hides a restart.
    """
    common = (other.at >= one.at.min(initial=math.inf)) & (
        other.at <= one.at.max(initial=-math.inf)
    )
    if not common.any():
        return True
    at, values = other.at[common], other.values[common]
    after = np.searchsorted(one.at, at)
    apart = [values - np.interp(at, one.at, one.values)]
    apart += [(at - values) - (one.at - one.values)[k] for k in (after, np.maximum(after - 1, 0))]
    return float(np.median(np.min(np.abs(apart), axis=0))) <= MAX_START_DIFFERENCE


def _statements(uptime: Series, questions: Series) -> Statements:
    """Return what was counted at the times at which both were read."""
    at, up, counted = np.intersect1d(uptime.at, questions.at, return_indices=True)
    return Statements(at - uptime.values[up], uptime.values[up], questions.values[counted])


def _count_differently(one: Statements, other: Statements) -> bool:
    """Return whether one had counted fewer statements than the other at a lower uptime.

    A counter only grows: of one server, the sample of higher uptime has the higher count, whichever
    Prometheus read it when. This needs no clock, and no guess of the rate between two samples.
    """
    compared = out_of_order = 0
    ours = _runs(one)
    began = np.array([float(np.median(run.start)) for run in ours])
    for run in _runs(other):
        apart = np.abs(began - np.median(run.start))
        for index in np.flatnonzero(apart <= MAX_START_DIFFERENCE):
            more, wrong = _compare_counts(ours[index], run)
            compared, out_of_order = compared + more, out_of_order + wrong
    return out_of_order >= max(MIN_OUT_OF_ORDER, MAX_OUT_OF_ORDER * compared)


def _compare_counts(one: Statements, other: Statements) -> tuple[int, int]:
    """Return how many samples of another run have neighbours in this one, and how many are wrong.

    Those had counted less than one at a lower uptime, or more than one at a higher.
    """
    before = np.searchsorted(one.uptime, other.uptime - CERTAIN_SECONDS, "right") - 1
    after = np.searchsorted(one.uptime, other.uptime + CERTAIN_SECONDS)
    counts = np.concatenate(([-np.inf], one.counted, [np.inf]))
    wrong = (counts[before + 1] > other.counted) | (counts[after + 1] < other.counted)
    has_neighbour = (before >= 0) | (after < len(one.counted))
    return int(np.sum(has_neighbour)), int(np.sum(wrong))


def _have_own_ids(one: Series, other: Series) -> bool:
    """Return whether each has a server_id of its own at one time; False if one is not known."""
    begin = max(series.at.min(initial=math.inf) for series in (one, other))
    end = min(series.at.max(initial=-math.inf) for series in (one, other))
    ours, theirs = (s.values[(s.at >= begin) & (s.at <= end)] for s in (one, other))
    return len(ours) > 0 < len(theirs) and not np.isin(ours, theirs).any()


def _runs(known: Statements) -> list[Statements]:
    """Return the runs of the server: the parts between its restarts."""
    restarted = (np.diff(known.uptime) < 0) | (np.abs(np.diff(known.start)) > MAX_START_DIFFERENCE)
    edges = np.flatnonzero(restarted) + 1
    parts = zip(*(np.split(column, edges) for column in known), strict=True)
    return [Statements(*part) for part in parts if len(part[0])]


def _own_labels_text(series: Series, other: Series) -> str:
    """Return the selector of the labels that distinguish a series from another one.

    A label that only the other one has is empty.
    """
    names = sorted(_distinguishing(series, other))
    return f"{{{','.join(matcher(name, series.labels.get(name, '')) for name in names)}}}"


def _distinguishing(one: Series, other: Series) -> set[str]:
    return {name for name, _ in replica_labels(one.labels) ^ replica_labels(other.labels)}


def labels_with_covered_spans(found: Iterable[Series]) -> Iterator[tuple[Labels, TimeSpan]]:
    """Yield the labels of each series, and from when to when those yielded before have samples.

    The one with the most samples comes first. Of replicas the others only have what is before and
    after its samples; a series that follows another one, as a label changed, is read as a whole.
    """
    begin, end = math.inf, -math.inf
    for series in _longest_first(found):
        yield series.labels, (begin, end)
        begin, end = min(begin, float(series.at[0])), max(end, float(series.at[-1]))


def is_in_span(at: float, span: TimeSpan) -> bool:
    """Return whether a time is in a span, both ends included."""
    return span[0] <= at <= span[1]


def series_of_replica(found: Sequence[Series], labels: Labels) -> Series:
    """Return the series of the same replica, an empty one if there is none."""
    for series in found:
        if replica_labels(series.labels) == replica_labels(labels):
            return series
    return Series(labels, np.empty(0), np.empty(0))


def replica_labels(labels: Labels) -> frozenset[tuple[str, str]]:
    """Return the labels that tell replicas apart: all but the metric's name, CPU and mode."""
    return frozenset((n, value) for n, value in labels.items() if n not in (NAME, "cpu", "mode"))


def _longest_first(found: Iterable[Series]) -> list[Series]:
    """Return the series with samples, the one with the most first, equals by their labels."""
    known = (series for series in found if len(series.at))
    return sorted(known, key=lambda series: (-len(series.at), sorted(series.labels.items())))
