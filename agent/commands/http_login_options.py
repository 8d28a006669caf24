"""Options for the login at a server that a command queries over HTTP: an agent or a Prometheus."""

import argparse
from pathlib import Path

from agent.commands.argument_types import duration
from agent.support.http_client import Access

AGENT = "http://127.0.0.1:10104"
"""Where an agent listens by default."""


def add_agent_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the agent's URL and the login."""
    group = parser.add_argument_group("the agent")
    group.add_argument(
        "--agent", default=AGENT, metavar="URL", help=f"the URL of the agent (default: {AGENT})"
    )
    add_login_options(group)


def add_login_options(group: "argparse._ArgumentGroup") -> None:
    """Add the options for the login, the certificate authority and the timeout."""
    group.add_argument("--user", metavar="NAME", help="the user for basic authentication")
    group.add_argument(
        "--password-file", type=Path, metavar="FILE", help="a file with the user's password"
    )
    group.add_argument(
        "--ca",
        type=Path,
        metavar="FILE",
        help="the certificate authority of the server's certificate",
    )
    group.add_argument(
        "--timeout",
        type=duration(0.5, 600.0),
        default=30.0,
        metavar="DURATION",
        help="timeout of a request (default: 30s)",
    )


def login_problem(args: argparse.Namespace) -> str | None:
    """Return why these options contradict each other, or None."""
    if args.password_file and not args.user:
        return "--password-file needs --user: name the user with it"
    if args.user and getattr(args, "token_file", None):
        return "--user and --token-file are two logins: give one of them"
    return None


def access_of(args: argparse.Namespace, url: str) -> Access:
    """Return how to access the server at `url` with these options."""
    token = getattr(args, "token_file", None)
    return Access(url, args.user, args.password_file, token, args.ca, args.timeout)
