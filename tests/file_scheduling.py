"""Which process of a run gets which file of tests: live ones from the start, others meanwhile."""

from typing import Any

from xdist.scheduler import LoadFileScheduling

EVERY = 4
LONG_FILES = (
    *("test_bare_failures.py", "test_live_faults.py", "test_live_containers.py"),
    *("test_package.py", "test_live_collectors.py", "test_bare_debian.py"),
    *("test_bare_first_command.py", "test_live_history.py", "test_live_replica.py"),
    *("test_live_counts.py", "test_systemd.py", "test_live_overload.py"),
)
"""What takes a hundred seconds or more begins first, lest a run end with one of these alone."""


def place(name: str) -> int:
    """Where in the order of the longest a file is; after all of them if it is none."""
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
