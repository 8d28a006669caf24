"""All groups of a configuration."""

import time
from collections.abc import Callable, Sequence

from agent.assessment.snapshot import STALE_INTERVALS, Snapshot
from agent.config.settings import Config
from agent.groups.group_monitor import GroupMonitor, GroupState

POLL_SECONDS = 1.0
"""Seconds between two checks for an interval that all nodes have in common."""


class Groups:
    """A monitor for each group; `tick` is run by the worker that assesses."""

    def __init__(self, config: Config, snapshots: Callable[[], Sequence[Snapshot]]) -> None:
        self._snapshots = snapshots
        self._monitors: list[GroupMonitor] = []
        self.apply(config)

    def apply(self, config: Config) -> None:
        """Watch the groups of this configuration; the monitors of unchanged groups are kept."""
        before = {monitor.settings: monitor for monitor in self._monitors}
        wanted = []
        for name, targets in config.groups.items():
            settings = config.fit_settings(targets[0])
            names = tuple(target.name for target in targets)
            stale_after = max(settings.stale_after, STALE_INTERVALS * settings.interval)
            wanted.append((name, names, settings.interval, stale_after))
        self._monitors = [before.get(each) or GroupMonitor(*each) for each in wanted]

    def states(self) -> list[GroupState]:
        """Return the latest state of every group, sorted by name."""
        return sorted((monitor.state for monitor in self._monitors), key=lambda s: s.name)

    def tick(self, now: float) -> float:
        """Update all groups at `now` (monotonic seconds); return when to be called next."""
        if self._monitors:
            snapshots, at = self._snapshots(), time.time()
            for monitor in self._monitors:
                monitor.observe(snapshots, at)
        return now + POLL_SECONDS
