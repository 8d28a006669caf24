"""`mysql-headroom check`: validate the files, test each target, print how to enable the rest."""

import argparse
import os
from functools import partial

from agent.business_metrics.reader import collector_spec, connection_for
from agent.commands.config_file_options import add_file_options, load_files
from agent.commands.exit_codes import FAILED
from agent.config.business_metrics import BusinessMetric
from agent.config.loader import load_config
from agent.config.settings import Config, Target
from agent.export.number_formats import format_number
from agent.history.history_file import history_path, path_problem
from agent.sampling.target_collectors import collectors_of
from agent.support.safe_output import print_line
from collectors import CollectorSpec
from collectors.base import CollectorError, Feature
from collectors.business_query import VALUE, MissingGrantError
from collectors.connection import Connection


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the sub-command."""
    text = "connect to every target and print what works, what is missing and how to enable it"
    parser = subparsers.add_parser("check", help=text, description=text.capitalize() + ".")
    add_file_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Return 0 if every target can be watched, 1 if one cannot, 2 if a file is wrong."""
    config, web = load_files(partial(load_config, args.config_file), args.web_file)
    if args.web_file is not None:
        print_line(f"{args.web_file} (web pages)")
        print_line(
            f"  ok       {', '.join(sorted(web().protections)) or 'no authentication and no TLS'}"
        )
    path = history_path(config.history.path, os.environ)
    if path is not None:
        problem = path_problem(path)
        print_line(f"{path} (history)")
        print_line(f"  missing  history: {problem}" if problem else "  ok       history")
    return max(check(config, target) for target in config.targets)


def check(config: Config, target: Target) -> int:
    """Print what one target offers; return 1 if it cannot be watched at all, else 0."""
    print_line(f"{target.name} ({target.endpoint})")
    connection = Connection(
        target.endpoint, target.credentials.login, timeout=target.timeout, limit=1.0
    )
    try:
        connection.open()
        print_line(f"  ok       connected to {connection.flavour}")
        offered: set[str] = set()
        for spec in collectors_of(config, target):
            if config.collector_settings(target, spec.name).enabled:
                offered |= _try_collector(spec, connection)
            else:
                print_line(f"  off      {spec.name}")
        if target.node_exporter is None:
            _print_cpu_source(offered, config.resource_settings(target).vcpus)
    except CollectorError as error:
        print_line(f"  FAILED   {error}")
        return FAILED
    finally:
        connection.close()
    # after the session is closed: an account may have three, and a running agent has two
    _check_business(target)
    return 0


def _print_cpu_source(offered: set[str], vcpus: float | None) -> None:
    """Print the source of the CPU's utilisation, if the host's counters cannot be read."""
    if "host" in offered:
        return
    if vcpus is None:
        print_line("  missing  cpu: the counters of the server's host cannot be read")
        print_line(
            "           remedy: set node_exporter.url of the target, or how many processors it has:"
            " resources.vcpus"
        )
    elif "statements_cpu" in offered:
        print_line(f"  ok       cpu: the CPU time of statements, of {vcpus:g} processors")
    else:
        print_line("  missing  cpu: the server does not count the CPU time of statements")


def _try_collector(spec: CollectorSpec, connection: Connection) -> set[str]:
    """Prepare the collector and read once; return the names of the enabled features.

    Raises `CollectorError` if that fails and the session has ended or the collector is vital.
    """
    try:
        prepared = spec.prepare(connection)
        if prepared.read is not None:
            prepared.read()
    except CollectorError as error:
        if error.kind.ends_session or spec.is_vital:
            raise
        print_line(f"  missing  {spec.name}: {error}")
        return set()
    features = (*prepared.features, *prepared.features_read())
    _print_features(features)
    return {feature.name for feature in features if feature.enabled}


def _check_business(target: Target) -> None:
    """Read each business metric once, on a session like the agent's; none of them is vital."""
    connection = connection_for(target)
    try:
        for metric in target.business_metrics:
            _try_metric(metric, connection)
    finally:
        connection.close()


def _try_metric(metric: BusinessMetric, connection: Connection) -> None:
    spec = collector_spec(metric)
    try:
        if spec.on_server and not connection.is_open:
            connection.open()
        read = spec.prepare(connection).read
        value = read()[VALUE] if read else 0.0
        print_line(f"  ok       {spec.name}: {format_number(value)} {metric.unit}")
    except MissingGrantError as error:
        _print_features((Feature(spec.name, False, error.reason, error.remedy),))
    except CollectorError as error:
        print_line(f"  missing  {spec.name}: {error}")


def _print_features(features: tuple[Feature, ...]) -> None:
    for feature in features:
        if feature.enabled:
            print_line(f"  ok       {feature.name}")
            continue
        print_line(f"  missing  {feature.name}: {feature.reason}")
        if feature.remedy:
            print_line(f"           remedy: {feature.remedy}")
