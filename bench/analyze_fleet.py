"""`analyze` of a fleet in a real Prometheus: time and memory by targets and by days.

    python bench/analyze_fleet.py [--targets 25 50 100 200] [--days 3 10 30] [--place FOLDER]

promtool makes the database of series that mysqld_exporter and node_exporter would have left, a
sample each minute; Prometheus serves it on this machine, and the command is run as its users run
it. Memory is that of the command with its processes, shared pages divided (PSS), twice a second.
Prometheus' own CPU is in the last column.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
from many_digest_fixture import ROOT
from measured_programs import RunningProgram, running

from agent.demo.private_server import free_port
from models.arrays import Array
from models.usl.law import Usl

END, STEP, DAY = 1_790_000_000, 60, 86_400
LAW = Usl(sigma=0.02, kappa=0.0005, lam=500.0)
DEMAND = 1 / 4000.0  # CPU seconds that a query takes
CPUS = 2
SHAPES = 10  # sorts of server: their loads are 20 to 90 % of the way to the law's peak
AT_ONCE = 20  # targets in a text for promtool: some 700 MB
WHOLE = "1458h"  # the longest block that promtool makes
LOOK_EVERY = 0.5  # seconds
MIB = 2**20


@dataclass(frozen=True)
class Cost:
    """What one run of `analyze` took."""

    seconds: float
    cpu: float
    memory: float
    """At most, MiB."""
    prometheus_cpu: float
    known: int
    """Targets whose capacity is known."""


def main() -> None:
    """Print a table by targets and one by days."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", type=int, nargs="+", default=[25, 50, 100, 200])
    parser.add_argument("--days", type=int, nargs="+", default=[3, 10, 30])
    parser.add_argument("--place", type=Path, help="where the database is made, and kept")
    args = parser.parse_args()
    most, longest = max(args.targets), max(args.days)
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.place or Path(temporary)
        begun = time.monotonic()
        data = made(folder, most, longest)
        size = sum(file.stat().st_size for file in data.rglob("*") if file.is_file())
        print(f"{most} targets, {longest} days, a sample each {STEP} s: {size / MIB:,.0f} MiB")
        print(f"of blocks, made in {time.monotonic() - begun:,.0f} s\n")
        with serving(folder, data) as prometheus:
            head("targets", f"{longest} days of each")
            for count in args.targets:
                show(count, analysed(prometheus, count, longest), count)
            print()
            head("days", f"{min(args.targets)} targets")
            for days in args.days:
                show(days, analysed(prometheus, min(args.targets), days), min(args.targets))


def head(what: str, of: str) -> None:
    """Print the head of a table."""
    print(f"| {what}, {of} | time | CPU | memory | capacity known | Prometheus' CPU |")
    print("|---|---|---|---|---|---|")


def show(number: int, cost: Cost, targets: int) -> None:
    """Print a row."""
    print(
        f"| {number} | {cost.seconds:,.0f} s | {cost.cpu:,.0f} s | {cost.memory:,.0f} MiB "
        f"| {cost.known} of {targets} | {cost.prometheus_cpu:,.0f} s |",
        flush=True,
    )


def analysed(prometheus: RunningProgram, targets: int, days: int) -> Cost:
    """Run the command over so many targets and days."""
    chosen = "|".join(f"{name(k)}:9104" for k in range(targets))
    words = [str(Path(sys.executable).with_name("mysql-headroom")), "analyze"]
    words += ["--prometheus", f"http://127.0.0.1:{prometheus.port}", "--format", "csv"]
    words += ["--selector", f'{{instance=~"{chosen}"}}', "--since", f"{days}d", "--until", str(END)]
    used, begun = prometheus.cpu(), time.monotonic()
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    watched = psutil.Process(process.pid)
    memory = cpu = 0.0
    with ThreadPoolExecutor(1) as reader:
        output = reader.submit(lambda: process.communicate()[0])
        while not output.done():
            with_children = usage(watched)
            memory, cpu = max(memory, with_children[0]), max(cpu, with_children[1])
            time.sleep(LOOK_EVERY)
    seconds = time.monotonic() - begun
    header, *rows = output.result().splitlines()
    if process.returncode or len(rows) != targets:
        sys.exit(f"analyze has failed with {process.returncode}, {len(rows)} rows")
    place = header.split(",").index("capacity")
    known = sum(bool(row.split(",")[place]) for row in rows)
    return Cost(seconds, cpu, memory, prometheus.cpu() - used, known)


def usage(watched: psutil.Process) -> tuple[float, float]:
    """Its memory in MiB and its CPU seconds, those of its children included."""
    memory = cpu = 0.0
    try:
        for process in (watched, *watched.children(recursive=True)):
            memory += process.memory_full_info().pss / MIB
            times = process.cpu_times()
            cpu += times.user + times.system
    except psutil.Error:
        return 0.0, 0.0
    return memory, cpu


def name(index: int) -> str:
    """The host of a target; all names are as long as the placeholder in `text`."""
    return f"db{index:04d}"


def made(folder: Path, targets: int, days: int) -> Path:
    """The database; one that is there already is taken as it is."""
    data, text = folder / "data", folder / "part.om"
    if data.exists():
        return data
    for first in range(0, targets, AT_ONCE):
        with text.open("wb") as file:
            for index in range(first, min(first + AT_ONCE, targets)):
                content = shape(index % SHAPES, days)
                file.write(content.replace(b"dbXXXX", name(index).encode()))
            file.write(b"# EOF\n")
        words = [program("promtool"), "tsdb", "create-blocks-from", "openmetrics"]
        words += ["--max-block-duration", WHOLE, str(text), str(data)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    text.unlink()
    return data


def shape(kind: int, days: int) -> bytes:
    """A server's series: a load that rises and falls with the day and grows over the weeks."""
    kept = SHAPE_TEXTS.get(kind)
    if kept is None:
        kept = SHAPE_TEXTS[kind] = "".join(lines(kind, days)).encode()
    return kept


SHAPE_TEXTS: dict[int, bytes] = {}


def lines(kind: int, days: int) -> Iterator[str]:
    """The lines of each series, one after the other, for the host `dbXXXX`."""
    random = np.random.default_rng(kind)
    at = np.arange(END - days * DAY, END + 1, STEP, dtype=np.float64)
    peak = (LAW.n_max or 1.0) * (0.2 + 0.7 * kind / (SHAPES - 1))
    daily = 0.55 + 0.4 * np.sin(2 * np.pi * at / DAY) + 0.05 * random.standard_normal(at.size)
    grown = 1.0 + 0.1 * (at - at[-1]) / (30 * DAY)
    threads = np.clip(peak * daily * grown, 0.05, None)
    noise = 1 + 0.02 * random.standard_normal(at.size)
    throughput = np.asarray(LAW.throughput(threads), dtype=np.float64) * noise
    mysqld, node = '{instance="dbXXXX:9104"}', 'instance="dbXXXX:9100"'
    status = "mysql_global_status_"
    yield from series(f"{status}questions{mysqld}", at, STEP * np.cumsum(throughput))
    yield from series(f"{status}threads_running{mysqld}", at, np.round(threads) + 1)
    yield from series(f"{status}uptime{mysqld}", at, at - at[0] + 50_000)
    yield from series(f"{status}threads_connected{mysqld}", at, np.round(threads) + 60)
    yield from series(f"mysql_global_variables_max_connections{mysqld}", at, 0 * at + 500)
    spent = "mysql_perf_schema_events_statements_sum_timer_wait"
    yield from series(f"{spent}{mysqld}", at, STEP * np.cumsum(threads))
    busy = STEP * np.cumsum(throughput) * DEMAND / CPUS
    modes = {"user": 0.8 * busy, "system": 0.2 * busy, "idle": at - at[0] - busy}
    for cpu in range(CPUS):
        for mode, seconds in modes.items():
            labels = f'{{cpu="{cpu}",{node},mode="{mode}"}}'
            yield from series(f"node_cpu_seconds_total{labels}", at, seconds)


def series(named: str, at: Array, values: Array) -> Iterator[str]:
    """The lines of one series."""
    pairs = zip(at.astype(int).tolist(), np.round(values, 2).tolist(), strict=True)
    return (f"{named} {value} {time}\n" for time, value in pairs)


@contextmanager
def serving(folder: Path, data: Path) -> Iterator[RunningProgram]:
    """A Prometheus on that database."""
    config, port = folder / "prometheus.yml", free_port()
    config.write_text("global: {scrape_interval: 1m}\n")
    words: Sequence[str] = [
        program("prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={data}",
        "--storage.tsdb.retention.time=50y",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with running(words, port, folder / "prometheus.log") as prometheus:
        prometheus.wait_for("prometheus_ready", 1.0)
        yield prometheus


def program(called: str) -> str:
    """The program on the path, or among those that scripts/prepare-servers fetched."""
    found = shutil.which(called, path=f"{ROOT / '.cache/prometheus/usr/bin'}") or shutil.which(
        called
    )
    return found or sys.exit(f"there is no {called}; scripts/prepare-servers fetches it")


if __name__ == "__main__":
    main()
