"""How often processors went idle, by the kernel's cpuidle counters.

A processor that goes idle between two queries has to be woken for the next one, and that is paid
until queries overlap. `/sys/devices/system/cpu/cpu*/cpuidle/state*/usage` counts how often each
idle state was entered (Documentation/admin-guide/pm/cpuidle of the kernel); machines without a
cpuidle driver have no such directory. The state POLL is left out: a processor that polls is awake.
"""

from collections.abc import Iterable
from pathlib import Path

CPUS = Path("/sys/devices/system/cpu")
MAX_CPUS = 8
"""Number of processors that are read, spread evenly, as a sample of all."""
POLLING = "POLL"


class IdleEntries:
    """The idle entries of some processors."""

    def __init__(self, cpus: Iterable[int], root: Path = CPUS) -> None:
        """Look up which counters there are; the processors are those that the server may use."""
        known = [files for cpu in sorted(set(cpus)) if (files := _counters(root, cpu))]
        step = max(1, -(-len(known) // MAX_CPUS))
        self._read = known[::step]

    def per_processor(self) -> float | None:
        """Count the idle entries of one processor since boot, on average; None where unknown."""
        try:
            counts = [sum(int(file.read_text()) for file in files) for files in self._read]
        except (OSError, ValueError):  # a processor that was taken offline
            return None
        return sum(counts) / len(counts) if counts else None


def _counters(root: Path, cpu: int) -> list[Path]:
    """The counters of the states in which a processor sleeps; none where they cannot be read."""
    try:
        states = sorted((root / f"cpu{cpu}" / "cpuidle").glob("state*"))
        sleeping = [state for state in states if (state / "name").read_text().strip() != POLLING]
        return [state / "usage" for state in sleeping if (state / "usage").read_text()]
    except OSError:
        return []
