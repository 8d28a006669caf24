"""`mysql-headroom replay SOURCE`: the agent's analysis over the recording of a server."""

import argparse
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from agent.business_metrics.replayed_values import RecordedValues
from agent.commands.argument_types import duration
from agent.commands.pipeline_options import (
    add_pipeline_options,
    replay_options_of,
    run_on_source,
)
from agent.commands.prometheus_options import add_prometheus_options
from agent.commands.replay_report import as_json, as_table
from agent.commands.source_opener import open_source, time_parser
from agent.config.settings import MAX_SLA, MIN_SLA
from agent.config.timestamps import time_text
from agent.replay.recording_opener import (
    RecordingSource,
    ReplayOptions,
    SourceError,
)
from agent.replay.replay import ASSESSMENT_SECONDS, Replay, Step
from agent.support.memory_tuning import keep_freed_memory
from agent.support.safe_output import flush_output, print_error, write_output
from agent.what_if.target_sla import sla_of

HOUR, DAY = 3600.0, 86400.0
FORMATS: dict[str, Callable[[RecordingSource, Iterable[Step]], Iterator[str]]] = {
    "table": as_table,
    "json": as_json,
}


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the sub-command."""
    parser = subparsers.add_parser(
        "replay",
        help="run the agent's analysis over a recording of a server",
        description="Run the agent's own analysis over a recording of one server, and print its "
        "result at each step, and when the alerts on saturation would have fired.",
    )
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="samples as CSV (t_s,questions,threads_running,uptime_s and what docs/replay.md "
        "names; - is standard input), the history.db of an agent, or http://HOST:9090 of a "
        "Prometheus that scrapes mysqld_exporter",
    )
    when = parser.add_mutually_exclusive_group()
    when.add_argument(
        "--at",
        metavar="T",
        help="only the state at this time: in a CSV file seconds, or 6h from its zero on; else "
        "6h (ago) or seconds since 1970; or 2026-11-21T13:00Z",
    )
    when.add_argument(
        "--every",
        type=duration(1.0),
        default=HOUR,
        metavar="DURATION",
        help="the step (default: 1h); the end of the recording is always the last",
    )
    parser.add_argument("--format", choices=list(FORMATS), default="table", help="default: table")
    parser.add_argument(
        "--assess-every",
        type=duration(1.0),
        default=ASSESSMENT_SECONDS,
        metavar="DURATION",
        help="how often the capacity is assessed between two steps, for the alerts (default: 5m)",
    )
    parser.add_argument(
        "--sla-seconds",
        type=duration(MIN_SLA, MAX_SLA),
        metavar="DURATION",
        help="the SLA for the mean residence time, as 50ms: print the throughput that reaches "
        "it at each step (default: the configured target's sla_seconds)",
    )
    add_pipeline_options(parser)
    add_prometheus_options(parser, DAY, "where SOURCE is the URL of a Prometheus")
    parser.add_argument("--server", metavar="ID", help="of a history: one of the target's servers")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Return 0 if it was replayed, 1 if a source cannot be read, 2 if the input is wrong."""
    keep_freed_memory()
    return run_on_source(_replay, args)


def _replay(args: argparse.Namespace) -> int:
    options, at = replay_options_of(args), _moment(args)
    with open_source(args, options) as source:
        player = Replay(
            source.target, source.recording, source.settings, options.ceilings, args.assess_every
        )
        steps: Iterable[Step] = _with_intervals(player.steps(args.every), source)
        if at is not None:
            steps = [_step_at(player, source, at)]
        seconds = options.sla_seconds if args.sla_seconds is None else args.sla_seconds
        if seconds is not None:
            steps = (_with_sla(step, seconds) for step in steps)
        if options.business_metrics:
            values = RecordedValues(options.business_metrics, source.business)
            steps = (_with_business(step, values, source) for step in steps)
        for text in FORMATS[args.format](source, steps):
            write_output([text + "\n"])
            flush_output()
        for note in (*source.notes(), *_not_replayed(options)):
            print_error(note)
    return 0


def _with_intervals(steps: Iterable[Step], source: RecordingSource) -> Iterator[Step]:
    """Yield the steps; raises `SourceError` at the end of a recording without an interval."""
    count = 0
    for step in steps:
        count += len(source.recording.buffer.window(-math.inf))
        if step.snapshot.at >= source.recording.end and not count:
            raise source.no_interval_error()
        yield step


def _not_replayed(options: ReplayOptions) -> Iterator[str]:
    """Yield what is configured for the target and cannot be replayed from a recording."""
    if options.has_class_slas:
        yield "class_slas are not replayed: a recording has no response times of query classes"


def _step_at(player: Replay, source: RecordingSource, moment: float) -> Step:
    """Return the step at that time; raises `SourceError` if the recording has none."""
    step = None if moment < source.recording.start else player.play_until(moment)
    if step is None:
        edge = f"before the recording, which begins at {time_text(source.recording.start)}"
    elif step.snapshot.at < moment:
        edge = f"after the recording, which ends at {time_text(step.snapshot.at)}"
    else:
        return step
    raise SourceError(f"--at {time_text(moment)} is {edge}; give a time in it")


def _with_sla(step: Step, seconds: float) -> Step:
    """Return the step with the daemon's result for the SLA at that time."""
    known = step.snapshot
    found = replace(known, sla=sla_of(known, seconds, known.at))
    return replace(step, snapshot=found)


def _with_business(step: Step, values: RecordedValues, source: RecordingSource) -> Step:
    """Return the step with the daemon's results for the target's business metrics then."""
    known = step.snapshot
    window = source.recording.buffer.window(known.at)
    return replace(step, snapshot=replace(known, business=values.states(known, window)))


def _moment(args: argparse.Namespace) -> float | None:
    """Parse --at as a time of the source; raises `SourceError`."""
    if args.at is None:
        return None
    try:
        return time_parser(args.source, time.time())(args.at)
    except ValueError as error:
        raise SourceError(f"--at: {error}") from None
