"""How well the capacity is predicted: on simulated servers, and on a recorded run with its truth.

    python bench/capacity.py [--quick] [--servers 6]
    python bench/capacity.py --recorded FOLDER   (open_hot.csv and hot.csv)
    python bench/capacity.py --speed

Coverage: the share of true capacities within the 90 % interval, or above the lower bound where
there is no upper one. `gate` is the law alone, believed where 70 % of its peak was seen and its
interval spans less than a factor of 1.5, on the same points.
"""

import argparse
import csv
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import process_time

import numpy as np

from agent.support.memory_tuning import keep_freed_memory
from models.arrays import Array
from models.capacity.assess import assess_capacity
from models.capacity.observations import Observations
from models.capacity.resource_and_limit import Resource
from models.trust import Trust
from models.usl.fit import fit_bayes, fit_linearised, fit_lsq
from testbed.simulated.capacity_trials import Trial, passes_gate, trials
from testbed.simulated.day_scenarios import scenarios, simulate_day

PEAK_SHARES = (0.15, 0.30, 0.45, 0.58)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one server a cell")
    parser.add_argument("--servers", type=int, default=6, help="servers per scenario and load")
    parser.add_argument("--recorded", type=Path, metavar="FOLDER")
    parser.add_argument("--speed", action="store_true")
    args = parser.parse_args()
    if args.recorded:
        print_recorded(args.recorded)
    elif args.speed:
        print_speed()
    else:
        print_simulated(list(trials(1 if args.quick else args.servers)))


def print_simulated(done: list[Trial]) -> None:
    """Print a line for each scenario, each highest load, and all."""
    print(f"{len(done)} simulated days. Errors in %: median/90 % quantile of their size.\n")
    print("| | covered | error | trusted | error of the trusted, worst | gate | its error, worst |")
    print("|---|---|---|---|---|---|---|")
    for name in dict.fromkeys(t.scenario for t in done):
        print(line(name, [t for t in done if t.scenario == name]))
    for reach in sorted({t.reach for t in done}):
        print(line(f"seen up to {reach:.0%}", [t for t in done if t.reach == reach]))
    print(line("**all**", done))


def line(name: str, some: list[Trial]) -> str:
    """Summarise some trials in one row."""
    trusted = [t for t in some if t.capacity.trust is Trust.TRUSTED]
    gate = [t for t in some if passes_gate(t.law)]
    gate_errors = np.array([(t.law.x_max or np.inf) / t.truth - 1 for t in gate if t.law])
    cells = [
        f"{np.mean([t.covered for t in some]):.0%}",
        summary(np.array([t.error for t in some])),
        f"{len(trusted) / len(some):.0%}",
        summary(np.array([t.error for t in trusted]), worst=True),
        f"{len(gate) / len(some):.0%}",
        summary(gate_errors, worst=True),
    ]
    return f"| {name} | " + " | ".join(cells) + " |"


def summary(errors: Array, *, worst: bool = False) -> str:
    """Median/90 % quantile of the size of errors in per cent, and the worst with its sign."""
    errors = errors[np.isfinite(errors)]
    if len(errors) == 0:
        return "–"
    middle, far = np.quantile(np.abs(errors), (0.5, 0.9))
    cell = f"{100 * middle:.1f}/{100 * far:.0f}"
    return f"{cell}, {100 * errors[np.argmax(np.abs(errors))]:+.0f}" if worst else cell


def print_recorded(folder: Path) -> None:
    """Print what every method predicts for a recorded run, by how much of the peak was seen."""
    peak = float(max(_columns(folder / "hot.csv")["qps"]))
    run = _columns(folder / "open_hot.csv")
    x, n, running, host, process = (
        _means(run[name])
        for name in ("qps", "N_little", "threads_running", "host_util", "mysqld_cpu")
    )
    running = np.maximum(running - 1, 0)
    at = 15.0 * np.arange(1, len(x) + 1)
    resources = [Resource("host", host), Resource("process", process / 2)]
    print(f"True peak {peak:.0f} queries/s. Error of the prediction in %.\n")
    print(
        "| N by | below | capacity | 90 % interval | limit | trust | reasons "
        "| limit | USL | lsq | white paper |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name, column, variance in (
        ("statement time", n, np.zeros_like(n)),
        ("Threads_running", running, np.maximum(running, 1 / 15) / 15),
    ):
        seen = Observations.of(at, x, column, n_variance=variance, resources=resources)
        for share in PEAK_SHARES:
            print(_recorded_line(name, share, seen.select(x <= share * peak), peak))


def _recorded_line(name: str, share: float, seen: Observations, peak: float) -> str:
    def off(value: float | None) -> str:
        return "–" if value is None else f"{100 * (value / peak - 1):+.0f}"

    found = assess_capacity(seen)
    loaded = seen.select(seen.loaded)
    n, x = loaded.concurrency, loaded.throughput
    law = fit_bayes(n, x, n_variance=loaded.n_variance)
    resource_limits = [
        resource_limit.x_max for resource_limit in found.resource_limits if resource_limit.x_max
    ]
    cells = [
        name,
        f"{share:.0%}",
        off(found.value),
        f"{off(found.lower)} to {off(found.upper)}",
        found.limit or "–",
        found.trust.replace("_", " "),
        ", ".join(found.reasons).replace("_", " "),
        off(min(resource_limits, default=None)),
        f"{off(law.x_max)} ({law.trust.replace('_', ' ')})",
        off(fit_lsq(n, x).x_max),
        off(fit_linearised(n, x).x_max),
    ]
    return "| " + " | ".join(cells) + " |"


def _columns(path: Path) -> dict[str, Array]:
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def _means(seconds: Array) -> Array:
    """Average 15 s each."""
    whole = len(seconds) // 15 * 15
    means: Array = seconds[:whole].reshape(-1, 15).mean(axis=1)
    return means


def print_speed() -> None:
    """Print the time of an assessment of 500 intervals and 10 resources, beside curve_fit's."""
    from scipy.optimize import curve_fit

    keep_freed_memory()  # as the agent does
    rng = np.random.default_rng(1)
    scenario = scenarios()[0]
    seen = simulate_day(scenario.server(rng), scenario.settings(0.8), rng).select(np.arange(480))
    many = [
        Resource(f"r{i}", r.utilisation * (0.5 + 0.05 * i))
        for i in range(5)
        for r in seen.resources
    ]
    seen = Observations.of(seen.at, seen.throughput, seen.concurrency, resources=many)
    loaded = seen.select(seen.loaded)

    def law(n: Array, sigma: float, kappa: float, lam: float) -> Array:
        return lam * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))

    start = (0.01, 1e-4, float(np.max(loaded.throughput / loaded.concurrency)))
    ours = _fastest(lambda: assess_capacity(seen))
    alone = _fastest(lambda: fit_bayes(loaded.concurrency, loaded.throughput))
    for count in (0, 1, 2, 5):
        fewer = replace(seen, resources=tuple(many[:count]))
        print(f"with {count} resources {1e3 * _fastest(partial(assess_capacity, fewer)):.1f} ms")
    peer = _fastest(lambda: curve_fit(law, loaded.concurrency, loaded.throughput, start))
    print(f"assessment {1e3 * ours:.1f} ms, of which the law {1e3 * alone:.1f} ms;")
    print(f"curve_fit {1e3 * peer:.1f} ms; ratio {ours / peer:.1f}")


def _fastest(task: Callable[[], object]) -> float:
    """Take the least time of fifteen runs, s of CPU."""
    seconds = []
    for _ in range(15):
        start = process_time()
        task()
        seconds.append(process_time() - start)
    return min(seconds)


if __name__ == "__main__":
    main()
