"""Waits for locks, counted for all classes together, are divided over those that wait."""

import numpy as np
import pytest

from models.attribution.waiting_classes import divide_lock_waits, row_locking_classes

INTERVALS = 60


def test_the_waiting_class_is_told_from_one_that_changes_rows_without_waiting() -> None:
    """Both change rows; the waits rise and fall with the time of one of them."""
    chance = np.random.default_rng(5)
    waits = chance.uniform(0.2, 3.0, INTERVALS)
    inserts = chance.uniform(0.2, 1.0, INTERVALS)
    reads = chance.uniform(0.5, 2.0, INTERVALS)
    work = np.column_stack([waits + 0.05, inserts, reads])
    found = divide_lock_waits(work, waits, np.array([1.0, 1.0, 0.0]))
    assert found[:, 0].sum() == pytest.approx(waits.sum(), rel=0.05)
    assert found[:, 1].sum() < 0.05 * inserts.sum()
    assert not found[:, 2].any()


def test_a_steady_load_shares_the_waits_by_the_time() -> None:
    """No interval tells two classes apart: each waits for the same fraction of its time."""
    work = np.full((INTERVALS, 2), 1.0) * np.array([3.0, 1.0])
    found = divide_lock_waits(work, np.full(INTERVALS, 2.0), np.ones(2))
    assert found.sum(axis=0) == pytest.approx([INTERVALS * 1.5, INTERVALS * 0.5], rel=0.01)


def test_what_was_seen_of_the_classes_decides_where_the_load_is_steady() -> None:
    """One waits most of its time, the other hardly: five times the fraction, as was seen."""
    work = np.full((INTERVALS, 2), 1.0) * np.array([3.0, 1.0])
    found = divide_lock_waits(work, np.full(INTERVALS, 2.4), np.array([0.5, 0.1]))
    assert found.sum(axis=0) == pytest.approx([INTERVALS * 2.25, INTERVALS * 0.15], rel=0.01)


@pytest.mark.parametrize("waited", [0.0, 0.4, 1e6])
def test_waits_are_never_longer_than_the_work(waited: float) -> None:
    """A wait that began long ago is counted when it ends, in an interval that has less time."""
    work = np.random.default_rng(6).uniform(0.0, 1.0, (INTERVALS, 3))
    found = divide_lock_waits(work, np.full(INTERVALS, waited), np.array([1.0, 0.0, 1.0]))
    assert (found >= 0).all()
    assert (found <= work + 1e-12).all()
    assert found.sum() <= waited * INTERVALS + 1e-9


def test_nothing_is_divided_where_nobody_locks_rows_or_nothing_ran() -> None:
    """Waits in intervals without statements, or of a workload that only reads."""
    work = np.ones((INTERVALS, 2))
    assert not divide_lock_waits(work, np.ones(INTERVALS), np.zeros(2)).any()
    assert not divide_lock_waits(np.zeros((INTERVALS, 2)), np.ones(INTERVALS), np.ones(2)).any()


def test_classes_that_lock_rows_change_them_or_say_so() -> None:
    """A locking read changes nothing; its digest text names the lock."""
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
