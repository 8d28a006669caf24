"""`mysql-headroom backfill`: fill a history from a Prometheus, also beside a running agent."""

import argparse
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from agent.assessment.hourly_load import HourlyLoad
from agent.commands.config_file_options import add_config_option, configured_history
from agent.commands.exit_codes import FAILED
from agent.commands.interruption import interruptible
from agent.commands.pipeline_options import target_of
from agent.commands.prometheus_options import MONTH, add_prometheus_options, client_of, query_of
from agent.config.durations import duration_text
from agent.config.loader import load_config
from agent.config.settings import Config, Target
from agent.config.timestamps import time_text
from agent.history.backfill import ROWS_PER_TRANSACTION, Backfill
from agent.history.failures import as_store_error
from agent.history.open_database import open_to_write
from agent.history.server_identity import server_identity
from agent.prometheus.client import Client, Labels
from agent.prometheus.fleet_targets import (
    FleetQuery,
    FleetTarget,
    find_targets,
    host_of,
    missing_hosts,
    names_text,
)
from agent.prometheus.own_series import OwnTarget, exported_intervals, exporting_agent
from agent.prometheus.replay_source import choose_target
from agent.prometheus.server_recordings import (
    ServerSeen,
    last_seen,
    measure_samplings,
    readings,
    require_status_series,
)
from agent.replay.bulk_intervals import add_readings
from agent.replay.recording_opener import SourceError, interval_for
from agent.support.counted import counted
from agent.support.safe_output import print_error, print_line
from collectors import COLLECTORS
from collectors.base import CollectorError
from collectors.connection import Connection
from collectors.process_lookup import server_uptime
from collectors.transport_security import is_loopback

STATUS = next(spec for spec in COLLECTORS if spec.name == "status")
SERIES = ("both", "agent", "exporters")


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the sub-command."""
    parser = subparsers.add_parser(
        "backfill",
        help="fill an agent's history from the series in a Prometheus",
        description="Read the series of one target from a Prometheus, those of an agent or of "
        "mysqld_exporter and node_exporter, and add them to the agent's history "
        "where it has no intervals, so that its first assessment has a full window. "
        "It may run beside a running agent.",
    )
    parser.add_argument("--prometheus", metavar="URL", required=True, help="http://HOST:9090")
    add_config_option(parser)
    parser.add_argument("--target", metavar="NAME", help="the target in it, if there are several")
    parser.add_argument(
        "--instance",
        metavar="INSTANCE",
        help="the target's `instance` in Prometheus, or its name by the labels of --by (default: "
        "that of its host, or the only one if that is this machine)",
    )
    parser.add_argument(
        "--file",
        metavar="DB",
        type=Path,
        help="the history (default: history.path of the configuration)",
    )
    parser.add_argument(
        "--server",
        metavar="ID",
        help="the server's server_identity, a label of target_info (default: read from the target)",
    )
    parser.add_argument(
        "--series",
        choices=SERIES,
        default=SERIES[0],
        help="what is read: agent: the series that an agent exported; exporters: those of "
        "mysqld_exporter and node_exporter; both: the agent's, and the exporters' where it "
        "has none (default)",
    )
    parser.add_argument(
        "--agent-selector",
        default="",
        metavar="SELECTOR",
        help="the agent, by the labels of its series (default: the only one)",
    )
    add_prometheus_options(parser, MONTH, "what is read, and how")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Return 0 if all was read, 1 if something cannot be read or written, 2 for a usage error."""
    try:
        with interruptible():
            return _backfill(args)
    except CollectorError as error:
        print_error(error)
        return FAILED


@dataclass(frozen=True, slots=True)
class _Job:
    client: Client
    query: FleetQuery
    target: Target
    own: OwnTarget
    present: ServerSeen | None
    """The target now; None if it was not asked."""

    @property
    def labels(self) -> tuple[str, str]:
        """The labels of the history's rows: the target and its server."""
        return self.own.name, self.own.server

    def report(self, filled: Backfill, source: str) -> None:
        """Print how many intervals were added, and how many existed."""
        intervals = f"{counted(filled.added, 'interval')} of {duration_text(filled.width)}"
        there = f"{filled.already_stored:,} existed already; the agent reads them when it starts"
        print_line(f"{self.own.name}: {intervals} added from {source}, {there}")


def _backfill(args: argparse.Namespace) -> int:
    config = load_config(args.config_file)
    target = target_of(config, args.target)
    path = args.file or configured_history(config, args.config_file)
    client, query = client_of(args, args.prometheus), query_of(args)
    server, present = (args.server, None) if args.server else _read_server(target)
    job = _Job(client, query, target, _own_target(config, target, server), present)
    agent, exporter = _find_agent(job, args), None
    if args.series != "agent":
        exporter = _find_exporter(job, args.instance, is_needed=agent is None)
    try:
        with closing(open_to_write(path)) as connection:
            if agent is not None:
                _fill_from_agent(job, agent, connection)
            if exporter is not None:
                require_status_series(job.client, exporter, job.query)
                _require_same_server(job, exporter)
                for line in missing_hosts([exporter], job.query):
                    print_error(line)
                for sampling in measure_samplings(job.client, exporter, job.query):
                    _fill_from_exporters(job, exporter, sampling, connection)
    except (sqlite3.Error, OSError) as error:
        raise as_store_error(path, error) from error
    return 0


def _own_target(config: Config, target: Target, server: str) -> OwnTarget:
    return OwnTarget(
        name=target.name,
        server=server,
        width=config.fit_settings(target).interval,
        sampling=config.sampling_interval(target, STATUS),
        ceilings=config.resource_settings(target),
    )


def _find_agent(job: _Job, args: argparse.Namespace) -> Labels | None:
    """Return the agent whose series are read; raises `SourceError` if it is required and absent."""
    if args.series == "exporters":
        return None
    found = exporting_agent(job.client, job.own, job.query, args.agent_selector)
    if found is None and (args.series == "agent" or args.agent_selector):
        problem = "Prometheus knows no agent that has watched it"
        raise SourceError(f"{job.own.name}: {problem}; check --agent-selector and --since")
    return found


def _find_exporter(job: _Job, instance: str | None, *, is_needed: bool) -> FleetTarget | None:
    """Return the mysqld_exporter named `instance`, else the only one on the server's host.

    If none is named and that host does not have exactly one: None, unless `is_needed`; then the
    only one of all if the server is reached by a name of this machine. Raises `SourceError`.
    """
    found, host = find_targets(job.client, job.query), job.target.endpoint.host
    of_host = [t.name for t in found if host in map(host_of, t.instances)]
    if instance is None and len(of_host) == 1:
        instance = of_host[0]
    if not is_needed and instance is None:
        return None
    if instance is None and found and not of_host and not _is_this_machine(host):
        shown = names_text([target.name for target in found])
        choice = f"choose one with --instance INSTANCE: {shown}"
        raise SourceError(f"{job.own.name}: no exporter on its host {host}; {choice}")
    return choose_target(found, instance, "--instance INSTANCE")


def _is_this_machine(host: str) -> bool:
    """Return whether it is a name that each machine has for itself; a socket's host is one."""
    try:
        return host == "localhost" or is_loopback(host)
    except ValueError:  # the name of a machine
        return False


def _fill_from_agent(job: _Job, agent: Labels, connection: sqlite3.Connection) -> None:
    """Write the intervals that the agent exported; those written before a failure stay."""
    filled = Backfill(connection, job.labels, job.own.width, job.own.sampling)
    found, other_widths = exported_intervals(job.client, job.own, job.query, agent), set[float]()
    while part := list(islice(found, ROWS_PER_TRANSACTION)):
        filled.append_intervals(part, job.query.end)
        other_widths |= {interval.seconds for interval in part} - {job.own.width}
    job.report(filled, f"the agent {agent['instance']}")
    if other_widths:
        widths = ", ".join(duration_text(width) for width in sorted(other_widths))
        configured = duration_text(job.own.width)
        print_error(
            f"{job.own.name}: some intervals are {widths} wide,"
            f" but fit.interval is {configured}: they are used for the forecast only"
        )


def _fill_from_exporters(
    job: _Job, source: FleetTarget, sampling: float, connection: sqlite3.Connection
) -> None:
    """Write intervals of the exporters' samples; those written before a failure stay.

    `sampling` is the distance of samples (s) that intervals must hold.
    """
    configured = job.own.width
    fits = configured >= 2 * sampling
    width = interval_for(sampling, configured if fits else None, source.name)
    filled = Backfill(connection, job.labels, width, sampling)
    add_readings(filled, readings(job.client, source, job.query, sampling), HourlyLoad())
    job.report(filled, source.name)
    if not fits:
        needs = f"samples {sampling:g} s apart allow intervals of {duration_text(width)} only"
        print_error(
            f"{job.own.name}: {needs}, and fit.interval is {duration_text(configured)}:"
            " they are used for the forecast only; with fit.interval:"
            f" {duration_text(width)} they are also in the window"
        )


def _require_same_server(job: _Job, source: FleetTarget) -> None:
    """Raise `SourceError` if the exporter's server cannot be the target."""
    seen = last_seen(job.client, source, job.query) if job.present else None
    if job.present and seen and seen.is_another_than(job.present):
        problem = f"{source.name} has another server, {_seen_text(seen)}"
        remedy = "choose one with --instance INSTANCE, or use it all the same with --server ID"
        raise SourceError(f"{job.own.name}, {_seen_text(job.present)}: {problem}; {remedy}")


def _seen_text(seen: ServerSeen) -> str:
    port = "" if seen.port is None else f" on port {seen.port:.0f}"
    return f"started at {time_text(seen.started)}{port}"


def _read_server(target: Target) -> tuple[str, ServerSeen]:
    """Read the server's identity, start and port from it; raises `CollectorError`."""
    login = target.credentials.login
    connection = Connection(target.endpoint, login, timeout=target.timeout, limit=1.0)
    try:
        connection.open()
        started = time.time() - server_uptime(connection)
        port = connection.variables.get("port", "")
        present = ServerSeen(started, time.time(), float(port) if port.isdecimal() else None)
        return server_identity(connection.variables), present
    except CollectorError as error:
        remedy = "start it, or give its server_identity with --server ID"
        raise CollectorError(error.kind, f"{target.name}: {error}; {remedy}") from error
    finally:
        connection.close()
