"""Detects hosts whose CPU other programs use, from the whole CPU time and that of statements."""

import numpy as np

from agent.window.intervals import Window
from agent.window.resource_utilisation import CPU, CPUS
from models.shared_constants import MAJORITY

CPU_OF_STATEMENTS = 3.0
"""A server's CPU time is at most about this many times its statements' time: it also receives them
and sends their results."""
FREE_SHARE = 0.1
"""The share of the processors that the system itself may use."""
USED_BY_OTHERS = (
    "most of the host's CPU time is not of statements; if it is of other programs, and not of a"
    " replica's appliers, give --no-hosts"
)


def is_mostly_used_by_others(window: Window) -> bool:
    """Return whether in most intervals the host used far more CPU than statements can have."""
    cpus = window.utilisation_or_rate(CPUS)
    busy = window.utilisation_or_rate(CPU) * cpus
    rest = busy - CPU_OF_STATEMENTS * window["statement_time"] - FREE_SHARE * cpus
    known, counts = np.isfinite(rest), window["stands_for"]
    return float(counts[known & (rest > 0)].sum()) > MAJORITY * float(counts[known].sum())
