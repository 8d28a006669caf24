"""Why a division of a resource over classes should be taken with care."""

from dataclasses import dataclass
from enum import StrEnum

from models.attribution.waiting_classes import IO_BOUND

ENOUGH_INTERVALS = 60
STEADY_MAPE = 0.08
"""Held-out error of the model: 0.03 to 0.06 where a call's cost is steady, else 0.1 to 0.2."""
BUSY = 0.9
COMPUTING_LEVEL = 0.15
"""CPU seconds per second of work time of classes that compute: 0.3 to 0.8 on a healthy server."""


class Reason(StrEnum):
    """What weakens an attribution."""

    FEW_INTERVALS = "few_intervals"
    COST_VARIES = "cost_varies"
    SATURATED = "saturated"
    IO_BOUND = "io_bound"
    MOSTLY_WAITING = "mostly_waiting"
    WAITS_UNSEEN = "waits_unseen"
    WITHHELD = "withheld"

    @property
    def sentence(self) -> str:
        """Say it to a person."""
        return SENTENCES[self]


SENTENCES = {
    Reason.FEW_INTERVALS: f"fewer than {ENOUGH_INTERVALS} intervals say little about each class",
    Reason.COST_VARIES: "the cost per call is not steady: some intervals predict others badly",
    Reason.SATURATED: "the host is saturated, and time spent queueing looks like work",
    Reason.IO_BOUND: "the host waits for IO, and the cost per call varies with it",
    Reason.MOSTLY_WAITING: "statements wait most of their time: IO-bound or saturated",
    Reason.WAITS_UNSEEN: "this method counts all time as work; classes that wait get too much",
    Reason.WITHHELD: "predicted too badly to be attributed to classes (--method learned does)",
}


@dataclass(frozen=True)
class HostUse:
    """Mean parts of the host's time, 0..1; None where unknown."""

    busy: float | None = None
    io_wait: float | None = None
    running: float | None = None
    """Of the time in which the server's threads could run, the part in which they had a CPU."""


@dataclass(frozen=True)
class Signs:
    """What the reasons are found from."""

    intervals: int
    held_out_mape: float | None
    level: float | None
    """θ of a CPU target whose times are seconds; None for any other."""
    host: HostUse
    time_is_work: bool


def find_reasons(signs: Signs) -> tuple[Reason, ...]:
    """List every reason for care, the most general first."""
    found = {
        Reason.FEW_INTERVALS: signs.intervals < ENOUGH_INTERVALS,
        Reason.COST_VARIES: (signs.held_out_mape or 0.0) > STEADY_MAPE,
        Reason.SATURATED: (signs.host.busy or 0.0) > BUSY,
        Reason.IO_BOUND: (signs.host.io_wait or 0.0) > IO_BOUND,
        Reason.MOSTLY_WAITING: signs.level is not None and signs.level < COMPUTING_LEVEL,
        Reason.WAITS_UNSEEN: signs.time_is_work,
    }
    return tuple(reason for reason, true in found.items() if true)
