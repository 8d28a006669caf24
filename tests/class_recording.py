"""Recordings of what the collectors read from a real server, and its query classes."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace

from agent.demo.private_server import PrivateServer
from agent.query_classes.class_intervals import ClassIntervalMaker
from agent.query_classes.class_registry import ClassRegistry
from agent.query_classes.period_attribution import ObservedClasses, observed_classes
from collectors import COLLECTORS
from collectors.base import Sample
from collectors.connection import Connection, Login
from collectors.digests import DigestRows, DigestValues
from collectors.endpoint import Endpoint
from testbed.real.server_account import least_account

READ = ("host", "status", "digests", "host", "status")
LATER = 60.0  # seconds after the last sample: no interval waits for another reading
CPU_ON = (
    "UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME IN"
    " ('events_statements_current', 'events_statements_cpu')"
)


@contextmanager
def connected(server: PrivateServer) -> Iterator[Connection]:
    """Open a session of the least account while the block lasts."""
    account = least_account(server)
    connection = Connection(
        Endpoint(socket=server.socket), lambda: Login(*account), timeout=10, limit=10
    )
    connection.open()
    try:
        yield connection
    finally:
        connection.close()


def record(
    connection: Connection, seconds: int, load: AbstractContextManager[object] | None = None
) -> list[Sample]:
    """Read everything once a second for at least that long; a load begins after the first."""
    reads = {spec.name: spec.prepare(connection).read for spec in COLLECTORS}
    taken: list[Sample] = []

    def take() -> None:
        for name in READ:
            read = reads[name]
            assert read is not None, name
            values = read()
            taken.append(Sample(name, time.monotonic(), values))

    take()
    with load or nullcontext():
        for _ in range(seconds):
            time.sleep(1.0)
            take()
    return taken


def without_measured_cpu(sample: Sample) -> Sample:
    """Return the sample without the CPU that the server measures."""
    values = sample.values
    if not isinstance(values, DigestValues) or "cpu_time" not in values.rows.names:
        return sample
    keep = [i for i, name in enumerate(values.rows.names) if name != "cpu_time"]
    rows: DigestRows = replace(
        values.rows,
        names=tuple(values.rows.names[i] for i in keep),
        counters=values.rows.counters[:, keep],
        all_statements=None
        if values.rows.all_statements is None
        else values.rows.all_statements[keep],
    )
    return replace(sample, values=DigestValues(rows, dict(values)))


def classes_observed_in(taken: list[Sample]) -> ObservedClasses:
    """Divide the use over the classes, as `profile` does."""
    registry = ClassRegistry()
    maker = ClassIntervalMaker(registry)
    for sample in taken:
        maker.append(without_measured_cpu(sample))
    return observed_classes(registry, maker.intervals(taken[-1].at + LATER))
