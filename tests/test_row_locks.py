"""Waits for locks, counted for all classes together, are divided over those that wait."""

import numpy as np
import pytest

from models.attribution.waiting_classes import divide_lock_waits, row_locking_classes

INTERVALS = 60


def test_the_waiting_class_is_found_among_two_that_change_rows() -> None:
    """The waits rise and fall with the time of one of them."""
    chance = np.random.default_rng(5)
    waits = chance.uniform(0.2, 3.0, INTERVALS)
    inserts = chance.uniform(0.2, 1.0, INTERVALS)
    reads = chance.uniform(0.5, 2.0, INTERVALS)
    work = np.column_stack([waits + 0.05, inserts, reads])
    found = divide_lock_waits(work, waits, np.array([1.0, 1.0, 0.0]))
    assert found[:, 0].sum() == pytest.approx(waits.sum(), rel=0.05)
    assert found[:, 1].sum() < 0.05 * inserts.sum()
    assert not found[:, 2].any()


def test_under_a_constant_load_waits_are_divided_by_time() -> None:
    """No interval separates the classes: each waits for the same fraction of its time."""
    work = np.full((INTERVALS, 2), 1.0) * np.array([3.0, 1.0])
    found = divide_lock_waits(work, np.full(INTERVALS, 2.0), np.ones(2))
    assert found.sum(axis=0) == pytest.approx([INTERVALS * 1.5, INTERVALS * 0.5], rel=0.01)


def test_under_a_constant_load_sampled_waits_decide() -> None:
    """One was seen waiting most of its time, the other hardly: five times the fraction."""
    work = np.full((INTERVALS, 2), 1.0) * np.array([3.0, 1.0])
    found = divide_lock_waits(work, np.full(INTERVALS, 2.4), np.array([0.5, 0.1]))
    assert found.sum(axis=0) == pytest.approx([INTERVALS * 2.25, INTERVALS * 0.15], rel=0.01)


@pytest.mark.parametrize("waited", [0.0, 0.4, 1e6])
def test_waits_are_never_longer_than_the_work(waited: float) -> None:
    """A wait is counted when it ends, perhaps in an interval that has less time."""
    work = np.random.default_rng(6).uniform(0.0, 1.0, (INTERVALS, 3))
    found = divide_lock_waits(work, np.full(INTERVALS, waited), np.array([1.0, 0.0, 1.0]))
    assert (found >= 0).all()
    assert (found <= work + 1e-12).all()
    assert found.sum() <= waited * INTERVALS + 1e-9


def test_no_waits_are_divided_without_row_locks_or_statements() -> None:
    """Waits in intervals without statements, or of a workload that only reads."""
    work = np.ones((INTERVALS, 2))
    assert not divide_lock_waits(work, np.ones(INTERVALS), np.zeros(2)).any()
    assert not divide_lock_waits(np.zeros((INTERVALS, 2)), np.ones(INTERVALS), np.ones(2)).any()


def test_row_locking_classes_are_found_by_rows_or_text() -> None:
    """A locking read changes nothing; its digest text has the clause."""
    affected = np.array([[0.0, 3.0, 0.0, 0.0, 0.0]])
    texts = (
        "SELECT `a` FROM `t` WHERE `id` = ?",
        "UPDATE `t` SET `a` = ?",
        "SELECT `a` FROM `t` WHERE `id` = ? FOR UPDATE",
        "SELECT `a` FROM `t` LOCK IN SHARE MODE",
        None,
    )
    found = row_locking_classes(affected, texts)
    assert found is not None
    assert found.tolist() == [False, True, True, True, False]
    without = row_locking_classes(affected, None)
    assert without is not None
    assert without.tolist() == [False, True, False, False, False]
    assert row_locking_classes(None, texts) is None
