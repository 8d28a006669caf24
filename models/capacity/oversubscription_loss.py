"""The throughput that a full processor loses where more statements run than it takes to fill it.

A few statements at once keep a processor busy. Where clients have more connections, all of them
send statements once it is full: threads take turns, each finds colder caches, and some hold latches
while they wait for the processor (R. Johnson and others, *Decoupling Contention Management from
Scheduling*, 2010; of databases that thrash: H.-U. Heiss and R. Wagner, *Adaptive Load Control in
Transaction Processing Systems*, 1991). So it serves less than at its best number of threads, and
these clients get no more than that after the first burst.

The loss does not show before the processor is full. Measured on eleven loads of MySQL and MariaDB
with one processor and 4 to 96 threads (`bench/real_servers.py`), ln X changed by −0.047 for each
doubling of the threads beyond those that fill it, with a deviation of 0.039 from load to load and
with the machine's own changes in it; commits that share the writes of a log, and loads that wait
for a lock or asleep, need many threads to fill it and lost nothing.
"""

from typing import NamedTuple

import numpy as np

from models.arrays import Array

LOSS_PER_DOUBLING = 0.035
"""The loss of ln X by a doubling of the threads, both mean and deviation: with it the intervals of
55 recorded loads hold 90 % of the measured peaks, without it 81 %."""
ASSUMED_CONNECTIONS = 48.0
"""The number of connections that is assumed where it is not known: pools of 8 to 200 are
common. Of 112 intervals of recorded loads without that count 88 hold the peak, and 70 where no more
than those seen are expected; 86 with 32 connections, 89 with 64."""
LOSSLESS_CONCURRENCY = 4.0
"""The number of statements at once for each processor up to which nothing is lost."""


def filling_concurrency(processors: float, x: float, residence_time: float | None) -> float:
    """Compute how many statements at once fill the processors while none waits.

    By Little's law x·R, with the throughput x (queries/s) that fills them and the residence time R
    (s) of statements that do not wait, None: not known. A part of a processor counts as a whole
    one, which is available for a part of the time.
    """
    return max(LOSSLESS_CONCURRENCY * max(processors, 1.0), x * (residence_time or 0.0))


class ClientConnections(NamedTuple):
    """The clients' connections, as far as they matter once a processor is full."""

    connections: float
    """The number of statements that can usually run at once."""
    residence_time: float | None
    """R of a statement that does not wait, s; None: not known."""

    def loss(self, processors: float, x: float) -> float:
        """Compute the loss of ln x, both mean and deviation; throughput x fills the processors."""
        fill = filling_concurrency(processors, x, self.residence_time)
        doublings = max(float(np.log2(self.connections / fill)), 0.0) if self.connections else 0.0
        return LOSS_PER_DOUBLING * doublings

    def loss_beyond(self, concurrency: Array) -> Array:
        """Compute the loss of ln x where more statements run than usual, both mean and deviation.

        Concurrency in threads, shape (intervals,) like the result; 0 where it is not known.
        """
        beyond = np.log2(np.maximum(concurrency / max(self.connections, 1.0), 1.0))
        return LOSS_PER_DOUBLING * np.nan_to_num(beyond)
