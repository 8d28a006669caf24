"""Sections of a configuration file: frozen values, checked by their annotations.

msgspec checks the types and the bounds of single values, but stops at the first mistake; here
all mistakes are collected, each with its key path and without its value.
"""

import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, Self, Union, cast, get_args, get_origin

import msgspec

from agent.support.errors import InputError

KeyPath = tuple[str | int, ...]
Mistake = tuple[KeyPath, str]
"""The keys and indices that lead to a value, and what is wrong with it."""
WRONG_FORM = "is not in the right form"
UNKNOWN = "unknown key; "
UNKNOWN_HERE = f"{UNKNOWN}the keys here are "
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
    """An annotation that converts a value before its type is checked, or raises ValueError."""

    parse: Callable[[object], Any]


class Checked(NamedTuple):
    """An annotation that checks or converts a value of the right type, or raises ValueError."""

    check: Callable[[Any], Any]


def matching(pattern: str, mistake: str) -> Checked:
    """Return a check of texts against a regular expression, with the words for one that differs."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(mistake)
        return text

    return Checked(check)


class InvalidValuesError(InputError, ValueError):
    """Invalid values, all of them listed."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__("; ".join(text for _, text in mistakes))
        self.mistakes = mistakes


class Section(msgspec.Struct, frozen=True):
    """A section of the configuration: frozen, with exact types, without unknown keys.

    `__post_init__` raises ValueError for contradictions between its keys, or `InvalidValuesError`
    with their key paths within the section.
    """

    @classmethod
    def validated(cls, data: object) -> Self:
        """Convert data of a file to a section; raises `InvalidValuesError` with all mistakes."""
        mistakes: list[Mistake] = []
        with _collect_mistakes(mistakes):
            return cast(Self, _validate_section(data, cls))
        raise InvalidValuesError([(at, _name_sections(at, text, cls)) for at, text in mistakes])


def given_keys(section: type[Section]) -> Parsed:
    """Annotate a mapping of the given keys of a section, without the defaults of the others."""

    def parse(data: object) -> Mapping[str, Any]:
        found, mistakes = _validate_given(data, section)
        if mistakes:
            raise InvalidValuesError(mistakes)
        return found

    return Parsed(parse)


def validated(value: object, hint: Any) -> Any:
    """Convert a value by its annotation; raises ValueError, which may be `InvalidValuesError`."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _validate_marked(value, args[0], args[1:])
    if origin in (Union, types.UnionType):  # X | None
        return None if value is None else validated(value, args[0])
    if origin is Literal:
        return _check_choice(value, args)
    if origin is tuple:
        return _validate_items(value, args[0])
    if origin is Mapping:
        return _validate_entries(value, *args)
    if isinstance(hint, type) and issubclass(hint, Section):
        return _validate_section(value, hint)
    return _convert(value, hint)


def _validate_marked(value: object, hint: Any, marks: tuple[Any, ...]) -> Any:
    """Parse a value, convert it to its type, check its bounds and apply its checks, in order."""
    for mark in marks:
        if isinstance(mark, Parsed):
            value = mark.parse(value)
    value = validated(value, hint)
    for mark in marks:
        if isinstance(mark, msgspec.Meta):
            _convert(value, Annotated[type(value), mark])
        elif isinstance(mark, Checked):
            value = mark.check(value)
    return value


def _validate_section(data: object, section: type[Section]) -> Section:
    if isinstance(data, section):
        return data
    found, mistakes = _validate_given(data, section)
    mistakes += [
        ((key,), "missing")
        for key, field in _fields_by_key(section).items()
        if field.required and key not in cast(Mapping[Any, Any], data)
    ]
    if mistakes:
        raise InvalidValuesError(mistakes)
    return section(**found)


def _validate_given(data: object, section: type[Section]) -> tuple[dict[str, Any], list[Mistake]]:
    """Return the valid values of the given keys, by the field's name, and the mistakes."""
    fields = _fields_by_key(section)
    entries = _check_mapping(data, f"; the keys here are {', '.join(fields)}")
    mistakes: list[Mistake] = [
        ((str(key),), _unknown_key_text(str(key), fields)) for key in entries if key not in fields
    ]
    found = {}
    for key, field in fields.items():
        if key in entries:
            with _collect_mistakes(mistakes, key):
                found[field.name] = validated(entries[key], field.type)
    return found, mistakes


def _unknown_key_text(key: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches  # only a mistake needs it

    near = get_close_matches(key, known, n=2) or _longer_names(key, known)
    if near:
        return f"{UNKNOWN}did you mean {' or '.join(near)}?"
    return f"{UNKNOWN_HERE}{', '.join(known)}"


def _name_sections(path: KeyPath, text: str, root: type[Section]) -> str:
    """Return the text of a mistake; of a key that other sections have, with their paths."""
    if not text.startswith(UNKNOWN):
        return text
    key, sections = str(path[-1]), list(_sections(root))
    if not text.startswith(UNKNOWN_HERE) and key not in _fields_by_key(root):
        return text
    known = {name for _, section in sections for name in _fields_by_key(section)}
    name = key if key in known else next(iter(_longer_names(key, sorted(known))), None)
    places = [
        f"in {place}" if place else "at the top of the file"
        for place, section in sections
        if name in _fields_by_key(section)
    ]
    return f"unknown key here; {name} belongs {' or '.join(places)}" if places else text


def _longer_names(key: str, known: Iterable[str]) -> list[str]:
    """Return the keys that begin with a key and an underscore."""
    return [name for name in known if len(key) > 2 and name.startswith(f"{key}_")]


def _sections(root: type[Section], place: str = "") -> Iterator[tuple[str, type[Section]]]:
    """Yield a section and all that its keys may hold, each with its path from the root."""
    yield place, root
    for key, field in _fields_by_key(root).items():
        for section, suffix in _sections_of(field.type):
            yield from _sections(section, f"{place}.{key}{suffix}".lstrip("."))


def _sections_of(hint: Any) -> Iterator[tuple[type[Section], str]]:
    """Yield the sections that an annotation names, each with how one of several is addressed."""
    if isinstance(hint, type) and issubclass(hint, Section):
        yield hint, ""
    suffix = {tuple: "[]", Mapping: ".*"}.get(get_origin(hint), "")
    for argument in get_args(hint):
        yield from ((section, f"{suffix}{below}") for section, below in _sections_of(argument))


@lru_cache
def _fields_by_key(section: type[Section]) -> Mapping[str, msgspec.structs.FieldInfo]:
    """Return the fields of a section by their keys in a file."""
    return {field.encode_name: field for field in msgspec.structs.fields(section)}


def _validate_items(value: object, hint: Any) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError("must be a list")
    mistakes: list[Mistake] = []
    found = []
    for index, item in enumerate(value):
        with _collect_mistakes(mistakes, index):
            found.append(validated(item, hint))
    if mistakes:
        raise InvalidValuesError(mistakes)
    return tuple(found)


def _validate_entries(value: object, key_hint: Any, hint: Any) -> Mapping[Any, Any]:
    mistakes: list[Mistake] = []
    found = {}
    for key, item in _check_mapping(value).items():
        with _collect_mistakes(mistakes, str(key)):
            validated(key, key_hint)
        with _collect_mistakes(mistakes, str(key)):
            found[key] = validated(item, hint)
    if mistakes:
        raise InvalidValuesError(mistakes)
    return found


def _check_mapping(value: object, keys_text: str = "") -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a mapping of keys to values{keys_text}")
    return value


def _check_choice(value: object, choices: tuple[str, ...]) -> str:
    """Check that a value is one of the words; msgspec's message would show the value."""
    if not isinstance(value, str) or value not in choices:
        *others, last = map(repr, choices)
        raise ValueError(f"must be {', '.join(others)} or {last}")
    return value


def _convert(value: object, hint: Any) -> Any:
    """Convert a single value by msgspec, or a collection whose items are checked already."""
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError as error:
        raise ValueError(_translate_message(str(error))) from None


def _translate_message(message: str) -> str:
    """Translate a message of msgspec's into words for the file's author, without the value."""
    if bound := BOUND.match(message):
        what = "have a length" if bound[1] else "be"
        return f"must {what} {COMPARISONS[bound[2]]} {float(bound[3]):g}"
    expected = re.match(r"Expected `(\w+)`, got", message)
    if expected:
        return TYPE_MISTAKES.get(expected[1], WRONG_FORM)
    return "must be a finite number" if message == "Number out of range" else WRONG_FORM


@contextmanager
def _collect_mistakes(mistakes: list[Mistake], *place: str | int) -> Iterator[None]:
    """Append the errors that are raised inside to the mistakes, with their place."""
    try:
        yield
    except InvalidValuesError as error:
        mistakes += [((*place, *below), text) for below, text in error.mistakes]
    except ValueError as error:
        mistakes.append((place, str(error)))
