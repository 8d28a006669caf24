"""Reads how often processors went idle, from the kernel's cpuidle counters.

A processor that goes idle between two queries has to be woken for the next one, a cost that ends
when queries overlap. `/sys/devices/system/cpu/cpu*/cpuidle/state*/usage` counts how often each
idle state was entered (Documentation/admin-guide/pm/cpuidle of the kernel); machines without a
cpuidle driver have no such directory. The state POLL is left out: a processor that polls is awake.
"""

from collections.abc import Iterable
from pathlib import Path

from collectors.cpu_frequency import CPUS

MAX_CPUS = 8
"""Maximum number of processors that are read, an even sample of all."""
POLLING = "POLL"


class IdleEntries:
    """Counts how often some processors entered an idle state."""

    def __init__(self, cpus: Iterable[int], root: Path = CPUS) -> None:
        """Find the counters of these processors, which are those that the server may use."""
        self._cpus, self._root = sorted(set(cpus)), root
        self._files = self._find()

    def per_processor(self) -> float | None:
        """Compute the mean number of idle entries per processor since boot; None where unknown."""
        try:
            counts = [sum(int(file.read_text()) for file in files) for files in self._files]
        except (OSError, ValueError):  # one was taken offline: from the next reading on the others
            self._files = self._find()
            return None
        return sum(counts) / len(counts) if counts else None

    def _find(self) -> list[list[Path]]:
        """Return the counters of each processor to read."""
        known = [files for cpu in self._cpus if (files := _counters(self._root, cpu))]
        return known[:: max(1, -(-len(known) // MAX_CPUS))]


def _counters(root: Path, cpu: int) -> list[Path]:
    """Return the counters of the states in which a processor sleeps; none if unreadable."""
    try:
        states = sorted((root / f"cpu{cpu}" / "cpuidle").glob("state*"))
        sleeping = [state for state in states if (state / "name").read_text().strip() != POLLING]
        return [state / "usage" for state in sleeping if (state / "usage").read_text()]
    except OSError:
        return []
