"""The resource limits as an HTML table."""

from html import escape
from math import isfinite

from agent.assessment.snapshot import Load, Snapshot
from agent.export.capacity_sentences import resource_display_name
from agent.export.number_formats import (
    MIN_SHOWN_SHARE,
    format_number,
    format_seconds,
    whole_percent,
)
from agent.export.table_html import html_table
from agent.window.resource_utilisation import CpuSource
from models.capacity.resource_and_limit import ResourceLimit
from models.usl.peak_posterior import CredibleInterval

COLUMNS = (
    "resource",
    "used now",
    "a query takes",
    "full at",
    "90 % interval",
    "trust, or why unknown",
    "P(is the limit)",
)
CPU_SOURCES = {
    CpuSource.HOST: "the counters of this host",
    CpuSource.NODE_EXPORTER: "the node_exporter of the server's host",
    CpuSource.STATEMENTS: "the CPU time of statements, with what it misses added, over the vcpus",
}


def resource_limits_table(snapshot: Snapshot, now: float) -> str:
    """Return a table with a row for each resource, lowest limit first; empty if none is known."""
    capacity, load = snapshot.capacity(now), snapshot.current_load(now)
    if capacity is None or not capacity.resource_limits:
        return ""
    used = load.resources if load else {}
    ordered = sorted(
        capacity.resource_limits,
        key=lambda resource_limit: (resource_limit.x_max is None, resource_limit.x_max or 0.0),
    )
    rows = "".join(
        _row(limit, used.get(limit.resource), capacity.shares.get(limit.resource))
        for limit in ordered
    )
    table = html_table(f"resource limits of {snapshot.target}", COLUMNS, rows, "limits")
    return f"{table}{_cpu_source_line(load)}"


def _cpu_source_line(load: Load | None) -> str:
    """Return a line with the source of the CPU utilisation, and of the time a query takes of it."""
    if load is None or load.cpu_source is None:
        return ""
    source = escape(CPU_SOURCES[load.cpu_source])
    return f'<p class="grey">CPU from {source}, all processors counted as one.</p>'


def _row(resource_limit: ResourceLimit, used: float | None, share: float | None) -> str:
    interval = resource_limit.x_max_interval
    cells = (
        resource_display_name(resource_limit.resource),
        "" if used is None else whole_percent(used),
        "" if resource_limit.demand is None else format_seconds(resource_limit.demand),
        "" if resource_limit.x_max is None else f"{format_number(resource_limit.x_max)} /s",
        "" if interval is None else _interval_text(interval),
        _trust_cell(resource_limit),
        whole_percent(share) if share and share >= MIN_SHOWN_SHARE else "",
    )
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


def _interval_text(interval: CredibleInterval) -> str:
    low, high = (format_number(bound) for bound in interval)
    return f"{low} to {high}" if isfinite(interval.high) else f"at least {low}"


def _trust_cell(resource_limit: ResourceLimit) -> str:
    if resource_limit.x_max is None:
        return "; ".join(reason.sentence for reason in resource_limit.reasons)
    return resource_limit.trust.value.replace("_", " ")
