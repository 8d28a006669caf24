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


def residence_time(count: int) -> float:
    """How long a statement takes among so many, in seconds."""
    beside = count - 1
    return 0.040 + 0.0020 * beside + 0.0004 * beside * (beside + 1)


def work(server: PrivateServer, count: int) -> Clients:
    """So many clients that never rest, evenly out of step.

    How long a statement takes is settled when it begins: each waits first until all have begun, or
    those before it would run as if nobody came after.
    """
    seconds = residence_time(count)
    return Clients(server, WORK, count, first=f"DO SLEEP({seconds})", stagger=seconds / count)
