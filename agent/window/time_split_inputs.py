"""The rates from which the time split is computed, per second, between edges.

They are kept with each interval, next to the utilisations. Times are seconds per second.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from agent.config.resources import DISK
from agent.window.sample_columns import SampleColumns
from collectors.base import MILLISECOND
from collectors.threads_table import WAITING_FOR_LOCKS
from models import rates
from models.arrays import Array

RATE = "_per_second"
ROW_LOCKS = f"row_lock_seconds{RATE}"
LOCKS_WAITED_FOR = f"{WAITING_FOR_LOCKS}{RATE}"
"""Seconds per second: the mean number of statements that wait for locks other than row locks."""
RUN_DELAY = f"run_delay_seconds{RATE}"
CLIENT_RUN_DELAY = f"client_run_delay_seconds{RATE}"
"""Mean number of threads that wait for a processor: of all the server's, of its clients'."""
APPLIERS_CPU = f"applier_cpu_seconds{RATE}"
"""Mean number of processors on which threads apply what another server wrote."""
WAITING_FOR_READS = f"waiting_for_reads{RATE}"
"""Seconds per second: the mean number of statements that wait for a read or a flush."""
PROCESS_READS = f"process_read_bytes{RATE}"
SENT, RECEIVED = f"server_sent_bytes{RATE}", f"server_received_bytes{RATE}"
DISK_READS = tuple(
    f"{name}{RATE}" for name in ("reads", "read_bytes", "merged_reads", "read_seconds")
)
"""Suffixes of a disk's name: reads, bytes read, reads merged into others, time of the reads."""
AGENT_SESSIONS = 1.0
"""The agent's own session, which Threads_running counts."""

NamedArray = tuple[str, Array]


def time_split_rates(columns: Mapping[str, SampleColumns]) -> Iterator[NamedArray]:
    """Yield each rate with its name, shape (intervals,), NaN where not known."""
    status, host = columns["status"], columns.get("host")
    yield ROW_LOCKS, MILLISECOND * status.rate("innodb_row_lock_milliseconds")
    if "threads" in columns:
        yield LOCKS_WAITED_FOR, columns["threads"].average(WAITING_FOR_LOCKS)
    yield WAITING_FOR_READS, _reads_waiting(status)
    yield SENT, status.rate("bytes_sent")
    yield RECEIVED, status.rate("bytes_received")
    if host is None:
        return
    yield RUN_DELAY, host.rate("process_run_delay_seconds")
    yield CLIENT_RUN_DELAY, host.rate("connection_run_delay_seconds")
    yield APPLIERS_CPU, host.rate("applier_cpu_seconds")
    yield PROCESS_READS, host.rate("process_read_bytes")
    for name in sorted(host.names):
        if name.startswith(DISK) and name.endswith(":reads"):
            disk = name.removesuffix(":reads")
            found = [host.rate(f"{disk}:{name.removesuffix(RATE)}") for name in DISK_READS]
            if np.nansum(found[0]) > 0:  # a disk without reads is left out
                yield from zip((f"{disk}:{name}" for name in DISK_READS), found, strict=True)


def _reads_waiting(status: SampleColumns) -> Array:
    """Compute the mean of InnoDB's pending reads and redo flushes, at most the running threads."""
    running = np.maximum(status["threads_running"] - AGENT_SESSIONS, 0.0)
    waiting = np.minimum(status["innodb_pending_reads"], running)
    flushing = np.nan_to_num(status["redo_pending_flushes"])
    total = np.minimum(waiting + np.maximum(flushing, 0.0), running)
    known = np.isfinite(total)
    return rates.averages(status.edges, status.at[known], np.maximum(total[known], 0.0))[0]
