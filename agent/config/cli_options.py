"""`--config.file`, and how errors in it are reported, wherever a command takes one."""

import argparse
from pathlib import Path

from agent.config.loader import ConfigError
from agent.support.escaping import complain_of

USAGE_ERROR = 2


def add_config_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the configuration file."""
    parser.add_argument(
        "--config.file",
        dest="config_file",
        metavar="FILE",
        type=Path,
        required=True,
        help="the configuration, YAML; config.example.yaml shows every key",
    )


def complain(error: ConfigError) -> int:
    """Print every mistake on standard error; answers the exit code."""
    for problem in error.problems:
        complain_of(problem)
    return USAGE_ERROR
