"""`mysql-headroom analyze --prometheus URL`: how far each server of a fleet is from its limit."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from agent.commands.analyze_report import as_csv, as_table, by_danger
from agent.commands.progress import interruptible, progress_of
from agent.commands.replay_options import LONGEST, duration
from agent.config.moments import moment, zone_here
from agent.config.option import USAGE_ERROR
from agent.config.settings import FitSettings
from agent.export.snapshot_json import snapshots_object
from agent.printable import complain_of, json_text
from agent.prometheus.analysis import analyse
from agent.prometheus.client import Access, Client, PrometheusError
from agent.prometheus.targets import FleetQuery, find_targets
from agent.replay.sources import SourceError
from agent.snapshot import Snapshot

FAILED = 1
MONTH = 30 * 86400.0
LONGEST_WINDOW = 31 * 86400.0
"""Seconds; `fit.window` is at most this."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the sub-command."""
    parser = subparsers.add_parser(
        "analyze",
        help="say how far each server is from its limit, from the series of a Prometheus",
        description="Analyse every MySQL server that a Prometheus knows from mysqld_exporter, and "
        "its host from node_exporter, without an agent: what it can do, what ends that, how much "
        "is left, and how far to believe it.",
    )
    parser.add_argument("--prometheus", metavar="URL", required=True, help="http://HOST:9090")
    parser.add_argument(
        "--selector",
        default="",
        metavar="SELECTOR",
        help="which servers, by the labels of mysqld_exporter: '{job=\"mysql\"}' (default: all)",
    )
    parser.add_argument(
        "--since", type=_since, default=MONTH, metavar="DURATION", help="how long (default: 30d)"
    )
    until = f"2026-11-21T13:00 ({zone_here()}; or with a zone), or 6h (ago); default: now"
    parser.add_argument("--until", type=_moment, metavar="TIME", help=until)
    parser.add_argument(
        "--interval",
        type=duration(1.0, 600.0),
        metavar="DURATION",
        help="the width of an interval (default: 15s, or two samples)",
    )
    parser.add_argument("--format", choices=["table", "json", "csv"], default="table")
    _add_hosts(parser)
    _add_access(parser)
    parser.set_defaults(run=run)


def _add_hosts(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("hosts")
    group.add_argument(
        "--host-selector",
        default="",
        metavar="SELECTOR",
        help="which hosts, by the labels of node_exporter (default: all)",
    )
    group.add_argument(
        "--join",
        metavar="LABEL",
        help="the label whose value a server and its host share (default: the host in `instance`)",
    )
    group.add_argument("--no-hosts", action="store_true", help="leave node_exporter out")


def _add_access(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("access")
    group.add_argument("--user", metavar="NAME", help="of basic authentication")
    group.add_argument("--password-file", type=Path, metavar="FILE")
    group.add_argument("--token-file", type=Path, metavar="FILE", help="with a bearer token")
    group.add_argument("--ca", type=Path, metavar="FILE", help="the authority of its certificate")
    group.add_argument("--timeout", type=duration(0.5, 600.0), default=30.0, metavar="DURATION")


def run(args: argparse.Namespace) -> int:
    """0 when all were analysed, 1 when one could not be, 2 when it was asked wrongly."""
    if args.password_file and not args.user:
        complain_of("--password-file is of no use alone; name the user with --user")
        return USAGE_ERROR
    try:
        with interruptible():
            return _analyze(args)
    except PrometheusError as error:
        complain_of(error)
        return FAILED


def _analyze(args: argparse.Namespace) -> int:
    access = Access(
        args.prometheus, args.user, args.password_file, args.token_file, args.ca, args.timeout
    )
    end = args.until if args.until is not None else float(int(time.time()))
    query = FleetQuery(
        start=end - args.since,
        end=end,
        selector=args.selector,
        host_selector=None if args.no_hosts else args.host_selector,
        join=args.join,
    )
    client = Client(access)
    snapshots, failed = _snapshots(client, query, args.interval)
    if not snapshots and not failed:
        remedy = "check --selector, --since, and that mysqld_exporter is scraped"
        complain_of(f"{args.prometheus}: it knows no such server; {remedy}")
        return FAILED
    ordered = by_danger(snapshots, end)
    formats: dict[str, Callable[[], Iterator[str]]] = {
        "table": lambda: as_table(ordered, end),
        "csv": lambda: as_csv(ordered, end),
        "json": lambda: iter([json_text(snapshots_object(ordered, end))]),
    }
    for line in formats[args.format]():
        sys.stdout.write(line + "\n")
    return FAILED if failed else 0


def _snapshots(
    client: Client, query: FleetQuery, interval: float | None
) -> tuple[Sequence[Snapshot], int]:
    """What is known of each target, and how many could not be read: each of these is one line."""
    targets = find_targets(client, query)
    settings = FitSettings(window=min(query.end - query.start, LONGEST_WINDOW))
    show, snapshots, failed = progress_of("analysing targets"), [], 0
    for done, target in enumerate(targets):
        show(done, len(targets))
        try:
            snapshots.append(analyse(client, target, query, settings, interval))
        except PrometheusError as error:
            complain_of(f"{target.instance}: {error}")
            failed += 1
        except SourceError as error:
            complain_of(error)
            failed += 1
    return snapshots, failed


def _since(text: str) -> float:
    return duration(60.0, LONGEST)(text)


def _moment(text: str) -> float:
    try:
        return moment(text, time.time())
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
