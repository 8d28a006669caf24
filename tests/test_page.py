"""The page for people: what it says in each state, and that it stays whole."""

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from agent.export.page import render
from agent.snapshot import CollectorHealth, FitState, Health, Load, Snapshot, Source
from collectors.base import FailureKind, Feature
from models.rates import Array
from models.usl import Usl
from models.usl_fit import fit_map

NOW = 1_700_000_000.0
LAW = Usl(sigma=0.03, kappa=0.0008, lam=500.0)
VOID = {"meta", "circle", "line", "polyline", "br"}


def snapshot(*levels: float, up: bool | None = True, age: float = 5.0) -> Snapshot:
    """A target that has run at those concurrencies."""
    n = [level * (1 + 0.01 * k) for k in range(4) for level in levels]
    x = [float(LAW.throughput(level)) for level in n]
    fit = fit_map(n, x) if levels else None
    usl = FitState(NOW - age, fit, Source.STATEMENT_TIME, _array(n), _array(x))
    load = Load(NOW - age, 1234.0, {Source.STATEMENT_TIME: 12.0}, {"agent": 1.0})
    waiting = FitState(waiting="no complete interval yet")
    return Snapshot(
        "db1", NOW, 60.0, Health(up, "MySQL 9"), load if levels else None, usl if fit else waiting
    )


def _array(values: list[float]) -> Array:
    return np.array(values)


class Nesting(HTMLParser):
    """Checks that every element that is opened is closed in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Open."""
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the last one opened."""
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Text that a person sees."""
        if self.open[-1:] != ["style"]:
            self.texts.append(data)


def seen(*snapshots: Snapshot, now: float = NOW) -> str:
    """The page's text, after its markup was checked."""
    parser = Nesting()
    parser.feed(render(list(snapshots), now))
    parser.close()
    assert parser.open == []
    return " ".join(" ".join(parser.texts).split())


WIDE = (1.0, 2.0, 4.0, 8.0, 16.0, 24.0, 32.0, 40.0)


def test_a_trusted_fit_leads_with_the_peak_and_shows_the_numbers() -> None:
    """The sentence first, then load, peak with its interval, and headroom."""
    text = seen(snapshot(*WIDE))
    assert "up trusted MySQL 9" in text
    assert "The peak is " in text
    assert "throughput 1,234 /s" in text
    assert "used by the fit" in text
    assert "90 %: " in text
    assert "throughput headroom 79 %" in text
    assert "not to be relied on" not in text


def test_a_fit_that_cannot_be_trusted_says_why_and_what_would_settle_it() -> None:
    """No number without its caution."""
    text = seen(snapshot(1.0, 1.5, 2.0))
    assert "not identifiable" in text
    assert "cannot be told from these points yet" in text
    assert "the peak is at least" in text
    assert "would settle it" in text
    assert "not to be relied on yet" in text


def test_before_the_first_fit_it_says_what_is_awaited() -> None:
    """A newcomer sees that it works and why there is nothing yet."""
    assert "connecting" in seen(snapshot(up=None))
    assert "No prediction yet: no complete interval yet." in seen(snapshot())


def test_a_target_that_is_down_shows_the_error() -> None:
    """The reason is on the page, not only in the log."""
    status = CollectorHealth(
        "status", False, 3.0, 1, {FailureKind.TIMEOUT: 2}, "db1:3306: <no answer>", NOW - 90
    )
    text = seen(replace(snapshot(up=False), health=Health(False, "MySQL 9", 0, (status,))))
    assert "db1 down" in text
    assert "No prediction yet: db1:3306: <no answer>." in text
    assert "status fails 3000.0 ms 90 s ago 2 1" in text


def test_a_stale_fit_is_withheld_and_its_age_told() -> None:
    """Old numbers are not shown as if they were new."""
    text = seen(snapshot(*WIDE), now=NOW + 600)
    assert "the last fit is 10 min old and withheld" in text
    assert "headroom %" not in text
    assert "predicted peak" not in text


def test_what_is_missing_comes_with_its_remedy() -> None:
    """The exact statement that mends it, escaped."""
    lack = Feature("statements", False, "it is off", "GRANT <x>")
    text = seen(replace(snapshot(), health=Health(True, "MySQL 9", 0, (), (lack,))))
    assert "Not available: statements: it is off remedy: GRANT <x>" in text


@pytest.mark.parametrize("count", [0, 1, 200])
def test_any_number_of_targets_fits_on_the_page(count: int) -> None:
    """Targets are in the order of their names."""
    text = seen(*(replace(snapshot(), target=f"t{k:03d}") for k in reversed(range(count))))
    places = [text.index(f"t{k:03d}") for k in range(count)]
    assert places == sorted(places)
