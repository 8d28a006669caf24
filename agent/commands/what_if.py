"""`mysql-headroom what-if`: what other hardware, another load or a cheaper query would change."""

import argparse

from agent.commands.agent_client import AgentClient
from agent.commands.http_login_options import access_of, add_agent_options, login_problem
from agent.commands.what_if_report import as_table
from agent.support.safe_output import json_text, print_lines
from agent.what_if.question import COUNTS, FACTORS, QUERY, QuestionError, parse_question


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the sub-command."""
    parser = subparsers.add_parser(
        "what-if",
        help="predict what other hardware, another load or a cheaper query would change",
        description="Predict, by a running agent, the capacity, residence time and first limit "
        "of a target after changes, each change alone and all together.",
    )
    parser.add_argument("--target", metavar="NAME", help="the target (default: the only one)")
    for name, text in FACTORS.items():
        metavar = "N" if name in ("cores", "servers") else "FACTOR"
        parser.add_argument(_option(name), dest=name, action="append", metavar=metavar, help=text)
    parser.add_argument(
        "--query",
        action="append",
        metavar="DIGEST=FACTOR",
        help="a call of this class costs this many times as much (0.5x: half); may be repeated",
    )
    parser.add_argument(
        "--format", choices=["table", "json"], default="table", help="default: table"
    )
    add_agent_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Return 0 if there is an answer, 1 if the agent cannot be reached, 2 for a wrong question."""
    asked = {name: given for name in (*FACTORS, QUERY) if (given := getattr(args, name))}
    parse_question(asked, "--{}")
    if problem := login_problem(args):
        raise QuestionError(problem)
    fields = [(name, text) for name, texts in asked.items() for text in texts]
    target = [("target", args.target)] if args.target is not None else []
    found = AgentClient(access_of(args, args.agent)).request("/api/v1/what-if", [*target, *fields])
    counts = {n: texts[0] for n, texts in asked.items() if n in COUNTS and "x" not in texts[0]}
    print_lines(as_table(found, counts) if args.format == "table" else json_text(found, indent=2))
    return 0


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
