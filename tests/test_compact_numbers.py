"""Numbers by name in little memory."""

import tracemalloc
from collections.abc import Callable, Mapping

import pytest

from agent.support.compact_numbers import CompactNumbers

NAMES = tuple(f"counter_{number}" for number in range(26))


def reading(number: int) -> dict[str, float]:
    """A reading of the same names each time."""
    return {name: number + 0.5 * place for place, name in enumerate(NAMES)}


def memory_of(make: Callable[[dict[str, float]], Mapping[str, float]]) -> int:
    """Bytes that a hundred readings take."""
    tracemalloc.start()
    try:
        kept = [make(reading(number)) for number in range(100)]
        return tracemalloc.get_traced_memory()[0] if kept else 0
    finally:
        tracemalloc.stop()


def test_they_are_those_of_the_dict() -> None:
    """Every name has its number, in the same order, and no other name has one."""
    compact = CompactNumbers({"b": 2.0, "a": 1.5})
    assert list(compact.items()) == [("b", 2.0), ("a", 1.5)]
    assert compact == {"a": 1.5, "b": 2.0}
    assert compact != CompactNumbers({"a": 1.5, "c": 2.0})
    assert (len(compact), "a" in compact, "c" in compact) == (2, True, False)
    assert compact.get("c", 7.0) == 7.0
    with pytest.raises(KeyError, match="c"):
        compact["c"]
    assert repr(compact) == "{'b': 2.0, 'a': 1.5}"


def test_many_take_a_third_of_the_memory_of_dicts() -> None:
    """Names are shared, and a number takes eight bytes."""
    assert memory_of(CompactNumbers) < memory_of(dict) / 3
