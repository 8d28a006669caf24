"""Opens the SOURCE of a command: a file, a history, or the URL of a Prometheus."""

import argparse
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from agent.commands.prometheus_options import client_of, query_of
from agent.prometheus.replay_source import prometheus_source
from agent.replay.recording_opener import RecordingSource, ReplayOptions, open_recording


def is_url(source: str) -> bool:
    """Return whether a source is the URL of a Prometheus."""
    return source.startswith(("http://", "https://"))


@contextmanager
def open_source(args: argparse.Namespace, options: ReplayOptions) -> Iterator[RecordingSource]:
    """Open `args.source`; raises as a command's `run` expects.

    Of a Prometheus the period of `options` is read, or that of --since and --until without one.
    """
    if is_url(args.source):
        query = query_of(args)
        if math.isfinite(options.since):
            query = replace(query, start=options.since, end=options.until)
        yield prometheus_source(client_of(args, args.source), query, options)
        return
    with open_recording(args.source, options) as source:
        yield source
