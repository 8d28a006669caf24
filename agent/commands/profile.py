"""`mysql-headroom profile`: which queries use the server up, as one looks at it."""

import argparse
import sys
from collections.abc import Callable

from agent.classes.observe import observe, observe_sums
from agent.commands.profile_words import SORTS, as_csv, as_json, in_words, profile_of
from agent.config.durations import seconds
from agent.config.file import ConfigError, load
from agent.config.option import USAGE_ERROR, add_config_option, complain
from agent.config.settings import Config, Target
from collectors.base import CollectorError

BROKEN = 1
FORMATS: dict[str, Callable[..., str]] = {"table": in_words, "json": as_json, "csv": as_csv}
SHORTEST, LONGEST = 3.0, 3600.0


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the sub-command."""
    parser = subparsers.add_parser(
        "profile",
        help="watch a server for a while and rank its queries by what they use",
        description="Watch one target for a while and rank its classes of query by CPU, time, "
        "count, IO or latency: measured where the server measures it, else estimated.",
    )
    add_config_option(parser)
    parser.add_argument("--target", metavar="NAME", help="which target (default: the first)")
    parser.add_argument(
        "--seconds",
        type=_duration,
        default=60.0,
        metavar="DURATION",
        help="how long to watch: 30s, 5m, … (default: 60s)",
    )
    parser.add_argument(
        "--since",
        choices=["now", "start"],
        default="now",
        help="now: watch from now on (default); start: the server's own sums, since each class was "
        "first seen, without estimates",
    )
    parser.add_argument("--sort", choices=list(SORTS), default="cpu", help="default: cpu")
    parser.add_argument(
        "--top", type=_count, default=20, metavar="N", help="how many (default: 20)"
    )
    parser.add_argument("--format", choices=list(FORMATS), default="table")
    parser.add_argument(
        "--text", action="store_true", help="show the statements' texts, normalised by the server"
    )
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="draw the first class's CPU on its time, and predicted on actual CPU (.png or .svg)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """0 when there is a profile, 1 when the server cannot be read, 2 when it was asked wrongly."""
    try:
        config = load(args.config_file)
    except ConfigError as error:
        return complain(error)
    target = _target(config, args.target)
    if target is None:
        known = ", ".join(t.name for t in config.targets)
        print(f"mysql-headroom: no target {args.target!r}; there are {known}", file=sys.stderr)
        return USAGE_ERROR
    if args.plot and not args.plot.lower().endswith((".png", ".svg")):
        print(f"mysql-headroom: {args.plot}: a plot ends in .png or .svg", file=sys.stderr)
        return USAGE_ERROR
    if args.format == "table" and args.since == "now":
        print(f"watching {target.name} for {args.seconds:g} s …", file=sys.stderr)
    try:
        observed = observe_sums(target) if args.since == "start" else observe(target, args.seconds)
    except CollectorError as error:
        print(f"mysql-headroom: {error}", file=sys.stderr)
        return BROKEN
    profile = profile_of(observed, args.sort, with_text=args.text or config.classes.digest_text)
    print(FORMATS[args.format](profile, args.top))
    if args.plot:
        from agent.export.class_plot import plot_class

        try:
            plot_class(args.plot, observed, profile)
        except OSError as error:
            reason = error.strerror or error
            print(f"mysql-headroom: {args.plot}: cannot be written ({reason})", file=sys.stderr)
            return USAGE_ERROR
    return 0


def _target(config: Config, name: str | None) -> Target | None:
    if name is None:
        return config.targets[0]
    return next((target for target in config.targets if target.name == name), None)


def _duration(text: str) -> float:
    try:
        length = seconds(float(text) if text.replace(".", "", 1).isdigit() else text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not SHORTEST <= length <= LONGEST:
        raise argparse.ArgumentTypeError(f"{SHORTEST:g} s to {LONGEST / 60:g} min")
    return length


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number from 1 on, not {text!r}")
    return int(text)
