"""`mysql-headroom backfill`: weeks of a target's history from a Prometheus, beside the agent."""

import argparse
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from agent.assessment.hourly_load import HourlyLoad
from agent.commands.progress import interruptible
from agent.commands.prometheus_options import add_prometheus_options, client_of, query_of
from agent.commands.replay_options import target_of
from agent.config.cli_options import USAGE_ERROR, add_config_option, complain
from agent.config.durations import written
from agent.config.loader import ConfigError, load
from agent.config.settings import Target
from agent.history.backfill import Backfill
from agent.history.database import open_to_write
from agent.history.failures import StoreError, as_store_error
from agent.history.server_identity import server_identity
from agent.prometheus.client import Client
from agent.prometheus.source import chosen
from agent.prometheus.targets import FleetQuery, find_targets, host_of, readings, sampling_of
from agent.replay.history_fill import fill
from agent.replay.sources import SourceError, interval_for
from agent.support.escaping import complain_of, say_line
from agent.support.http_access import AccessError
from collectors.base import CollectorError
from collectors.connection import Connection

FAILED = 1
MONTH = 30 * 86400.0


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the sub-command."""
    parser = subparsers.add_parser(
        "backfill",
        help="fill an agent's history with what a Prometheus knows of a target",
        description="Read mysqld_exporter's and node_exporter's series of one target from a "
        "Prometheus, and add their intervals to the agent's history where it has none, so that "
        "its window reaches back from its first day. A running agent is not disturbed.",
    )
    parser.add_argument("--prometheus", metavar="URL", required=True, help="http://HOST:9090")
    add_config_option(parser)
    parser.add_argument("--target", metavar="NAME", help="the target in it, if there are several")
    parser.add_argument(
        "--instance",
        metavar="INSTANCE",
        help="the target's `instance` in Prometheus (default: that of its host)",
    )
    parser.add_argument(
        "--file",
        metavar="DB",
        type=Path,
        help="the history (default: history.path of the configuration)",
    )
    parser.add_argument(
        "--server", metavar="ID", help="the server's server_uuid (default: the target is asked)"
    )
    add_prometheus_options(parser, MONTH, "what is read, and how")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """0 when all was read, 1 when something cannot be read or written, 2 when asked wrongly."""
    try:
        with interruptible():
            return _backfill(args)
    except ConfigError as error:
        return complain(error)
    except SourceError as error:
        complain_of(error)
        return USAGE_ERROR
    except (AccessError, CollectorError, StoreError) as error:
        complain_of(error)
        return FAILED


@dataclass(frozen=True, slots=True)
class _Job:
    target: Target
    path: Path
    server: str
    configured: float
    """The target's fit.interval, s."""


def _backfill(args: argparse.Namespace) -> int:
    config = load(args.config_file)
    target = target_of(config, args.target)
    path = args.file or config.history.path
    if path is None:
        raise ConfigError([f"{args.config_file}: names no history.path; give --file DB"])
    client, query = client_of(args, args.prometheus), query_of(args)
    server = args.server or _server_of(target)
    job = _Job(target, path, server, config.fit_settings(target).interval)
    return _fill(client, query, job, args.instance)


def _fill(client: Client, query: FleetQuery, job: _Job, instance: str | None) -> int:
    """Read and write a part at a time; what was written when a failure comes stays."""
    found = find_targets(client, query)
    of_host = [t.instance for t in found if host_of(t.instance) == job.target.endpoint.host]
    source = chosen(found, instance or (of_host[0] if len(of_host) == 1 else None), "--instance")
    sampling = sampling_of(client, source, query)
    fits = job.configured >= 2 * sampling
    width = interval_for(sampling, job.configured if fits else None, source.instance)
    labels = (job.target.name, job.server)
    try:
        with closing(open_to_write(job.path)) as connection:
            filled = Backfill(connection, labels, width, sampling)
            fill(filled, readings(client, source, query, sampling), HourlyLoad())
    except (sqlite3.Error, OSError) as error:
        raise as_store_error(job.path, error) from error
    say_line(
        f"{job.target.name}: {filled.added:,} intervals of {written(width)} added from"
        f" {source.instance}, {filled.were_there:,} were there; the agent reads them at its start"
    )
    if not fits:
        needs = f"samples {sampling:g} s apart make intervals of {written(width)}"
        complain_of(
            f"{job.target.name}: {needs}, and fit.interval is {written(job.configured)}: they serve"
            f" the forecast alone; with fit.interval: {written(width)} the window has them too"
        )
    return 0


def _server_of(target: Target) -> str:
    """Ask the server for its identity; raises `CollectorError`."""
    login = target.credentials.login
    connection = Connection(target.endpoint, login, timeout=target.timeout, limit=1.0)
    try:
        connection.open()
        return server_identity(connection.variables)
    except CollectorError as error:
        remedy = "start it, or give its server_uuid with --server ID"
        raise SourceError(f"{target.name}: {error}; {remedy}") from error
    finally:
        connection.close()
