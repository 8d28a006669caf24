"""Sections of a configuration file: frozen values, whose annotations say what they must be.

msgspec checks the types and the bounds of single values, and would stop at the first mistake; here
all mistakes are collected, each with its key path and without its value.
"""

import re
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, Self, Union, cast, get_args, get_origin

import msgspec

from agent.support.errors import InputError

KeyPath = tuple[str | int, ...]
Mistake = tuple[KeyPath, str]
"""The keys and indices that lead to a value, and what is wrong with it."""
WRONG_FORM = "is not of the right form"
TYPE_MISTAKES = {
    "str": "must be text",
    "bool": "must be true or false",
    "int": "must be a whole number",
    "float": "must be a number",
}
COMPARISONS = {
    "<=": "less than or equal to",
    "<": "less than",
    ">=": "greater than or equal to",
    ">": "greater than",
}
BOUND = re.compile(r"Expected `\w+`( of length)? ([<>]=?) ([-\d.e+]+)")


class Parsed(NamedTuple):
    """Marks what converts a value before its type is checked; it raises ValueError."""

    parse: Callable[[object], Any]


class Checked(NamedTuple):
    """Marks what refuses or converts a value of the right type; it raises ValueError."""

    check: Callable[[Any], Any]


class InvalidValuesError(InputError, ValueError):
    """Values that cannot be used, all of them listed."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__("; ".join(text for _, text in mistakes))
        self.mistakes = mistakes


class Section(msgspec.Struct, frozen=True):
    """Frozen, exact in its types, closed to unknown keys.

    Contradictions between its keys are looked for in `__post_init__`, which raises ValueError.
    """

    @classmethod
    def validated(cls, data: object) -> Self:
        """A section from what a file says; raises `InvalidValuesError` with all mistakes."""
        mistakes: list[Mistake] = []
        with _collected(mistakes):
            return cast(Self, _section(data, cls))
        raise InvalidValuesError(mistakes)


def given_keys(section: type[Section]) -> Parsed:
    """Mark a mapping of those keys of a section that are given, without the defaults of others."""

    def parse(data: object) -> Mapping[str, Any]:
        found, mistakes = _given(data, section)
        if mistakes:
            raise InvalidValuesError(mistakes)
        return found

    return Parsed(parse)


def validated(value: object, hint: Any) -> Any:
    """A value as its annotation has it; raises ValueError, which may be `InvalidValuesError`."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _marked(value, args[0], args[1:])
    if origin in (Union, types.UnionType):  # X | None
        return None if value is None else validated(value, args[0])
    if origin is Literal:
        return _one_of(value, args)
    if origin is tuple:
        return _items(value, args[0])
    if origin is Mapping:
        return _entries(value, *args)
    if isinstance(hint, type) and issubclass(hint, Section):
        return _section(value, hint)
    return _converted(value, hint)


def _marked(value: object, hint: Any, marks: tuple[Any, ...]) -> Any:
    """The value parsed, of the right type, within bounds, and checked, in this order."""
    for mark in marks:
        if isinstance(mark, Parsed):
            value = mark.parse(value)
    value = validated(value, hint)
    for mark in marks:
        if isinstance(mark, msgspec.Meta):
            _converted(value, Annotated[type(value), mark])
        elif isinstance(mark, Checked):
            value = mark.check(value)
    return value


def _section(data: object, section: type[Section]) -> Section:
    if isinstance(data, section):
        return data
    found, mistakes = _given(data, section)
    mistakes += [
        ((key,), "missing")
        for key, field in _fields(section).items()
        if field.required and key not in cast(Mapping[Any, Any], data)
    ]
    if mistakes:
        raise InvalidValuesError(mistakes)
    return section(**found)


def _given(data: object, section: type[Section]) -> tuple[dict[str, Any], list[Mistake]]:
    """The values of the keys that are there, by the field's name, and what is wrong with them."""
    fields = _fields(section)
    entries = _mapping(data)
    mistakes: list[Mistake] = [((str(k),), "unknown key") for k in entries if k not in fields]
    found = {}
    for key, field in fields.items():
        if key in entries:
            with _collected(mistakes, key):
                found[field.name] = validated(entries[key], field.type)
    return found, mistakes


@lru_cache
def _fields(section: type[Section]) -> Mapping[str, msgspec.structs.FieldInfo]:
    """The fields by their keys in a file."""
    return {field.encode_name: field for field in msgspec.structs.fields(section)}


def _items(value: object, hint: Any) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError("must be a list")
    mistakes: list[Mistake] = []
    found = []
    for index, item in enumerate(value):
        with _collected(mistakes, index):
            found.append(validated(item, hint))
    if mistakes:
        raise InvalidValuesError(mistakes)
    return tuple(found)


def _entries(value: object, key_hint: Any, hint: Any) -> Mapping[Any, Any]:
    mistakes: list[Mistake] = []
    found = {}
    for key, item in _mapping(value).items():
        with _collected(mistakes, str(key)):
            validated(key, key_hint)
        with _collected(mistakes, str(key)):
            found[key] = validated(item, hint)
    if mistakes:
        raise InvalidValuesError(mistakes)
    return found


def _mapping(value: object) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise ValueError("needs keys and values below it")
    return value


def _one_of(value: object, choices: tuple[str, ...]) -> str:
    """One of the words; the library's message would show the value."""
    if not isinstance(value, str) or value not in choices:
        *others, last = map(repr, choices)
        raise ValueError(f"should be {', '.join(others)} or {last}")
    return value


def _converted(value: object, hint: Any) -> Any:
    """Convert a single value by msgspec, or a collection whose items are checked already."""
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError as error:
        raise ValueError(_in_words(str(error))) from None


def _in_words(message: str) -> str:
    """A message of the library's in the words of a file's reader, never with a value."""
    if bound := BOUND.match(message):
        what = "have a length" if bound[1] else "be"
        return f"should {what} {COMPARISONS[bound[2]]} {float(bound[3]):g}"
    expected = re.match(r"Expected `(\w+)`, got", message)
    if expected:
        return TYPE_MISTAKES.get(expected[1], WRONG_FORM)
    return "should be a finite number" if message == "Number out of range" else WRONG_FORM


@contextmanager
def _collected(mistakes: list[Mistake], *place: str | int) -> Iterator[None]:
    """Note what is raised as mistakes at that place."""
    try:
        yield
    except InvalidValuesError as error:
        mistakes += [((*place, *below), text) for below, text in error.mistakes]
    except ValueError as error:
        mistakes.append((place, str(error)))
