"""Opens the SOURCE of a command: a file, a history, or the URL of a Prometheus."""

import argparse
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from agent.commands.prometheus_options import (
    client_of,
    query_of,
    refuse_prometheus_options,
)
from agent.config.timestamps import parse_recording_time, parse_time
from agent.prometheus.replay_source import prometheus_source
from agent.replay.recording_opener import (
    RecordingSource,
    ReplayOptions,
    SourceError,
    is_history,
    open_recording,
)


def is_url(source: str) -> bool:
    """Return whether a source is the URL of a Prometheus."""
    return source.startswith(("http://", "https://"))


def time_parser(source: str, now: float) -> Callable[[str], float]:
    """Return the parser of times of a source: of its own clock for a file, else Unix times.

    `now` (Unix seconds) is what a time ago is subtracted from.
    """
    if is_history(source) or is_url(source):
        return lambda text: parse_time(text, now)
    return parse_recording_time


@contextmanager
def open_source(args: argparse.Namespace, options: ReplayOptions) -> Iterator[RecordingSource]:
    """Open `args.source`; raises as a command's `run` expects, also for options of other sources.

    Of a Prometheus the period of `options` is read, or that of --since and --until without one.
    """
    if args.server is not None and not is_history(args.source):
        raise SourceError("--server is for the history of an agent; leave it out")
    if is_url(args.source):
        has_period = math.isfinite(options.since)
        query = query_of(args, (options.since, options.until) if has_period else None)
        how = "--target NAME"
        if args.config_file:  # the target's name there is not the server's in Prometheus
            matchers = ",".join(f'{label}="{label.upper()}"' for label in query.by)
            options, how = replace(options, target=None), f"--selector '{{{matchers}}}'"
        yield prometheus_source(client_of(args, args.source), query, options, how)
        return
    refuse_prometheus_options(args)
    with open_recording(args.source, options) as source:
        yield source
