"""`mysql-headroom compare`: what changed from one period to another, beyond the uncertainty."""

import argparse
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from agent.assessment.deploy_markers import Marker
from agent.commands.argument_types import duration
from agent.commands.compare_report import as_json, as_table
from agent.commands.pipeline_options import (
    add_pipeline_options,
    replay_options_of,
    run_on_source,
)
from agent.commands.prometheus_options import add_prometheus_options
from agent.commands.source_opener import is_url, open_source, time_parser
from agent.commands.text_table import table_lines
from agent.compare.compare_periods import compare_periods
from agent.compare.periods import MIN_SECONDS, Period, TooEarlyError, periods_around, periods_within
from agent.config.timestamps import local_zone_text, time_text
from agent.csv_input.table_file import STANDARD_INPUT
from agent.export.snapshot_json import marker_object
from agent.history.marker_table import read_markers
from agent.history.open_database import open_to_read
from agent.replay.recording_opener import ReplayOptions, SourceError, is_history
from agent.support.safe_output import (
    json_text,
    print_error,
    print_lines,
    printable,
    write_output,
)

DAY = 86400.0
MAX_LISTED_MARKERS = 10
"""The most marker names in a message; `--markers` lists all."""
FORMATS = {"table": as_table, "json": as_json}


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the sub-command."""
    parser = subparsers.add_parser(
        "compare",
        help="compare capacity and query costs of two periods, side by side",
        description="Assess two periods of one server separately, and print capacity, "
        "contention, service demands and the most expensive query classes side by "
        "side, with the changes beyond the uncertainty marked.",
    )
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="the history.db of an agent, samples as CSV, or http://HOST:9090 of a Prometheus: "
        "as `replay` takes them",
    )
    date = f"2026-11-21T13:00 ({local_zone_text()})"
    when = f"FROM..TO, each {date}, 6h (ago; in a CSV file from its zero on), or seconds"
    parser.add_argument("--before", metavar="PERIOD", help=when)
    parser.add_argument("--after", metavar="PERIOD", help="likewise")
    parser.add_argument(
        "--around", metavar="TIME", help="the same length before and after this time"
    )
    parser.add_argument(
        "--around-marker",
        dest="marker",
        metavar="NAME",
        help="around the latest deploy marker of that name, of a history",
    )
    parser.add_argument(
        "--markers",
        action="store_true",
        help="only list the deploy markers of a history (of --target, or all), newest first",
    )
    parser.add_argument(
        "--length",
        type=duration(MIN_SECONDS),
        default=DAY,
        metavar="DURATION",
        help="the length on either side of that time (default: 1d, or what there is)",
    )
    parser.add_argument("--format", choices=list(FORMATS), default="table", help="default: table")
    add_pipeline_options(parser, of_period=True)
    add_prometheus_options(parser, None, "where SOURCE is the URL of a Prometheus")
    parser.add_argument("--server", metavar="ID", help="of a history: one of the target's servers")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Return 0 if both were assessed, 1 if a source cannot be read, 2 if the input is wrong."""
    return run_on_source(_compare, args)


def _compare(args: argparse.Namespace) -> int:
    if args.markers:
        return _list_markers(args)
    options = replay_options_of(args)
    periods = _periods(args, options)
    history = Path(args.source) if is_history(args.source) else None
    comparison = compare_periods(partial(open_source, args), options, periods, history)
    write_output(line + "\n" for line in FORMATS[args.format](comparison))
    for note in comparison.source_notes:
        print_error(note)
    return 0


def _list_markers(args: argparse.Namespace) -> int:
    """Print every marker, the newest first, each with its target where it has one."""
    if any(given is not None for given in (args.around, args.before, args.after, args.marker)):
        raise SourceError("--markers only lists the markers; give no periods with it")
    known = _markers(args, "--markers", "name its history.db")[::-1]
    if args.format == "json":
        print_lines(json_text({"markers": [marker_object(marker) for marker in known]}))
    elif known:
        rows = [(time_text(m.at), m.target or "all targets", m.name) for m in known]
        print_lines("\n".join(map(printable, table_lines(rows))))
    else:
        print_error("no deploy markers; `mysql-headroom mark` sets one")
    return 0


def _periods(args: argparse.Namespace, options: ReplayOptions) -> tuple[Period, Period]:
    """Return both requested periods; raises `SourceError`."""
    if args.source == STANDARD_INPUT:
        raise SourceError("compare reads its source twice: give a file, not standard input")
    now = time.time()
    if args.marker is not None:
        return _periods_around_marker(args, now)
    has_dates = is_history(args.source) or is_url(args.source)
    at = time_parser(args.source, now)
    if args.around is not None:
        if (args.before, args.after) != (None, None):
            raise SourceError("--around excludes --before and --after; give one or the other")
        try:
            if has_dates:
                return periods_around(at(args.around), args.length, now)
            return periods_within(at(args.around), args.length, *_extent(args, options))
        except (ValueError, TooEarlyError) as error:
            raise SourceError(f"--around: {error}") from None
    if args.before is None or args.after is None:
        raise SourceError(
            "two periods are needed; give --before FROM..TO and --after FROM..TO, or --around TIME,"
            " or --around-marker NAME"
        )
    before, after = _period("--before", args.before, at), _period("--after", args.after, at)
    if after.start < before.end:
        raise SourceError(
            f"--after: begins at {time_text(after.start)}, before --before ends, at"
            f" {time_text(before.end)}; give the earlier period as --before"
        )
    return before, after


def _extent(args: argparse.Namespace, options: ReplayOptions) -> tuple[float, float]:
    """Return when a file of samples begins and ends (seconds of its clock)."""
    with open_source(args, options) as source:
        recording = source.recording
        recording.skip_to_end()
        return recording.start, recording.end - recording.buffer.grace


def _period(option: str, text: str, at: Callable[[str], float]) -> Period:
    """Parse the period of an option; raises `SourceError`."""
    try:
        return Period.of(text, at)
    except ValueError as error:
        raise SourceError(f"{option}: {error}") from None


def _periods_around_marker(args: argparse.Namespace, now: float) -> tuple[Period, Period]:
    """Return the periods around the latest marker of that name; raises `SourceError`."""
    if any(given is not None for given in (args.around, args.before, args.after)):
        raise SourceError("--around-marker excludes --around, --before and --after; give it alone")
    wanted = _markers(args, "--around-marker", "use --around TIME")
    found = [marker for marker in wanted if marker.name == args.marker]
    if not found:
        names = list(dict.fromkeys(marker.name for marker in reversed(wanted)))
        there = (
            f"the latest are {', '.join(names[:MAX_LISTED_MARKERS])}" if names else "there is none"
        )
        if len(names) > MAX_LISTED_MARKERS:
            there += f", and {len(names) - MAX_LISTED_MARKERS} more that --markers lists"
        raise SourceError(f"--around-marker: no marker {args.marker[:100]!r}; {there}")
    try:
        return periods_around(found[-1].at, args.length, now)
    except TooEarlyError as error:
        raise SourceError(f"--around-marker: {error}") from None


def _markers(args: argparse.Namespace, option: str, remedy: str) -> list[Marker]:
    """Read the markers of the target, or all, the oldest first; raises `SourceError`."""
    if not is_history(args.source):
        raise SourceError(f"{option}: only the history of an agent has markers; {remedy}")
    with closing(open_to_read(Path(args.source))) as connection:
        known = read_markers(connection)
    return [m for m in known if args.target is None or m.concerns(args.target)]
