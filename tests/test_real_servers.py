"""The capacity of real servers, from recorded loads far below it.

`bench/real_servers.py` recorded MySQL 9.7 with one processor of a virtual machine: a closed loop
found the peak, then an open loop stayed below 30, 50 and 70 % of it. The last run shared both
processors with other programs, which filled them half of the time.
"""

import csv
from pathlib import Path

import numpy as np
import pytest

from models.capacity.answer import Capacity, CapacityReason
from models.capacity.assess import assess_capacity
from models.capacity.observations import Observations
from models.capacity.wall import Resource
from models.trust import Trust
from models.usl import Array
from models.usl_fit import Method, fit

RECORDED = Path(__file__).parent / "fixtures" / "real"
PEAKS = {"hot": 24252.0, "read-only": 28611.0, "read-write": 26431.0, "hot-beside-others": 19739.0}
"""Queries/s, the greatest throughput of the closed loop."""
CAPS = (0.3, 0.5, 0.7)


def recorded(run: str, cap: float) -> Observations:
    """What was seen of a run up to this share of its peak."""
    with (RECORDED / f"{run}.csv").open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if float(row["below"]) <= cap]

    def column(name: str) -> Array:
        return np.array([float(row[name] or "nan") for row in rows])

    used = [Resource(n, column(n), own=column(f"{n}.own")) for n in ("cpu", "server_cpu")]
    columns = (column(name) for name in ("end_s", "throughput", "statement_time"))
    return Observations.of(*columns, resources=used)


def assessed(run: str, cap: float) -> tuple[Capacity, float]:
    """The capacity, and its relative error."""
    found = assess_capacity(recorded(run, cap))
    assert found.value is not None
    return found, found.value / PEAKS[run] - 1


@pytest.mark.parametrize("run", PEAKS)
def test_half_of_the_load_tells_the_capacity_within_a_fifth(run: str) -> None:
    """And the interval holds it, at every level."""
    assert abs(assessed(run, 0.5)[1]) < 0.2
    for cap in CAPS:
        found, error = assessed(run, cap)
        assert found.lower is not None
        assert found.lower / PEAKS[run] < 1.0 < (found.upper or np.inf) / PEAKS[run]
        assert abs(error) < 0.25


@pytest.mark.parametrize("cap", CAPS)
def test_no_fit_of_the_law_is_nearer_over_all_runs(cap: float) -> None:
    """The law alone, least squares and the white paper's line err by more at every level."""
    ours = np.median([abs(assessed(run, cap)[1]) for run in PEAKS])
    for method in Method:
        theirs = []
        for run, peak in PEAKS.items():
            seen = recorded(run, cap)
            seen = seen.select(seen.loaded)
            few = len(seen) < 3
            value = None if few else fit(seen.concurrency, seen.throughput, method).x_max
            theirs.append(np.inf if value is None else abs(value / peak - 1))
        assert ours < np.median(theirs)


def test_queries_that_wait_for_other_programs_are_no_contention() -> None:
    """The law that all intervals give ends at half of the truth; those disturbed are left out."""
    found, error = assessed("hot-beside-others", 0.7)
    assert CapacityReason.OTHERS_INTERFERE in found.reasons
    assert abs(error) < 0.1
    seen = recorded("hot-beside-others", 0.7)
    assert 0.3 < float(np.mean(seen.disturbed)) < 0.7
    blind = [Resource(r.name, r.utilisation) for r in seen.resources[1:]]
    columns = (seen.at, seen.throughput, seen.concurrency)
    deceived = assess_capacity(Observations.of(*columns, resources=blind))
    assert deceived.value is not None
    assert deceived.value < 0.7 * PEAKS["hot-beside-others"]
    assert deceived.trust is not Trust.TRUSTED
