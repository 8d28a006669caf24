"""How well the capacity is known hours after a saturation, in a window of a day.

    python bench/remembered_saturation.py [--months 8] [--seed 5000]

Prints, by the hours since up to three saturations of each simulated month, the errors of the
capacity while the load is below 95 % of it: how many, the median and 90 % quantile of their size,
how many are more than 15 %, and how many 90 % intervals hold the truth.
"""

import argparse
from collections.abc import Iterator

import numpy as np

from models.capacity.assess import assess_capacity
from testbed.recorded.peak_predictions import FAR_OFF
from testbed.simulated.alert_judgement import saturations
from testbed.simulated.server_months import DAY, HOUR, MINUTE, MINUTES, server_month

STORIES = ("growth", "launch", "bursts")
HOURS = (3, 10, 20)
SATURATIONS = 3
BELOW = 0.95
"""Share of the capacity up to which the load counts as below it."""


def main() -> None:
    """Print a line for each number of hours."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--months", type=int, default=8, help="of each story")
    parser.add_argument("--seed", type=int, default=5000, help="of the first month")
    args = parser.parse_args()
    seeds = range(args.seed, args.seed + args.months)
    rows = [row for story in STORIES for seed in seeds for row in errors(story, seed)]
    for hours in HOURS:
        off, holds = np.array([row[1:] for row in rows if row[0] == hours]).T
        median, most = np.quantile(np.abs(off), (0.5, 0.9))
        print(
            f"{hours:2} h after: {len(off)}, error {median:.1f}/{most:.1f} %,"
            f" {np.count_nonzero(np.abs(off) > FAR_OFF)} far off, {holds.sum():.0f} hold"
        )


def errors(story: str, seed: int) -> Iterator[tuple[int, float, bool]]:
    """Yield hours since a saturation, the error of the capacity (%), and whether it holds."""
    known = server_month(story, seed)
    for one in saturations(known.asked, known.room)[:SATURATIONS]:
        for hours in HOURS:
            end = int((one.end + hours * HOUR) / MINUTE)
            if one.start < DAY or end > MINUTES or known.asked[end - 10 : end].max() >= BELOW:
                continue
            found = assess_capacity(known.day_until(end))
            truth = known.server.capacity * float(
                known.room[end - 1] / known.monthly_load.cost[end - 1]
            )
            if found.value is not None and found.upper is not None:
                off = 100 * (found.value / truth - 1)
                yield hours, off, found.lower is not None and found.lower < truth < found.upper


if __name__ == "__main__":
    main()
