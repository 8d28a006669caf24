"""`--config.file`, wherever a command takes one."""

import argparse
from pathlib import Path

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
