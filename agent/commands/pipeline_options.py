"""Options of commands that run the pipeline over a recording: its settings and its target."""

import argparse
import sqlite3
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import asdict

from agent.commands.argument_types import duration
from agent.commands.interruption import interruptible
from agent.config.base_model import InvalidValuesError
from agent.config.loader import load_config
from agent.config.settings import Config, FitSettings, Target
from agent.config.yaml_loader import ConfigError
from agent.history.failures import as_store_error
from agent.pipeline import NO_CEILINGS
from agent.replay.recording_opener import ReplayOptions, SourceError

WIDTH = {
    "interval": (
        "the width of an interval, as fit.interval (default: 15s, or what holds two samples)"
    )
}
PASSING = {
    "window": "how much of the past is fitted, as fit.window (default: 1d)",
    "stale-after": "as fit.stale_after (default: 5m)",
}
"""Settings of an assessment as time passes, which one of a whole period has not."""
SAMPLING = {"sampling": "the time between two samples (default: measured)"}


def add_pipeline_options(parser: argparse.ArgumentParser, *, of_period: bool = False) -> None:
    """Add options for the settings of the fit, one by one or from a configuration.

    `of_period` leaves those out that the assessment of a whole period does not use.
    """
    for name, text in {**WIDTH, **({} if of_period else PASSING), **SAMPLING}.items():
        parser.add_argument(f"--{name}", type=duration(0.1), metavar="DURATION", help=text)
    parser.add_argument(
        "--config.file",
        dest="config_file",
        metavar="FILE",
        type=Path,
        help="a configuration with these settings and the resources' ceilings",
    )
    parser.add_argument(
        "--target",
        metavar="NAME",
        help="the target in the configuration and in a history; without a configuration, in a "
        "Prometheus: its `instance`, or its name by the labels of --by",
    )


def replay_options_of(args: argparse.Namespace) -> ReplayOptions:
    """Return the options of the replay; raises `ConfigError` or `SourceError` if they are wrong."""
    config = load_config(args.config_file) if args.config_file else None
    target = target_of(config, args.target) if config else None
    base = config.fit_settings(target) if config and target else FitSettings()
    given = {
        name: value
        for name in ("interval", "window", "stale_after")
        if (value := getattr(args, name, None)) is not None
    }
    try:
        settings = FitSettings.validated(asdict(base) | given)
    except InvalidValuesError as error:
        (key, *_), problem = error.mistakes[0]
        option = str(key).replace("_", "-")
        raise SourceError(f"--{option}: {problem}; {args.source} was not read") from None
    is_chosen = config is not None or "interval" in given
    return ReplayOptions(
        target=target.name if target else args.target,
        server=getattr(args, "server", None),
        sampling=args.sampling,
        interval=settings.interval if is_chosen else None,
        settings=settings,
        ceilings=config.resource_settings(target) if config and target else NO_CEILINGS,
        sla_seconds=target.sla_seconds if target else None,
        business_metrics=target.business_metrics if target else (),
        has_class_slas=bool(target and target.class_slas),
    )


def target_of(config: Config, name: str | None) -> Target:
    """Find the target of that name, or the only one; raises `ConfigError` where there is none."""
    known = [target.name for target in config.targets]
    if name is None and len(known) == 1:
        return config.targets[0]
    for target in config.targets:
        if target.name == name:
            return target
    problem = "is missing" if name is None else f"no target {name!r}"
    raise ConfigError([f"--target: {problem}; the configuration has {', '.join(known)}"])


def run_on_source(command: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    """Run a command on a source; raises `StoreError` if that is a broken history."""
    try:
        with interruptible():
            return command(args)
    except sqlite3.Error as error:
        raise as_store_error(args.source, error) from error
