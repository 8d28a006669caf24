"""`mysql-headroom mark`: set a deploy marker, to compare what is before it with what is after."""

import argparse
import time

from agent.assessment.deploy_markers import Marker, new_marker
from agent.commands.agent_client import AgentClient
from agent.commands.http_login_options import access_of, add_agent_options, login_problem
from agent.config.timestamps import local_zone_text, parse_time
from agent.support.errors import InputError
from agent.support.safe_output import print_line


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the sub-command."""
    parser = subparsers.add_parser(
        "mark",
        help="set a deploy marker: a time and a name",
        description="Record in a running agent that something was deployed: the marker is shown "
        "on the page, and `compare --around-marker` compares the time before it "
        "with the time after it.",
    )
    parser.add_argument("--name", required=True, help='the marker, such as "release 4.2"')
    parser.add_argument("--target", metavar="NAME", help="the target concerned (default: all)")
    parser.add_argument(
        "--at",
        metavar="TIME",
        help=f"2026-11-21T13:00 ({local_zone_text()}), 6h (ago), or Unix seconds (default: now)",
    )
    add_agent_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Return 0 if the marker was set, 1 if the agent cannot be reached, 2 for a wrong marker."""
    if problem := login_problem(args):
        raise InputError(problem)
    marker = _marker(args, time.time())
    fields = [("name", marker.name)]
    fields += [("target", marker.target)] if marker.target else []
    fields += [("at", f"{marker.at:.3f}")] if args.at is not None else []
    AgentClient(access_of(args, args.agent)).request("/api/v1/markers", fields, "POST")
    print_line(f"marked {marker.name!r} for {marker.target or 'all targets'}")
    return 0


def _marker(args: argparse.Namespace, now: float) -> Marker:
    """Return the requested marker; raises `InputError` with the remedy."""
    try:
        at = now if args.at is None else parse_time(args.at, now)
    except ValueError as error:
        raise InputError(f"--at: {error}") from None
    try:
        return new_marker(args.name, args.target or "", at, now)
    except ValueError as error:
        raise InputError(f"--{error}") from None
