"""The cost of waking an idle processor, and the queries that pay it.

A query that finds the processor idle pays for waking it: the interrupt, leaving the idle state (on
a virtual machine through the hypervisor), cold caches. If queries arrive at random, a share 1 − U
of them finds a single processor idle. Clients that are serialised by a processor of their own send
queries evenly: each finds the server idle again, however busy it was, and the utilisation
approaches 1 long before the processor is full. The kernel counts how often a processor goes idle,
so the share of the queries that found it busy is measured, not assumed (`shared_cost`).
"""

from models.shared_constants import EPISODE_SHARE, SIGNIFICANT_Z

WAKEUP_SECONDS = 50e-6
"""The deviation of the processor time (s) that an idle entry costs, from 0 on. About 25, 50 and
150 µs were measured on three virtual machines; it is a small part of long queries."""
SHORT_QUERY_SECONDS = SIGNIFICANT_Z * WAKEUP_SECONDS / EPISODE_SHARE
"""A query of less processor time (s) is short: of longer ones waking is a tenth at most."""
