"""Options `--config.file` and `--web.config.file`, loading both files, and the history's path."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from agent.config.settings import Config
from agent.config.yaml_loader import ConfigError
from agent.history.history_file import history_path
from agent.web.reloading_config import LoadedWebConfig, WebConfigFile


def add_config_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the configuration file."""
    parser.add_argument(
        "--config.file",
        dest="config_file",
        metavar="FILE",
        type=Path,
        required=True,
        help="the configuration, YAML; `mysql-headroom files config.example.yaml` shows every key",
    )


def add_file_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the configuration file and the web configuration file."""
    add_config_option(parser)
    parser.add_argument(
        "--web.config.file",
        dest="web_file",
        metavar="FILE",
        type=Path,
        help="TLS, headers and users of the web pages; docs/web.md has every key",
    )


def configured_history(config: Config, file: Path) -> Path:
    """Return the history that a configuration file or systemd names; raises `ConfigError`."""
    path = history_path(config.history.path, os.environ)
    if path is None:
        remedy = "give --file DB, of the systemd unit /var/lib/mysql-headroom/history.db"
        raise ConfigError([f"{file}: has no history.path; {remedy}"])
    return path


def load_files(
    load_config: Callable[[], Config], web_file: Path | None
) -> tuple[Config, Callable[[], LoadedWebConfig]]:
    """Load both files; raises `ConfigError` with the mistakes of both."""
    web: Callable[[], LoadedWebConfig] = LoadedWebConfig
    problems: list[str] = []
    try:
        web = WebConfigFile(web_file) if web_file else LoadedWebConfig
    except ConfigError as error:
        problems = error.problems
    try:
        config = load_config()
    except ConfigError as error:
        raise ConfigError([*error.problems, *problems]) from None
    if problems:
        raise ConfigError(problems)
    return config, web
