"""Reading the configuration file, and overriding its values from the command line."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.config.contradictions import contradictions
from agent.config.existing_file import relative_to
from agent.config.settings import Config
from agent.config.yaml_loader import read_yaml


def load_config(path: Path, override: Mapping[str, object] | None = None) -> Config:
    """Load and check a configuration file; raises `ConfigError` with all its mistakes.

    `override` has values that replace the file's, in the file's own structure. Relative paths start
    at the file's folder.
    """
    document = read_yaml(path, "`mysql-headroom files config.example.yaml`")
    _merge(document.data, override or {})
    with relative_to(path.parent):
        return document.checked(Config, contradictions(document.data))


def _merge(data: dict[Any, Any], override: Mapping[str, object]) -> None:
    for key, value in override.items():
        if isinstance(value, Mapping) and isinstance(data.get(key), dict):
            _merge(data[key], value)
        else:
            data[key] = value
