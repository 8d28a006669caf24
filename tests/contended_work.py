"""A load with contention and coherency of known size, without CPU: a busy machine bends nothing.

A statement waits 40 ms, 5 % of that for each that runs beside it, and 1 % for each pair of these
and itself.
"""

from live import Clients

from agent.demo.server import PrivateServer

WORK = """
SELECT SLEEP(0.040 + 0.0020 * beside + 0.0004 * beside * (beside + 1)) FROM (
    SELECT COUNT(*) AS beside FROM performance_schema.threads
     WHERE PROCESSLIST_STATE = 'User sleep') AS others"""
PEAK = 9.7  # threads: sqrt((1 - 0.05) / 0.01)
CAPACITY = 107.0  # statements/s: PEAK / (0.040 + 0.0020 * (PEAK - 1) + 0.0004 * (PEAK - 1) * PEAK)
NO_HOST = {"collectors": {"host": {"enabled": False}}}  # others may fill the CPU that we share


def work(server: PrivateServer, count: int) -> Clients:
    """So many clients that never rest."""
    return Clients(server, WORK, count)
