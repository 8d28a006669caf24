"""Detects whether a server was restarted between two readings of its status."""

from dataclasses import replace
from typing import NamedTuple

from collectors.base import Sample
from models.rates import START_TOLERANCE

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
"""Counters that FLUSH STATUS does not reset, only a restart of the server."""


class SessionIds(NamedTuple):
    """A session: its number among the agent's own, and its connection ID on the server."""

    connect_number: int
    connection_id: int


class RestartDetector:
    """Detects restarts from every sample of `status` and the session that read it."""

    def __init__(self) -> None:
        self._status: Sample | None = None
        self._session = SessionIds(0, 0)
        self._server_time: float | None = None

    def was_restarted(
        self, status: Sample, session: SessionIds, server_time: float | None = None
    ) -> bool:
        """Return whether the server was restarted since the previous sample.

        `Uptime` counts by the server's clock. Where its time (Unix s) is known at both samples it
        counts, as either clock may be set, else the time of the agent's clock.
        """
        before, self._status = self._status, status
        earlier, self._session = self._session, session
        time_before, self._server_time = self._server_time, server_time
        if before is None:
            return False
        if time_before is not None and server_time is not None:
            before, status = replace(before, at=time_before), replace(status, at=server_time)
        ids_reset = session.connection_id <= earlier.connection_id
        counters_reset = session.connect_number > earlier.connect_number and (
            ids_reset or _any_fell(INNODB_COUNTERS, before, status)
        )
        return _was_restarted(before, status, counters_reset)


def _was_restarted(before: Sample, after: Sample, counters_reset: bool) -> bool:
    """Return whether the server was restarted, by its `Uptime` in whole seconds.

    `Uptime` also falls when the server's clock is set back. A reading was made at some time within
    its duration (a stalled network, a suspended agent), so the two start times must differ by more
    than both durations. A server that had just started at both readings has the same `Uptime`: then
    only connection IDs or InnoDB counters that began again (`counters_reset`) show the restart, if
    the server can be that young.
    """
    started_at = [status.at - status.values["uptime"] for status in (before, after)]
    fell = all(after.values[name] < before.values[name] for name in ("uptime", "questions"))
    moved = abs(started_at[1] - started_at[0]) - before.took - after.took
    can_be_new = started_at[1] + 1.0 >= before.at
    return fell or moved > START_TOLERANCE or (counters_reset and can_be_new)


def _any_fell(names: tuple[str, ...], before: Sample, after: Sample) -> bool:
    """Return whether one of these counters, as far as the server has them, was higher before."""
    known = [name for name in names if name in before.values and name in after.values]
    return any(after.values[name] < before.values[name] for name in known)
