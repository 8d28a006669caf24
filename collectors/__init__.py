"""Collectors read one source each, at one instant, and never interpret what they read.

To add one: a module with `prepare(connection)`, and a row in `COLLECTORS`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from collectors import digests, host, node_exporter, non_client_threads, statement_totals, status
from collectors.base import Prepared
from collectors.connection import Connection
from collectors.disks_and_interfaces import Devices


@dataclass(frozen=True, slots=True)
class CollectorSpec:
    """A collector's row: its name, its function, its default interval in seconds.

    `on_server` collectors share the target's one connection, in the order of the table;
    the others read this machine and do not wait. One that is `vital` keeps its interval
    also when the server cuts it off. `most_share` is the part of all time that readings may take:
    a reading that took long is followed by a longer pause. Where the fit's intervals are shorter
    than usual it reads `readings` times in each, but not more often than each `shortest` seconds.
    """

    name: str
    prepare: Callable[[Connection], Prepared]
    interval: float
    on_server: bool
    vital: bool = False
    most_share: float = 1.0
    readings: int = 3
    shortest: float = 1.0

    def interval_in(self, width: float) -> float:
        """Compute the default interval where the fit's intervals are that wide; both in seconds."""
        return min(max(width / self.readings, self.shortest), self.interval)


_HOST = CollectorSpec("host", host.prepare, 5.0, on_server=False)
COLLECTORS = (
    CollectorSpec("status", status.prepare, 5.0, on_server=True, vital=True),
    CollectorSpec("statements", statement_totals.prepare, 5.0, on_server=True),
    CollectorSpec(
        "threads", non_client_threads.prepare, 15.0, on_server=True, readings=1, shortest=5.0
    ),
    CollectorSpec(
        "digests",
        digests.prepare,
        15.0,
        on_server=True,
        most_share=0.01,
        readings=1,
        shortest=2.0,
    ),
    _HOST,
)


REMOTE_SHORTEST = 2.0
"""Seconds at least between two readings of another machine's node_exporter."""


def collectors_with(
    named: Devices, remote: node_exporter.Fetch | None = None
) -> tuple[CollectorSpec, ...]:
    """The table, with a host of which these devices are read too, or with a remote one."""
    if remote is None:
        changed = replace(_HOST, prepare=partial(host.prepare, named=named))
    else:
        prepare = partial(node_exporter.prepare, fetch=remote)
        changed = replace(_HOST, prepare=prepare, shortest=REMOTE_SHORTEST)
    return tuple(changed if spec is _HOST else spec for spec in COLLECTORS)
