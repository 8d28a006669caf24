"""Sections of a configuration: every mistake at once, by its place, and never a value."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, field

from agent.config.base_model import Checked, InvalidValuesError, Parsed, Section, given_keys


def _doubled(value: object) -> float:
    if not isinstance(value, int | float):
        raise ValueError("not to be doubled")
    return 2.0 * value


def _is_even(value: float) -> float:
    if value % 2:
        raise ValueError("is odd")
    return value


class Inner(Section, frozen=True):
    """A section below another."""

    share: Annotated[float, Meta(gt=0, le=1)] = 0.5
    doubled: Annotated[float, Parsed(_doubled), Meta(le=10), Checked(_is_even)] = 4.0


class Outer(Section, frozen=True, kw_only=True):
    """A section with a field of each kind."""

    inner: Inner = Inner()
    word: Literal["a", "b"] = "a"
    items: Annotated[tuple[Inner, ...], Meta(max_length=2)] = ()
    names: Mapping[Annotated[str, Meta(pattern=r"^[a-z]+\Z")], int] = field(default_factory=dict)
    own: Annotated[Mapping[str, Any], given_keys(Inner)] = field(default_factory=dict)
    whole: Annotated[int, Meta(ge=1)] | None = None
    flag: bool = False
    text: str

    def __post_init__(self) -> None:
        """Refuse a text that contradicts the flag."""
        if self.flag and self.text == "off":
            raise ValueError("the flag and the text contradict each other")


def mistakes(data: object) -> dict[str, str]:
    """Map the dotted key path of each mistake to its text."""
    with pytest.raises(InvalidValuesError) as caught:
        Outer.validated(data)
    return {".".join(map(str, place)): text for place, text in caught.value.mistakes}


def test_values_are_parsed_then_checked_and_others_have_defaults() -> None:
    """Lists become tuples and whole numbers floats; a missing key has its default."""
    data = {"text": "x", "items": [{"share": 1}], "names": {"a": 1}, "inner": {"doubled": 3}}
    found = Outer.validated(data)
    assert found == Outer(
        text="x", items=(Inner(share=1.0),), names={"a": 1}, inner=Inner(doubled=6.0)
    )
    assert (found.whole, found.word, found.own) == (None, "a", {})


def test_given_keys_have_no_defaults() -> None:
    """They are checked like the section, and override another's values key by key."""
    assert Outer.validated({"text": "x", "own": {"doubled": 1}}).own == {"doubled": 2.0}
    assert mistakes({"text": "x", "own": {"doubled": 1.5, "dubled": 1}}) == {
        "own.dubled": "unknown key; did you mean doubled?",
        "own.doubled": "is odd",
    }


def test_all_mistakes_are_listed_with_their_places() -> None:
    """In every kind of field, and several below the same key."""
    data = {
        "inner": {"share": 0, "doubled": "x", "more": 1},
        "word": "c",
        "items": [{"doubled": 6}, 3, {"share": True}],
        "names": {"A": 1, "b": None},
        "own": 3,
        "whole": 0,
        "flag": 1,
        "other": {"deep": []},
    }
    assert mistakes(data) == {
        "inner.share": "must be greater than 0",
        "inner.doubled": "not to be doubled",
        "inner.more": "unknown key; the keys here are share, doubled",
        "word": "must be 'a' or 'b'",
        "items.0.doubled": "must be less than or equal to 10",
        "items.1": "must be a mapping of keys to values; the keys here are share, doubled",
        "items.2.share": "must be a number",
        "names.A": "is not in the right form",
        "names.b": "must be a whole number",
        "own": "must be a mapping of keys to values; the keys here are share, doubled",
        "whole": "must be greater than or equal to 1",
        "flag": "must be true or false",
        "text": "missing",
        "other": "unknown key; the keys here are inner, word, items, names, own, whole, flag, text",
    }


def test_a_key_of_another_section_is_told_where_it_belongs() -> None:
    """At the top, in a section, and in each of several."""
    data = {"text": "x", "share": 1, "inner": {"flag": True}, "items": [{"names": {}}]}
    assert mistakes(data) == {
        "share": "unknown key here; share belongs in inner or in items[]",
        "inner.flag": "unknown key here; flag belongs at the top of the file",
        "items.0.names": "unknown key here; names belongs at the top of the file",
    }


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"text": "off", "flag": True}, {"": "the flag and the text contradict each other"}),
        ({"text": 3, "flag": True}, {"text": "must be text"}),
        ({"text": "x", "names": {"a\n": 1}}, {"names.a\n": "is not in the right form"}),
        (
            {"text": "x", "items": [{}] * 3},
            {"items": "must have a length less than or equal to 2"},
        ),
        ({"text": "x", "items": "abc"}, {"items": "must be a list"}),
        ({"text": "x", "inner": {"share": 10**400}}, {"inner.share": "must be a finite number"}),
        ({"text": "x", "whole": 1.5}, {"whole": "must be a whole number"}),
        (
            ["text"],
            {
                "": "must be a mapping of keys to values; the keys here are inner, word, items,"
                " names, own, whole, flag, text"
            },
        ),
        ({"text": "x", "names": ["a"]}, {"names": "must be a mapping of keys to values"}),
    ],
)
def test_a_mistake_is_worded_for_the_files_author(data: object, expected: dict[str, str]) -> None:
    """Also one of the whole section, which is checked once its values are valid."""
    assert mistakes(data) == expected


SECRETS = ("hunter2", ["hunter2"], {"hunter2": "hunter2"}, b"hunter2")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (key, value)
        for key in Outer.__struct_fields__
        for value in SECRETS
        if (key, value) != ("text", "hunter2")
    ],
)
def test_no_message_contains_a_value(key: str, value: object) -> None:
    """A secret in a wrong place is not repeated."""
    with pytest.raises(InvalidValuesError) as caught:
        Outer.validated({"text": "x", key: value})
    assert "hunter2" not in str(caught.value)


def test_a_section_is_frozen() -> None:
    """The settings in force do not change."""
    with pytest.raises(AttributeError):
        Inner().share = 0.1  # type: ignore[misc]
