"""Measure the time to the first trusted result, on simulated servers from their first minute.

    python bench/time_to_first_result.py [--servers 8]

A load that rises and falls once a day, met at a random hour. Printed is the share of servers of
which, so long after the start, there is an interval, and of these how many are trusted and right.
"""

import argparse
from dataclasses import dataclass

import numpy as np

from models.capacity.assess import assess_capacity
from models.capacity.observations import Observations
from models.trust import Trust
from testbed.simulated.day_scenarios import DaySettings, scenarios, simulate_day

PER_MINUTE, PER_DAY = 4, 5760  # intervals of 15 s
LOOKS = {"3 min": 3, "15 min": 15, "1 h": 60, "3 h": 180, "6 h": 360, "12 h": 720, "24 h": 1440}
REACHES = (0.4, 0.6, 0.8)
KINDS = ("law, plateau at the cores", "law, full beyond the peak", "queueing, processor only")
"""Servers that a processor ends, that contention ends, and queues."""


@dataclass(frozen=True)
class TrustAtMoment:
    """The result for one server at one moment."""

    trust: Trust
    bounded: bool
    right: bool
    """The true capacity lies within the interval."""


def main() -> None:
    """Print a row for each highest load and moment."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--servers", type=int, default=8, help="of each kind")
    args = parser.parse_args()
    print("| highest load of the day | after | an upper bound | indicative or better ", end="")
    print("| trusted | the interval holds the truth |")
    print("|---|---|---|---|---|---|")
    for reach in REACHES:
        days = [lived(kind, reach, i) for kind in KINDS for i in range(args.servers)]
        for name, minutes in LOOKS.items():
            looks = [look(seen, truth, minutes * PER_MINUTE) for truth, seen in days]
            shares = (
                np.mean([one.bounded for one in looks]),
                np.mean([one.trust is not Trust.NOT_IDENTIFIABLE for one in looks]),
                np.mean([one.trust is Trust.TRUSTED for one in looks]),
                np.mean([one.right for one in looks]),
            )
            cells = " | ".join(f"{share:.0%}" for share in shares)
            print(f"| {reach:.0%} of the capacity | {name} | {cells} |", flush=True)


def lived(kind: str, reach: float, seed: int) -> tuple[float, Observations]:
    """A server of that kind, and its first two days: one wave of the load each."""
    rng = np.random.default_rng([seed, round(100 * reach)])
    [scenario] = [found for found in scenarios() if found.name == kind]
    server = scenario.server(rng)
    return server.capacity, simulate_day(server, DaySettings(reach, intervals=2 * PER_DAY), rng)


def look(seen: Observations, truth: float, intervals: int) -> TrustAtMoment:
    """Assess the first intervals, as the agent does."""
    found = assess_capacity(seen.select(slice(0, intervals)).thinned())
    low, high = found.lower or 0.0, found.upper or np.inf
    return TrustAtMoment(found.trust, found.upper is not None, low <= truth <= high)


if __name__ == "__main__":
    main()
