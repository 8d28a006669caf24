"""One server under the load of `class_load`: its samples, and its own counters.

Each flavour plays once for all tests; a test that runs again gets a new performance.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from class_load import BURN, KNOWN, LONG, SLEEP_SECONDS, WORKS, Load, class_of, prepare, user_of
from class_recording import CPU_ON, connected, record

from agent.demo.private_server import Flavour, PrivateServer
from agent.query_classes.class_registry import NONE
from collectors.base import Sample
from collectors.digests import DigestValues
from testbed.real.cgroups import ahead_of_others
from testbed.real.clients import run_as_root
from testbed.real.daemon import wait_until

SECONDS, BURNING_SECONDS = 50, 7
OPTIONS = ("--performance-schema-instrument=wait/io/file/%=ON",)
FILES = """
SELECT FILE_NAME, SUM_NUMBER_OF_BYTES_READ FROM performance_schema.file_summary_by_instance"""
SEEN = "SELECT * FROM performance_schema.events_statements_summary_by_digest"
TEXTS_ASKED = """
SELECT COALESCE(SUM(COUNT_STAR), 0) FROM performance_schema.events_statements_summary_by_digest
 WHERE DIGEST_TEXT LIKE 'SELECT%`DIGEST\\_TEXT`%FROM%'"""
CPU_OF_USERS = {
    "mysql": """
SELECT USER, SUM(SUM_CPU_TIME) / 1e12
  FROM performance_schema.events_statements_summary_by_user_by_event_name
 WHERE EVENT_NAME LIKE 'statement/sql/%' OR EVENT_NAME LIKE 'statement/com/%' GROUP BY USER""",
    "mariadb": "SELECT USER, CPU_TIME FROM information_schema.USER_STATISTICS",
}
BYTES_OF_USERS = {
    "mysql": """
SELECT USER, SUM(VARIABLE_VALUE) FROM performance_schema.status_by_user
 WHERE VARIABLE_NAME IN ('Bytes_sent', 'Bytes_received') GROUP BY USER""",
    "mariadb": "SELECT USER, BYTES_SENT + BYTES_RECEIVED FROM information_schema.USER_STATISTICS",
}

Sums = Mapping[str, float]


@dataclass(frozen=True)
class Scene:
    """A recording of all classes, and the truth by the server's own counters."""

    flavour: Flavour
    taken: list[Sample]
    cpu: Sums
    """Seconds, by work."""
    network: Sums
    """Bytes, by work."""
    files: Sums
    """Bytes read, by the name of the file."""
    texts_asked: int
    """How many times the collector asked for texts."""
    failures: list[str]
    burning: list[Sample]
    """More statements compute than there are processors."""
    sleeping: list[Sample]
    """A statement of `SLEEP_SECONDS` begins and ends."""

    def digests(self) -> list[DigestValues]:
        """Return the readings of the digest table while all classes ran."""
        return [s.values for s in self.taken if isinstance(s.values, DigestValues)]

    def works(self) -> dict[str, str]:
        """The work of each digest whose text was read; what has no digest is the binary one's."""
        texts = [item for values in self.digests() for item in values.rows.texts.items()]
        known = {digest: class_of(text) for digest, text in texts}
        found = {digest: name for digest, name in known.items() if name is not None}
        return found if "binary" in found.values() else {**found, NONE: "binary"}


def play(server: PrivateServer) -> Scene:
    """Run all classes together, ahead of other programs; then computing ones and a long sleeper."""
    prepare(server)
    run_as_root(server, CPU_ON)
    with_digest = {work.name for work in WORKS if not work.binary}  # on either server
    with connected(server) as connection:
        with ahead_of_others(os.getpid()), ahead_of_others(server.pid), Load(server) as load:
            wait_until("a statement of each", lambda: _works_seen(server) >= with_digest)
            before = _truth(server)
            taken = record(connection, SECONDS)
            cpu, network, files = map(_risen, before, _truth(server))
            asked = int(run_as_root(server, TEXTS_ASKED)[0][0])
        with Load(server, [BURN]) as burning:
            time.sleep(1.0)
            burnt = record(connection, BURNING_SECONDS)
        run_as_root(server, KNOWN)
        sleeper = Load(server, [LONG])
        slept = record(connection, SLEEP_SECONDS + 5, sleeper)
    return Scene(
        flavour=server.flavour,
        taken=taken,
        cpu=_by_work(cpu),
        network=_by_work(network),
        files=files,
        texts_asked=asked,
        failures=[*load.failures, *burning.failures, *sleeper.failures],
        burning=burnt,
        sleeping=slept,
    )


def _works_seen(server: PrivateServer) -> set[str | None]:
    """Return the classes of which the server has counted a statement."""
    return {class_of(str(text)) for _, _, text, *_ in run_as_root(server, SEEN)}


def _truth(server: PrivateServer) -> tuple[Sums, Sums, Sums]:
    """Return CPU (s) and bytes of users, and bytes read of files, since the server's start."""
    flavour = server.flavour
    asked = (CPU_OF_USERS[flavour], BYTES_OF_USERS[flavour], FILES)
    cpu, sent, files = (
        {str(name): float(value or 0) for name, value in run_as_root(server, query) if name}
        for query in asked
    )
    by_name: dict[str, float] = {}
    for path, count in files.items():
        by_name[Path(path).name] = by_name.get(Path(path).name, 0.0) + count
    return cpu, sent, by_name


def _risen(before: Sums, after: Sums) -> Sums:
    return {name: value - before.get(name, 0.0) for name, value in after.items()}


def _by_work(users: Sums) -> Sums:
    return {work.name: users.get(user_of(work.name), 0.0) for work in WORKS}
