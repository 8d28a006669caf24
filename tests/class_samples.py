"""Samples that the collectors would read from a simulated server."""

from collections.abc import Iterator

import numpy as np
from simulated_classes import Simulated

from collectors.base import Sample
from collectors.digests import DigestRows, DigestValues

NAMES: tuple[str, ...] = (
    "calls",
    "statement_time",
    "lock_time",
    "rows_sent",
    "rows_examined",
)
START = 1000.0  # monotonic seconds


def samples(
    simulated: Simulated, *, host: bool = True, measured: bool = False, texts: bool = True
) -> Iterator[Sample]:
    """Yield one sample of each collector a second; if `measured`, the server measures CPU."""
    intervals = simulated.intervals
    assert intervals.count is not None
    assert intervals.lock_time is not None
    sizes = dict(intervals.sizes)
    tables = [intervals.count, intervals.statement_time, intervals.lock_time]
    tables += [sizes["rows_sent"], sizes["rows_examined"]]
    names = NAMES
    if measured:
        names, tables = (*NAMES, "cpu_time"), [*tables, simulated.truth]
    sums = np.cumsum(np.stack(tables, axis=2), axis=0)
    cpu, rows = np.cumsum(simulated.y), np.cumsum(sizes["rows_examined"].sum(axis=1))
    known = (
        dict(zip(intervals.names, intervals.texts, strict=True))
        if texts and intervals.texts
        else {}
    )
    assert all(known.values())
    for t in range(len(intervals)):
        at = START + t
        if host:
            times = {"process_cpu_seconds": float(cpu[t]), "process_user_seconds": 0.8 * cpu[t]}
            yield Sample("host", at, times)
        status = {"uptime": 500.0 + t, "innodb_rows_read": float(rows[t])}
        status |= dict.fromkeys(
            ("innodb_rows_inserted", "innodb_rows_updated", "innodb_rows_deleted"), 0.0
        )
        yield Sample("status", at, status)
        digests = DigestRows(
            names=names,
            keys=[f"1|{name}|=shop" for name in intervals.names],
            counters=sums[t],
            age=np.full(len(intervals.names), 1e6),
            complete=t == 0,
            since=None if t == 0 else 1.0,
            running={},
            texts={n: text or "" for n, text in known.items()} if t == 1 else {},
            own_digests=frozenset(),
        )
        yield Sample("digests", at, DigestValues(digests, {}))
