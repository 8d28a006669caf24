"""`mysql-headroom analyze --prometheus URL`: how far each server of a fleet is from its limit."""

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from agent.assessment.hourly_load import KEPT_HOURS
from agent.assessment.snapshot import Snapshot
from agent.commands.analyze_report import as_csv, as_table, least_headroom_first
from agent.commands.argument_types import duration
from agent.commands.exit_codes import FAILED, USAGE_ERROR
from agent.commands.interruption import interruptible
from agent.commands.plot_requirements import matplotlib_problem, plot_path_problem
from agent.commands.progress import progress_of
from agent.commands.prometheus_options import MONTH, add_prometheus_options, client_of, query_of
from agent.config.settings import MAX_WINDOW, FitSettings
from agent.export.snapshot_json import snapshots_in_parts
from agent.prometheus.client import Client, MissingSeriesError
from agent.prometheus.fleet_targets import (
    FleetQuery,
    FleetTarget,
    find_targets,
    missing_hosts,
    names_text,
)
from agent.prometheus.host_used_by_others import USED_BY_OTHERS
from agent.prometheus.target_assessment import Analysis, analyse
from agent.replay.recording_opener import SourceError
from agent.support.http_client import AccessError
from agent.support.safe_output import flush_output, json_text, print_error, write_output
from models.forecast.hourly_means import HOUR_SECONDS

CONCURRENT_TARGETS = 2
"""Targets analysed concurrently: while Prometheus answers for one, another is computed."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the sub-command."""
    parser = subparsers.add_parser(
        "analyze",
        help="show how far each server is from its limit, from the series in a Prometheus",
        description="Analyse every MySQL server of which a Prometheus has mysqld_exporter's "
        "series (and node_exporter's of its host), without an agent: capacity, "
        "limit, headroom and trust.",
    )
    parser.add_argument("--prometheus", metavar="URL", required=True, help="http://HOST:9090")
    parser.add_argument(
        "--interval",
        type=duration(1.0, 600.0),
        metavar="DURATION",
        help="the width of an interval (default: 15s, or what holds two samples)",
    )
    parser.add_argument(
        "--format", choices=["table", "json", "csv"], default="table", help="default: table"
    )
    parser.add_argument(
        "--plot", metavar="FILE", help="draw the servers' loads and capacities into a .png or .svg"
    )
    add_prometheus_options(parser, MONTH, "what is read, and how")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Return 0 if all were analysed, 1 if one could not be, 2 for a usage error."""
    with interruptible():
        return _analyze(args)


def _analyze(args: argparse.Namespace) -> int:
    if args.plot is not None and (problem := matplotlib_problem() or plot_path_problem(args.plot)):
        print_error(problem)
        return USAGE_ERROR
    client, query = client_of(args, args.prometheus), _without_unused_time(query_of(args))
    targets = find_targets(client, query)
    if not targets:
        remedy = "check --selector, --by, --since, and that mysqld_exporter is scraped"
        print_error(f"{args.prometheus}: it has no such server; {remedy}")
        return FAILED
    analysed, end = _analysed(client, query, args.interval, targets), query.end
    if args.format == "json":
        snapshots = _print_json(analysed, end)
    else:
        snapshots = least_headroom_first(analysed, end)
        lines = {"table": as_table, "csv": as_csv}[args.format](snapshots, end)
        write_output(line + "\n" for line in lines)
    if args.plot is not None and snapshots and not _draw_plot(args.plot, snapshots, end):
        return FAILED
    return FAILED if len(snapshots) < len(targets) else 0


def _print_json(analysed: Iterator[Snapshot], now: float) -> list[Snapshot]:
    """Print each target as soon as it is analysed: what is there survives an interruption."""
    snapshots: list[Snapshot] = []

    def kept() -> Iterator[Snapshot]:
        for snapshot in analysed:
            snapshots.append(snapshot)
            yield snapshot

    for part in snapshots_in_parts(kept(), now, json_text):
        write_output([part])
        flush_output()
    write_output(["\n"])
    return snapshots


def _without_unused_time(query: FleetQuery) -> FleetQuery:
    """Return the query without the time before the days of a forecast, which are the longest used.

    Scrapes, hosts and labels of before would count as those of the present server.
    """
    return replace(query, start=max(query.start, query.end - KEPT_HOURS * HOUR_SECONDS))


def _draw_plot(path: str, snapshots: Sequence[Snapshot], now: float) -> bool:
    """Draw the fleet and return whether that succeeded; a failure is reported on one line."""
    from agent.commands.analyze_plot import plot_fleet

    try:
        plot_fleet(path, least_headroom_first(snapshots, now), now)
    except OSError as error:
        print_error(f"{path}: cannot be written ({error.strerror or error})")
        return False
    return True


def _analysed(
    client: Client, query: FleetQuery, interval: float | None, targets: Sequence[FleetTarget]
) -> Iterator[Snapshot]:
    """Analyse each target; yield the snapshots, and report each that fails on one line."""
    for line in missing_hosts(targets, query):
        print_error(line)
    settings = FitSettings(window=min(query.end - query.start, MAX_WINDOW))
    show_progress, beside_others = progress_of("analysing targets"), list[str]()

    def analyse_or_error(target: FleetTarget) -> Analysis | Exception:
        try:
            return analyse(client, target, query, settings, interval)
        except AccessError as error:
            return AccessError(f"{target.name}: {error}")
        except (SourceError, MissingSeriesError) as error:
            return error

    executor = ThreadPoolExecutor(CONCURRENT_TARGETS)
    try:
        for done, found in enumerate(executor.map(analyse_or_error, targets)):
            show_progress(done, len(targets))
            if isinstance(found, Analysis):
                beside_others += [found.snapshot.target] if found.is_beside_others else []
                yield found.snapshot
            else:
                print_error(found)
    finally:
        executor.shutdown(cancel_futures=True)  # if nobody reads the output any more
    if beside_others:
        print_error(f"{names_text(beside_others)}: {USED_BY_OTHERS}")
