"""Collectors: each reads one source at one instant, and never interprets what it reads.

To add one, write a module with `prepare(connection)` and add a row to `COLLECTORS`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from collectors import digests, host, node_exporter, statement_totals, status, threads_table
from collectors.base import Prepared
from collectors.connection import Connection
from collectors.device_selection import Devices


@dataclass(frozen=True, slots=True)
class CollectorSpec:
    """One collector: its name, its `prepare` function and its default interval in seconds.

    `on_server` collectors share the target's only connection, in the order of `COLLECTORS`; the
    others' readings do not use it, and do not wait for it. A collector that `is_vital` keeps its
    interval even after the server has aborted its statement. `max_share` is the largest share of
    the time that readings may take: a slow reading is followed by a longer pause. Where the fit's
    intervals are shorter than usual, it reads `readings_per_interval` times in each, but not more
    often than every `min_interval` seconds. One that `awaits_schedule` does not read at once in a
    new session, but when its schedule says: its readings count only from one to the next.
    """

    name: str
    prepare: Callable[[Connection], Prepared]
    interval: float
    on_server: bool
    is_vital: bool = False
    max_share: float = 1.0
    readings_per_interval: int = 3
    min_interval: float = 1.0
    awaits_schedule: bool = False

    def interval_for_width(self, width: float) -> float:
        """Compute the default interval for fit intervals of `width` seconds, in seconds."""
        return min(max(width / self.readings_per_interval, self.min_interval), self.interval)


_HOST = CollectorSpec("host", host.prepare, 5.0, on_server=False)
COLLECTORS = (
    CollectorSpec(
        "status", status.prepare, 7.5, on_server=True, is_vital=True, readings_per_interval=2
    ),
    CollectorSpec(
        "statements", statement_totals.prepare, 7.5, on_server=True, readings_per_interval=2
    ),
    CollectorSpec(
        "threads",
        threads_table.prepare,
        15.0,
        on_server=True,
        readings_per_interval=1,
        min_interval=5.0,
    ),
    CollectorSpec(
        "digests",
        digests.prepare,
        15.0,
        on_server=True,
        max_share=0.01,
        readings_per_interval=1,
        min_interval=2.0,
        awaits_schedule=True,
    ),
    _HOST,
)


REMOTE_MIN_INTERVAL = 2.0
"""Minimum time in seconds between two readings of another machine's node_exporter."""


def collectors_with(
    named: Devices, remote: node_exporter.Fetch | None
) -> tuple[CollectorSpec, ...]:
    """Return `COLLECTORS`; `host` reads this machine, or by `remote` a node_exporter.

    The `named` devices are read too.
    """
    if remote is None:
        host_spec = replace(_HOST, prepare=partial(host.prepare, named=named))
    else:
        prepare = partial(node_exporter.prepare, fetch=remote, named=named)
        host_spec = replace(_HOST, prepare=prepare, min_interval=REMOTE_MIN_INTERVAL)
    return tuple(host_spec if spec is _HOST else spec for spec in COLLECTORS)
