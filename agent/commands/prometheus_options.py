"""Options of commands that read a Prometheus: selectors, time range and login."""

import argparse
import re
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agent.commands.argument_types import MAX_SECONDS, duration, timestamp
from agent.commands.http_login_options import access_of, add_login_options, login_problem
from agent.config.durations import duration_in_seconds, duration_text
from agent.config.timestamps import local_zone_text, time_text
from agent.prometheus.client import Client
from agent.prometheus.exporters import NODE_EXPORTER, SERVICES
from agent.prometheus.fleet_targets import INSTANCE, FleetQuery
from agent.replay.recording_opener import SourceError
from agent.support.safe_output import print_error

MIN_SECONDS = 60.0
"""The shortest time range, s."""
MONTH = 30 * 86400.0
"""The time range of commands that read a whole fleet or history, unless another is given, s."""
DATE_DIGITS = 8
LABEL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MAX_PROCESSORS = 1024
TENANT_HEADER = "X-Scope-OrgID"
OPTIONS_OF_PROMETHEUS = (
    "selector",
    "by",
    "since",
    "until",
    "host_selector",
    "join",
    "no_hosts",
    "hosts_from",
    "vcpus",
    "tenant",
    "token_file",
    "user",
    "password_file",
    "ca",
    "timeout",
)


def add_prometheus_options(
    parser: argparse.ArgumentParser, since: float | None, title: str
) -> None:
    """Add the options in a group of that title; `since` is the default time range, s.

    Without one the command has other options for the time.
    Their defaults are the parsed arguments' `prometheus_defaults`.
    """
    group = parser.add_argument_group(title)
    group.add_argument(
        "--selector",
        default="",
        metavar="SELECTOR",
        help="the servers, by the labels of mysqld_exporter: '{job=\"mysql\"}' (default: all)",
    )
    group.add_argument(
        "--by",
        type=_label_names,
        default=(INSTANCE,),
        metavar="LABELS",
        help="the labels that name a server where `instance` does not, separated by commas: "
        "service_name (PMM), or cluster,instance (default: instance)",
    )
    if since is not None:
        _add_time_range(group, since)
    _add_host_options(group)
    group.add_argument(
        "--tenant", metavar="ID", help=f"the tenant of a Mimir, which is sent as {TENANT_HEADER}"
    )
    group.add_argument("--token-file", type=Path, metavar="FILE", help="a bearer token")
    add_login_options(group)
    parser.set_defaults(
        prometheus_defaults={name: parser.get_default(name) for name in OPTIONS_OF_PROMETHEUS}
    )


def _add_host_options(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--host-selector",
        default="",
        metavar="SELECTOR",
        help="the hosts, by the labels of node_exporter (default: all)",
    )
    group.add_argument(
        "--join",
        metavar="LABEL",
        help="the label whose value a server and its host share (default: the host in `instance`)",
    )
    group.add_argument("--no-hosts", action="store_true", help="leave the hosts' CPU out")
    group.add_argument(
        "--hosts-from",
        choices=[NODE_EXPORTER, *SERVICES],
        default=NODE_EXPORTER,
        help="the exporter that has the hosts' CPU; all but node_exporter are for Amazon RDS, "
        "whose instance is the first word of the server's host name (default: %(default)s)",
    )
    group.add_argument(
        "--vcpus",
        type=_processors,
        default=2.0,
        metavar="N",
        help="the number of processors of an RDS instance (default: 2)",
    )


def _add_time_range(group: "argparse._ArgumentGroup", since: float) -> None:
    text = f"2026-11-21T13:00 ({local_zone_text()})"
    group.add_argument(
        "--since",
        type=_since,
        default=timedelta(seconds=since),
        metavar="TIME",
        help=f"{text}, or 30d (before --until); default: {duration_text(since)}",
    )
    group.add_argument(
        "--until", type=timestamp, metavar="TIME", help=f"{text}, or 6h (ago); default: now"
    )


def refuse_prometheus_options(args: argparse.Namespace) -> None:
    """Raise `SourceError` where an option for a Prometheus is given with another source."""
    for name, default in args.prometheus_defaults.items():
        if getattr(args, name, default) != default:
            option = f"--{name.replace('_', '-')}"
            problem = f"{option} is for a Prometheus, and {args.source} is none"
            raise SourceError(f"{problem}; leave it out, or give the URL of one")


def client_of(args: argparse.Namespace, url: str) -> Client:
    """Return a client of that Prometheus; raises `AccessError` or `SourceError`."""
    if problem := login_problem(args):
        raise SourceError(problem)
    headers = {} if args.tenant is None else {TENANT_HEADER: args.tenant}
    return Client(replace(access_of(args, url), headers=headers), warn=print_error)


def query_of(args: argparse.Namespace, period: tuple[float, float] | None = None) -> FleetQuery:
    """Return the servers and the time range to read: a period, or that of --since and --until."""
    start, end = period or _time_range(args)
    return FleetQuery(
        start=start,
        end=end,
        selector=args.selector,
        by=args.by,
        host_selector=None if args.no_hosts else args.host_selector,
        join=args.join,
        service=SERVICES.get(args.hosts_from),
        vcpus=args.vcpus,
    )


def _time_range(args: argparse.Namespace) -> tuple[float, float]:
    """Return the range of --since and --until, Unix s; raises `SourceError` for a wrong one."""
    end = args.until if args.until is not None else float(int(time.time()))
    is_length = isinstance(args.since, timedelta)
    start = end - args.since.total_seconds() if is_length else args.since.timestamp()
    if not MIN_SECONDS <= end - start <= MAX_SECONDS:
        limits = f"{duration_text(MIN_SECONDS)} to {duration_text(MAX_SECONDS)}"
        problem = f"--since must be {limits} before --until"
        raise SourceError(f"{problem}; these are {time_text(start)} and {time_text(end)}")
    return start, end


def _label_names(text: str) -> tuple[str, ...]:
    """Parse names of labels that are separated by commas; each counts once."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if wrong := [name for name in names if not LABEL_NAME.fullmatch(name)]:
        problem = f"{wrong[0]!r} is not the name of a label"
        raise argparse.ArgumentTypeError(f"{problem}; write --by cluster,instance")
    return names


def _processors(text: str) -> float:
    try:
        count = float(text)
    except ValueError:
        count = 0.0
    if not 1 <= count <= MAX_PROCESSORS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MAX_PROCESSORS}")
    return count


def _since(text: str) -> timedelta | datetime:
    """Parse a duration before the end, or the time of the beginning.

    A number of eight digits or more is a time, as in `parse_time`.
    """
    if text.isdecimal() and len(text) >= DATE_DIGITS:
        return datetime.fromtimestamp(timestamp(text), UTC)
    try:
        duration_in_seconds(text)
    except ValueError:
        return datetime.fromtimestamp(timestamp(text), UTC)
    return timedelta(seconds=duration(MIN_SECONDS, MAX_SECONDS)(text))
