"""A server on a law whose counters are read by a simulated clock, as collectors would read them."""

from collections.abc import Callable

import numpy as np

from collectors import CollectorSpec
from collectors.base import CollectorError, FailureKind, Feature, Prepared, Values
from collectors.connection import Connection
from collectors.digests import DigestRows, DigestValues
from models.usl.law import Usl

DAY, HOUR = 86_400.0, 3600.0
STEP = 5.0  # seconds between two looks of every worker
LAW = Usl(sigma=0.03, kappa=0.0008, lam=500.0)
DEMAND = 0.0011  # CPU seconds of a query
CPUS = 8
ACTIVE, STAYS, MAX_ROWS = 60, 8 * HOUR, 10_000  # classes at once; how long; the server's table
NAMES = ("calls", "statement_time", "lock_time", "rows_sent", "rows_examined")


class SimulatedServer:
    """`now` is the clock; the load rises and falls with the day, and classes come and go."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._rng = np.random.default_rng(1)
        self._at = self._born = now()
        self._sums = dict.fromkeys(("questions", "seconds", "cpu", "bytes", "rows"), 0.0)
        self._load = 1.0
        self._rows: dict[str, int] = {}
        self._counters = np.zeros((MAX_ROWS, len(NAMES)))
        self._read_at: float | None = None
        self.is_lost = False

    @property
    def collectors(self) -> tuple[CollectorSpec, ...]:
        """Each of the agent's, with its name."""
        return (
            self._spec("status", self._status, vital=True),
            self._spec("statements", self._statements),
            self._spec("threads", lambda: {"agent": 1.0, "binlog_dump": 0.0, "system": 1.0}),
            self._spec("digests", self._digests),
            self._spec("host", self._host, on_server=False),
        )

    def restart(self) -> None:
        """All that is counted begins at zero."""
        self._born = self._at = self._now()
        self._sums = dict.fromkeys(self._sums, 0.0)
        self._empty_table()

    def _spec(
        self, name: str, read: Callable[[], Values], *, vital: bool = False, on_server: bool = True
    ) -> CollectorSpec:
        def read_now() -> Values:
            if self.is_lost and on_server:
                raise CollectorError(FailureKind.LOST, "simulated: the session is lost")
            self._advance()
            return read()

        def prepare(connection: Connection) -> Prepared:
            del connection
            return Prepared(read_now, (Feature(name, enabled=True),))

        return CollectorSpec(name, prepare, STEP, on_server=on_server, is_vital=vital)

    def _advance(self) -> None:
        """Let the time since the reading before have passed, at one load."""
        seconds, self._at = self._now() - self._at, self._now()
        if seconds <= 0:
            return
        day = 0.5 - 0.5 * np.cos(2 * np.pi * self._at / DAY)
        self._load = float((1.0 + 30.0 * day) * np.exp(self._rng.normal(0, 0.15)))
        rate = float(LAW.throughput(self._load))
        queries = rate * seconds
        self._sums["questions"] += queries
        self._sums["seconds"] += self._load * seconds
        self._sums["cpu"] += DEMAND * queries * float(np.exp(self._rng.normal(0, 0.03)))
        self._sums["bytes"] += 900 * queries
        self._sums["rows"] += 12 * queries
        self._count_classes(queries, seconds)

    def _count_classes(self, queries: float, seconds: float) -> None:
        """Divide the queries over the classes that are in use now."""
        first = int(self._at / STAYS * ACTIVE)
        keys = [f"{self._born:.0f}|{k:064x}|=shop" for k in range(first, first + ACTIVE)]
        if len(self._rows) + ACTIVE > MAX_ROWS:
            self._empty_table()
        places = [self._rows.setdefault(key, len(self._rows)) for key in keys]
        calls = self._rng.poisson(queries * self._rng.dirichlet(np.ones(ACTIVE)))
        spent = calls * self._load * seconds / max(queries, 1e-9)
        columns = (calls, spent, 0.01 * spent, 3 * calls, 12 * calls)
        self._counters[places] += np.column_stack(columns)

    def _empty_table(self) -> None:
        self._rows.clear()
        self._counters[:] = 0.0
        self._read_at = None

    def _status(self) -> Values:
        counted = self._sums
        return {
            "questions": float(int(counted["questions"])),
            "own_statements": 0.0,
            "threads_running": 1.0 + float(self._rng.poisson(self._load)),
            "threads_connected": 60.0,
            "max_connections": 151.0,
            "uptime": float(int(self._now() - self._born)),
            "bytes_received": counted["bytes"],
            "bytes_sent": 3 * counted["bytes"],
            "innodb_rows_read": counted["rows"],
            **dict.fromkeys((f"innodb_rows_{a}ed" for a in ("insert", "updat", "delet")), 0.0),
        }

    def _statements(self) -> Values:
        done = {"statements": self._sums["questions"], "statement_seconds": self._sums["seconds"]}
        return {**done, "in_flight": 0.0, "in_flight_seconds": 0.0}

    def _host(self) -> Values:
        busy, whole = self._sums["cpu"], CPUS * (self._now() - self._born)
        parts = {"user": 0.8 * busy, "system": 0.2 * busy, "idle": whole - busy}
        rest = dict.fromkeys(("nice", "irq", "softirq", "steal", "iowait"), 0.0)
        host = {f"cpu_{name}_seconds": value for name, value in {**parts, **rest}.items()}
        return {**host, "cpus": float(CPUS), "process_cpu_seconds": busy}

    def _digests(self) -> Values:
        """The rows in use, all of them after the table was emptied."""
        before, self._read_at = self._read_at, self._now()
        keys = list(self._rows)[-2 * ACTIVE :] if before is not None else list(self._rows)
        places = [self._rows[key] for key in keys]
        rows = DigestRows(
            names=NAMES,
            keys=keys,
            counters=self._counters[places].copy(),
            age=np.full(len(keys), 1e6),
            complete=before is None,
            since=None if before is None else self._now() - before,
            running={},
            texts={key.split("|")[1]: f"SELECT {key}" for key in keys},
            own_digests=frozenset(),
        )
        return DigestValues(rows, {"rows": float(len(keys))})
