"""Who computes and who waits, on recordings of a MySQL 9.7 that accounts for every class's CPU.

`common` and `io` are of `bench/record_classes.py` on a quiet machine, 150 s each: all loads rise
and fall together while costs per call fall with them; a buffer pool too small for the data.
`steady` are 75 s of eight classes that never change their rates, beside other work. `long` are 70 s
in which a class whose calls take 0.9 s uses 80 % of the CPU, and a procedure sleeps for 4 s a call.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agent.csv_input.class_file import ClassFile, read_classes
from agent.csv_input.host_file import join_host_file, read_host
from models.attribution.division_methods import DividedUse
from models.attribution.resource_division import attribute
from models.attribution.result import Attribution, AttributionReason, disagreement

RECORDED = Path(__file__).parent / "fixtures" / "classes"
WAIT = ("SLEEP", "GET_LOCK")
NAPS = ("SLEEP", "nap")


def divided(kind: str, part: slice, *, texts: bool) -> tuple[Attribution, float, float]:
    """A division, its Σ|share − true share|, and the greatest part that a waiting class gets."""
    host = read_host(str(RECORDED / f"{kind}_host.csv.gz"))
    file: ClassFile = join_host_file(read_classes(str(RECORDED / f"{kind}.csv.gz")), host)
    assert file.y is not None
    assert file.truth is not None
    assert file.intervals.texts is not None
    intervals = file.intervals.at(part)
    known = intervals if texts else replace(intervals, texts=None)
    use = host.worst_minute_use_of(np.arange(len(host.at))[part])
    found = attribute(known, DividedUse(file.y[part], is_cpu_seconds=True), host=use)
    error = disagreement(found.totals, file.truth[part].sum(axis=0))
    assert error is not None
    named = zip(found.classes, file.intervals.texts, strict=True)
    blamed = max(use.share for use, text in named if any(word in (text or "") for word in WAIT))
    return found, error, blamed


@pytest.mark.parametrize(
    ("kind", "with_texts", "without"), [("common", 0.06, 0.06), ("io", 0.2, 0.13)]
)
def test_computing_classes_are_found(kind: str, with_texts: float, without: float) -> None:
    """With digest texts and without any; no waiting class gets 1 %."""
    for texts, most in ((True, with_texts), (False, without)):
        found, error, blamed = divided(kind, slice(None), texts=texts)
        assert error < most
        assert blamed < 0.01
        assert AttributionReason.COST_VARIES in found.reasons


def test_a_constant_load_is_not_attributed_to_the_base() -> None:
    """The priors have usual unit costs and a usual base."""
    for texts, most in ((True, 0.15), (False, 0.15)):
        found, error, blamed = divided("steady", slice(None), texts=texts)
        assert error < most
        assert blamed < 0.02
        assert found.unattributed < 0.25 * found.total


@pytest.mark.parametrize("begin", range(0, 61, 20))
def test_ninety_seconds_of_common_loads_charge_no_waiting_class(begin: int) -> None:
    """Errors that last for many intervals are no evidence that a class computes."""
    _, error, blamed = divided("common", slice(begin, begin + 90), texts=False)
    assert error < 0.15
    assert blamed < 0.05


@pytest.mark.parametrize("begin", range(0, 91, 20))
def test_a_minute_is_enough_with_texts(begin: int) -> None:
    """A call is never free, however little the minute shows of its cost."""
    _, error, blamed = divided("common", slice(begin, begin + 60), texts=True)
    assert error < 0.35
    assert blamed < 0.01


@pytest.mark.parametrize(("texts", "seen"), [(True, True), (True, False), (False, True)])
def test_long_statements_use_cpu_where_they_run(texts: bool, seen: bool) -> None:
    """They end in a later interval, and MariaDB does not show which class is running."""
    host = read_host(str(RECORDED / "long_host.csv.gz"))
    file = join_host_file(read_classes(str(RECORDED / "long.csv.gz")), host)
    assert file.y is not None
    assert file.truth is not None
    intervals, truth = file.intervals, file.truth.sum(axis=0)
    known = intervals if texts else replace(intervals, texts=None)
    known = known if seen else replace(known, inflight_delta=None)
    found = attribute(known, DividedUse(file.y, is_cpu_seconds=True))
    error = disagreement(found.totals, truth)
    assert error is not None
    assert error < 0.2
    k = int(np.argmax(truth))
    largest = found.classes[k]
    assert largest.stderr is not None
    assert abs(largest.total - truth[k]) < 2 * largest.stderr < truth[k]
    assert not largest.waits
    named = zip(found.classes, intervals.texts or (), strict=True)
    assert max(use.share for use, text in named if any(n in (text or "") for n in NAPS)) < 0.01
