"""Whether a server was started between two readings of its status."""

from typing import NamedTuple

from collectors.base import Sample
from models.rates import CLOCKS_AGREE

INNODB_COUNTERS = (
    "innodb_reads",
    "innodb_read_bytes",
    "innodb_writes",
    "innodb_written_bytes",
    "innodb_rows_read",
    "innodb_rows_inserted",
    "innodb_rows_updated",
    "innodb_rows_deleted",
)
"""Counters that no FLUSH STATUS sets to zero, only a new start of the server."""


class Session(NamedTuple):
    """Which of the agent's sessions it is, and the number that the server gave it."""

    turn: int
    number: int


class RestartDetector:
    """Told every sample of `status`, and the session that it came through."""

    def __init__(self) -> None:
        self._status: Sample | None = None
        self._session = Session(0, 0)

    def is_another(self, status: Sample, session: Session) -> bool:
        """Say whether the server was started since the previous sample."""
        before, self._status = self._status, status
        earlier, self._session = self._session, session
        if before is None:
            return False
        is_numbered_anew = session.number <= earlier.number
        counts_anew = session.turn > earlier.turn and (
            is_numbered_anew or _fell(INNODB_COUNTERS, before, status)
        )
        return _was_started(before, status, counts_anew)


def _was_started(before: Sample, after: Sample, counts_anew: bool) -> bool:
    """By `Uptime`, in whole seconds, which falls also when the server's clock is set back a little.

    A reading was made somewhere within the time that it took (a stalled network, a suspended
    agent), so the two start times must differ by more than both took. A server that had just
    started at both readings has the same `Uptime`: then only session numbers or engine counters
    that began again (`counts_anew`) show the restart, if the server can be so young.
    """
    born = [status.at - status.values["uptime"] for status in (before, after)]
    fell = all(after.values[name] < before.values[name] for name in ("uptime", "questions"))
    moved = abs(born[1] - born[0]) - before.took - after.took
    can_be_new = born[1] + 1.0 >= before.at
    return fell or moved > CLOCKS_AGREE or (counts_anew and can_be_new)


def _fell(names: tuple[str, ...], before: Sample, after: Sample) -> bool:
    """Whether one of these counters, as far as the server has them, was higher before."""
    known = [name for name in names if name in before.values and name in after.values]
    return any(after.values[name] < before.values[name] for name in known)
