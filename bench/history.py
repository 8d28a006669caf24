"""What the history costs: a write of every target's interval, a day on the disk, reading it back.

    python bench/history.py [--targets 200] [--folder DIR]

The samples are those of a recorded MySQL (tests/fixtures), over and over, on the disk of DIR.
Sizes hold on any machine, times only on this one.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from agent.compare.compare_periods import compare_history
from agent.compare.periods import periods_around
from agent.config.history_settings import HistorySettings
from agent.history.open_database import open_to_read
from agent.history.row_kinds import KINDS, Row
from agent.history.row_mapping import sample_chunks
from agent.history.store import Store
from agent.history.window_reader import WindowQuery, read_window
from agent.history.write_buffer import Batch
from agent.replay.recording_opener import ReplayOptions
from agent.support.clock_pair import ClockPair
from collectors.base import Sample
from testbed.recorded.record_collector_readings import FIXTURES, recorded

WIDTH = 15
DAY = 86_400
ZERO = 1_700_000_000
ROUNDS = 20
AT_ONCE = 100


def main() -> None:
    """Print a row for each question."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", type=int, default=200)
    parser.add_argument("--folder", type=Path, default=None)
    args = parser.parse_args()
    _, samples = recorded(FIXTURES / "mysql-9.7.4.jsonl.gz")
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        print("| question | answer |\n|---|---|")
        write_of_all(Path(folder) / "all" / "history.db", samples, args.targets)
        for kinds in (("intervals",), ("fits",), ("samples",)):
            bytes_a_day = size_of_a_day(Path(folder) / kinds[0] / "history.db", samples, kinds)
            row(f"one target's {kinds[0]} of a day", f"{bytes_a_day / 2**20:.2f} MiB")
        read_back(Path(folder) / "intervals" / "history.db")
        compare_halves(Path(folder) / "intervals" / "history.db")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        row("peak memory of all this", f"{peak:.0f} MiB")


def write_of_all(path: Path, samples: list[Sample], targets: int) -> None:
    """The CPU and the time of one interval of every target, packed and committed."""
    store = Store(path, HistorySettings())
    store.tick(0.0)
    packing, waits = [], []
    for number in range(ROUNDS):
        started = time.process_time()
        for target in range(targets):
            store.put(batch(f"db{target}", number, samples))
        packing.append(time.process_time() - started)
        cpu, resource_limit = time.process_time(), time.monotonic()
        store.tick(float(number))
        waits.append((time.process_time() - cpu, time.monotonic() - resource_limit))
    store.close()
    row(f"packing an interval of {targets} targets, CPU", milliseconds(packing))
    row("writing it, one transaction on this disk, CPU", milliseconds([c for c, _ in waits]))
    row("the same, until it is on the disk", milliseconds([w for _, w in waits]))
    cpu_all = sorted(packing)[ROUNDS // 2] + sorted(c for c, _ in waits)[ROUNDS // 2]
    row("CPU of both, of one target", f"{1000 * cpu_all / targets:.2f} ms every {WIDTH} s")


def size_of_a_day(path: Path, samples: list[Sample], kinds: Sequence[str]) -> int:
    """The bytes of one target's rows of those kinds, over a day."""
    store = Store(path, HistorySettings())
    for number in range(DAY // WIDTH):
        store.put(batch("db", number, samples, kinds))
        if number % AT_ONCE == 0:
            store.tick(float(number))
    store.close()
    return path.stat().st_size


def read_back(path: Path) -> None:
    """The time until a day's window is there again."""
    connection = open_to_read(path)
    wanted = WindowQuery("db", "server", WIDTH, 1000 * ZERO, 1000 * (ZERO + DAY))
    started = time.monotonic()
    found = read_window(connection, wanted)
    seconds = time.monotonic() - started
    connection.close()
    row(f"reading a day's window back ({len(found)} intervals kept)", f"{1000 * seconds:.0f} ms")


def compare_halves(path: Path) -> None:
    """The CPU of a comparison of the day's halves, as a deploy marker's link asks for."""
    periods = periods_around(ZERO + DAY / 2, DAY / 2, ZERO + DAY)
    compare_history(path, ReplayOptions("db"), periods)
    started = time.process_time()
    found = compare_history(path, ReplayOptions("db"), periods)
    seconds = time.process_time() - started
    intervals = found.before.intervals + found.after.intervals
    row(f"comparing its halves ({intervals:,} intervals), CPU", f"{1000 * seconds:.0f} ms")


def batch(
    target: str, number: int, samples: list[Sample], kinds: Sequence[str] = tuple(KINDS)
) -> Batch:
    """What one interval of a target gives, of those kinds."""
    labels = (target, "server")
    at = 1000 * (ZERO + WIDTH * number)
    first = samples[0].at + (number * WIDTH) % 80
    part = [sample for sample in samples if first <= sample.at < first + WIDTH]
    resources = {"cpu": 0.31 + number % 7 / 100, "server_cpu": 0.29, "connections": 0.05}
    numbers = (15.0, 1234.5 + number, 3.21 + number % 11, 4.5, 15.0, 1.0, 0.0, 1.0)
    interval = Row(labels, at, (*numbers, resources))
    words = ("trusted", None, "cpu", "statement_time")
    fit = Row(labels, at, (*words, 500.0, *(1000.1 + number / k for k in range(1, 14))))
    return Batch(
        *labels,
        [interval] if "intervals" in kinds else [],
        [fit] if "fits" in kinds else [],
        sample_chunks(part, ClockPair(first, float(ZERO + WIDTH * number)))
        if "samples" in kinds
        else [],
    )


def milliseconds(seconds: list[float]) -> str:
    """The median and the greatest."""
    ordered = sorted(seconds)
    return f"{1000 * ordered[len(ordered) // 2]:.1f} ms, {1000 * ordered[-1]:.1f} ms at most"


def row(question: str, answer: str) -> None:
    """One line of the table."""
    print(f"| {question} | {answer} |")


if __name__ == "__main__":
    main()
