"""The share of a server's CPU that its statements account for (MySQL's SUM_CPU_TIME).

The rest is used for the network (waiting for the next packet, TLS), connections, background
threads, and by the rest of the host. Where only the CPU time of statements is known, a processor is
full when that time reaches this share of it. The share has a distribution: ln share is normal.

Measured with MySQL 9.7 at full load (bench/uncounted_cpu.py): 0.81 for inserts over TLS to 0.99 for
ranges of 2,000 rows over a socket, on average 0.88; the deviation of ln share is 0.07. At a tenth
of the load the share of the same statements is 5 to 20 % lower, 11 % on average: waking up and the
server's background threads are a larger part then.
"""

from dataclasses import dataclass

from models.trust import MAX_ERROR


@dataclass(frozen=True, slots=True)
class AccountedShare:
    """The share and its uncertainty."""

    value: float
    deviation: float
    """The standard deviation of ln share."""
    is_assumed: bool
    """Whether it was measured on other servers only."""


ASSUMED_SHARE = AccountedShare(0.88, 0.07, is_assumed=True)


def accounted_share(measured: float | None) -> AccountedShare:
    """Return the share that was measured on the server, 0 to 1, or else that of other servers."""
    if measured is None:
        return ASSUMED_SHARE
    return AccountedShare(measured, MAX_ERROR, is_assumed=False)
