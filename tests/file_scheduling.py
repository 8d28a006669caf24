"""Which process of a test run gets which file: live ones from the start, others meanwhile."""

from typing import Any

from xdist.scheduler import LoadFileScheduling

EVERY = 4
LONG_FILES = (
    *("test_bare_failures.py", "test_live_faults.py", "test_package.py"),
    *("test_live_collectors.py", "test_live_history.py", "test_live_containers.py"),
    *("test_systemd.py", "test_live_classes.py", "test_live_counts.py", "test_live_overload.py"),
    *("test_bare_debian.py", "test_live_division.py", "test_live_alert.py"),
    *("test_live_reading_time.py", "test_live_time_split.py"),
    *("test_live_collector_faults.py", "test_live_safety.py", "test_demo.py"),
    *("test_live_replica.py", "test_live_cpu_sources.py", "test_live_limits_disk.py"),
    *("test_live_limits.py", "test_live_limits_link.py", "test_live_business_metrics.py"),
    *("test_live_sla.py", "test_live_what_if.py", "test_live_limits_connections.py"),
    *("test_live_record_samples.py", "test_live_analyze.py", "test_live_cycles.py"),
    "test_live_replicas.py",
    *("test_live_secrets.py", "test_profile_command.py", "test_live_profile.py"),
    *("test_reload.py", "test_private_server.py", "test_live_kills.py"),
)
"""Files that take half a minute or more begin first, so that no run ends with one of them alone.

The longest come before the shorter ones, and what installs between what waits.
"""


def place(name: str) -> int:
    """Return a file's place among the longest ones; after all of them if it is not among them."""
    return LONG_FILES.index(name) if name in LONG_FILES else len(LONG_FILES)


class TwoEndsScheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Hands out whole files; every fourth process begins with the last of them.

    Live tests come first and mostly wait, three quarters of the time; those without a server come
    last and compute. So they compute while others wait, with what processor time is left (see
    `priority`), and not when all have waited.
    """

    def _assign_work_unit(self, node: Any) -> None:
        if int(node.gateway.id.removeprefix("gw")) % EVERY == EVERY - 1:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: Any) -> None:
        """Hand out the next file with the last test of the one before, and not a test earlier.

        A process has to know its next test when it begins one, and no more: of files of one test
        each it would hold two, for minutes, while others have none left.
        """
        if self._pending_of(self.assigned_work[node]) < 2 or not self.workqueue:
            super()._reschedule(node)
