"""Collectors read one source each, at one instant, and never interpret what they read.

To add one: a module with `prepare(connection)`, and a row in `COLLECTORS`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from collectors import host, statements, status, threads
from collectors.base import Prepared
from collectors.connection import Connection


@dataclass(frozen=True, slots=True)
class CollectorSpec:
    """A collector's row: its name, how it looks at its source, its default interval in seconds.

    `on_server` collectors share the target's one connection, in the order of the table;
    the others read this machine and wait for nobody. One that is `vital` keeps its interval
    also when the server cuts it off.
    """

    name: str
    prepare: Callable[[Connection], Prepared]
    interval: float
    on_server: bool
    vital: bool = False


COLLECTORS = (
    CollectorSpec("status", status.prepare, 1.0, on_server=True, vital=True),
    CollectorSpec("statements", statements.prepare, 1.0, on_server=True),
    CollectorSpec("threads", threads.prepare, 5.0, on_server=True),
    CollectorSpec("host", host.prepare, 1.0, on_server=False),
)
