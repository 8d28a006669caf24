"""`mysql-headroom profile`: rank the queries of a server by resource use."""

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from agent.commands.argument_types import duration, timestamp
from agent.commands.config_file_options import add_config_option
from agent.commands.exit_codes import FAILED, USAGE_ERROR
from agent.commands.pipeline_options import target_of
from agent.commands.plot_requirements import matplotlib_problem, plot_path_problem
from agent.commands.profile_from_history import latest_capacity_gains, recorded_profile
from agent.commands.profile_report import as_csv, as_json, as_text
from agent.config.loader import load_config
from agent.config.settings import Config, Target
from agent.config.timestamps import local_zone_text
from agent.export.profile_rows import SORT_KEYS, profile_of, with_texts
from agent.history.history_file import history_path
from agent.query_classes.one_off_profile import observe_classes, observe_totals, read_texts
from agent.query_classes.period_attribution import ObservedClasses
from agent.support.safe_output import print_error, print_lines
from collectors.base import CollectorError

FORMATS: dict[str, Callable[..., str]] = {"table": as_text, "json": as_json, "csv": as_csv}
MIN_SECONDS, DEFAULT_SECONDS, MAX_SECONDS = 3.0, 60.0, 3600.0  # seconds to watch
NOW, START = "now", "start"


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the sub-command."""
    parser = subparsers.add_parser(
        "profile",
        help="rank a server's queries by resource use, now or since a given time",
        description="Watch one target for a while, or read an agent's history of it, and rank "
        "its query classes by CPU, time, count, IO or latency: measured where the "
        "server measures it, otherwise estimated.",
    )
    add_config_option(parser)
    parser.add_argument("--target", metavar="NAME", help="the target, if there are several")
    parser.add_argument(
        "--seconds",
        type=duration(MIN_SECONDS, MAX_SECONDS),
        metavar="DURATION",
        help="how long to watch: 30s, 5m, … (default: 60s)",
    )
    parser.add_argument(
        "--since",
        type=_since,
        default=NOW,
        metavar="WHEN",
        help="now: watch from now on (default); start: the server's own totals since it first "
        f"saw each class, without estimates; 1h (ago) or 2026-11-21T10:00 ({local_zone_text()}): "
        "from the history of an agent",
    )
    parser.add_argument(
        "--sort",
        choices=list(SORT_KEYS),
        default="cpu",
        help="the order of the classes (default: cpu)",
    )
    parser.add_argument(
        "--top",
        type=_count,
        default=20,
        metavar="N",
        help="the number of classes shown (default: 20)",
    )
    parser.add_argument("--format", choices=list(FORMATS), default="table", help="default: table")
    parser.add_argument(
        "--text", action="store_true", help="show the statements' texts, normalised by the server"
    )
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="plot the first class's CPU over its time, and predicted over actual CPU",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Return 0 if there is a profile, 1 if it cannot be obtained, 2 for a usage error."""
    if args.plot and (problem := matplotlib_problem()):
        return _report_usage_error(problem)
    config = load_config(args.config_file)
    target = target_of(config, args.target)
    problem = _usage_problem(args, config)
    if problem is not None:
        return _report_usage_error(problem)
    with_text = args.text or config.classes.digest_text
    try:
        if isinstance(args.since, float):
            return _profile_from_history(args, config, target, with_text=with_text)
        return _profile_from_server(args, config, target, with_text=with_text)
    except CollectorError as error:
        print_error(error)
        return FAILED


def _usage_problem(args: argparse.Namespace, config: Config) -> str | None:
    """Return the problem with the options, or None; checked before any server is contacted."""
    if args.plot and (problem := plot_path_problem(args.plot)):
        return problem
    if args.since == NOW:
        return None
    if args.seconds is not None:
        return "--seconds says how long to watch from now on; use it with --since now"
    if args.plot:
        return "--plot needs readings of every second; use it with --since now"
    if isinstance(args.since, float) and args.since > time.time():
        return "--since: that time is in the future; give a past one"
    if args.since != START and _history_path(config) is None:
        remedy = "set history.path, or use --since start"
        return f"{args.config_file}: has no history.path, which --since TIME reads; {remedy}"
    return None


def _profile_from_server(
    args: argparse.Namespace, config: Config, target: Target, *, with_text: bool
) -> int:
    """Print a profile of the server, watched for a while or by its own totals."""
    of_sums, length = args.since == START, DEFAULT_SECONDS if args.seconds is None else args.seconds
    if args.format == "table" and not of_sums:
        sys.stderr.write(f"watching {target.name} for {length:g} s …\n")
    observed = observe_totals(target) if of_sums else _watch(config, target, length)
    path = _history_path(config)
    gains = latest_capacity_gains(path, target.name, time.time()) if path else {}
    profile = profile_of(observed, args.sort, with_text=with_text, gains=gains)
    profile = replace(profile, is_of_sums=of_sums)
    print_lines(FORMATS[args.format](profile, args.top))
    if args.plot:
        from agent.export.profile_plot import plot_class

        try:
            plot_class(args.plot, observed, profile)
        except OSError as error:
            return _report_usage_error(
                f"{args.plot}: cannot be written ({error.strerror or error})"
            )
    return 0


def _watch(config: Config, target: Target, seconds: float) -> ObservedClasses:
    return observe_classes(target, seconds, resources=config.resource_settings(target))


def _profile_from_history(
    args: argparse.Namespace, config: Config, target: Target, *, with_text: bool
) -> int:
    """Print a profile from an agent's history; statement texts are read from the server."""
    path = _history_path(config)
    assert path is not None  # noqa: S101  (checked by `_usage_problem`)
    profile = recorded_profile(path, target.name, args.since, time.time(), args.sort)
    if profile is None:
        remedy = "an agent writes them with `history.path` and the collector `digests`"
        text = f"no query classes of {target.name} are stored for that time; {remedy}"
        print_error(f"{path}: {text}")
        return FAILED
    if with_text:
        try:
            profile = with_texts(profile, read_texts(target, profile.digests(args.top)))
        except CollectorError as error:
            print_error(f"the statement texts cannot be read: {error}")
    print_lines(FORMATS[args.format](profile, args.top))
    return 0


def _report_usage_error(problem: str) -> int:
    print_error(problem)
    return USAGE_ERROR


def _history_path(config: Config) -> Path | None:
    return history_path(config.history.path, os.environ)


def _since(text: str) -> str | float:
    """Parse `now` or `start`, or a time as Unix seconds."""
    if text in (NOW, START):
        return text
    try:
        return timestamp(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}; or {NOW}, {START}") from None


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, not {text!r}")
    return int(text)
