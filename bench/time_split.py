"""Where a real server's statement time goes, as the agent finds it and as performance_schema does.

    python bench/time_split.py [--flavour mysql|mariadb] [--seconds 12]
        [--play targets|classes|together]

Six loads one after the other on one private server: a scan that computes, a scan of a disk that a
cgroup throttles (8 MB of buffer pool, O_DIRECT), results over a link that tc limits, updates of one
row, reads of a table that is locked again and again, and SLEEP. The agent sees what it always sees.
The truth is that of the sessions' own threads: file, socket and metadata waits and, for the
updates, waits in the table handler (events_waits_summary_by_thread_by_event_name, its instruments
switched on for that alone); CPU and the wait for a processor of the same threads are the kernel's
(/proc/PID/task/TID/schedstat).
The split is the whole target's; with `--play classes` it is that of the one class by
`mysql-headroom profile`, and with `together` that of each while all run at once. It takes root. The
throttled disk is named to the agent with its limit, as the configuration does, and the link too.
Linear read-ahead is off on MariaDB, whose sessions wait for its pages unseen by performance_schema.
"""

import argparse

from models.time_split.limiting_resource import LimitingResource
from testbed.real.statement_time_scenarios import classes, classes_alone, line, results

PLAYED = {"targets": results, "classes": classes_alone, "together": classes}


def main() -> None:
    """Print the table of each server."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flavour", choices=["mysql", "mariadb"], action="append")
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--play", choices=list(PLAYED), default="targets")
    args = parser.parse_args()
    print(
        "| server | load | limited by, share | found: "
        + " / ".join(LimitingResource)
        + " | truth | worst |"
    )
    print("|---|---|---|---|---|---|")
    for flavour in args.flavour or ("mysql", "mariadb"):
        for result in PLAYED[args.play](flavour, args.seconds):
            print(line(result), flush=True)


if __name__ == "__main__":
    main()
