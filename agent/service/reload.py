"""Reload of the configuration while running: applied as a whole, or refused as a whole."""

import logging
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from msgspec.structs import asdict

from agent.config.settings import Config, Target
from agent.config.yaml_loader import ConfigError
from agent.history.history_file import history_path
from agent.service.agent_metrics import ReloadState
from collectors import COLLECTORS

log = logging.getLogger(__name__)


class Reloader:
    """Loads, checks and applies a changed configuration; `state` is the last outcome.

    `load` raises `ConfigError` with every mistake; `apply` puts the configuration in force.
    """

    def __init__(
        self,
        config: Config,
        load: Callable[[], Config],
        apply: Callable[[Config], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._config = config
        self._load = load
        self._apply = apply
        self._clock = clock
        self.state = ReloadState(True, clock())

    def reload(self) -> list[str]:
        """Reload; return every reason why the configuration is refused, none if it is in force."""
        try:
            config = self._load()
            _refuse_changes_that_need_a_restart(self._config, config)
            self._apply(config)
        except ConfigError as error:
            return self._refused(error.problems)
        except Exception as error:
            log.exception("the changed configuration could not be applied")
            return self._refused([f"could not be applied: {error!r}"])
        self._config, self.state = config, ReloadState(True, self._clock())
        log.info("configuration reloaded")
        return []

    def _refused(self, problems: list[str]) -> list[str]:
        self.state = replace(self.state, successful=False)
        for problem in problems:
            log.error("the changed configuration is refused: %s", problem)
        return problems


def _refuse_changes_that_need_a_restart(old: Config, new: Config) -> None:
    """Raise `ConfigError` if the listen address or the history file has changed.

    Another address would make requests fail for a moment, another file leave a gap in both files.
    """
    problems = []
    if new.address != old.address:
        problems.append(f"listen: {new.listen} instead of {old.listen} needs a restart")
    paths = {history_path(config.history.path, os.environ) for config in (old, new)}
    if len(paths) > 1:
        problems.append("history.path: another file needs a restart")
    if problems:
        raise ConfigError(problems)


def monitor_settings(config: Config, target: Target) -> tuple[Any, ...]:
    """Return all settings that determine how a target is monitored, to detect changes.

    A target that joins or leaves a group is read at other times: see `Config.phase`.
    """
    merged = ("collectors", "fit", "resources", "group")
    own = {key: value for key, value in asdict(target).items() if key not in merged}
    collectors = [config.collector_settings(target, spec.name) for spec in COLLECTORS]
    models = config.fit_settings(target), config.resource_settings(target)
    phase = None if target.group is None else config.phase(target)
    return own, target.endpoint, *models, config.classes, collectors, phase
