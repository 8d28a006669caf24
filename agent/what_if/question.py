"""A what-if question as it is written, on the command line and over HTTP: `2.5x`, `8`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from agent.assessment.snapshot import Load
from agent.support.errors import InputError
from models.what_if.changes import MAX_FACTOR, MIN_FACTOR, Changes

NUMBER = re.compile(r"([0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(x?)", re.ASCII)
DIGEST = re.compile(r"[0-9a-zA-Z]{4,64}", re.ASCII)
MAX_CLASSES = 20
QUERY, CORES, SERVERS = "query", "cores", "servers"
FACTORS = {
    "cpu_speed": "processors are this many times as fast",
    "cores": "the number of processors (8), or a multiple of today's (2x)",
    "disk_rate": "the disk transfers this many times the bytes per second",
    "disk_latency": "a disk request takes this many times as long (0.5x: half)",
    "network": "the network transfers this many times the bytes per second",
    "servers": "this many servers like this one share the load (3)",
    "load": "this many times the queries arrive",
}
"""The changes that are a factor, by their names, and their descriptions."""
COUNTS = (CORES, SERVERS)
"""Those that are a count where no `x` follows."""


class QuestionError(InputError):
    """A question that has no meaning; the message is one line with the place and the remedy."""


@dataclass(frozen=True)
class Number:
    """A number as it was given: a factor, or a count."""

    value: float
    is_factor: bool


@dataclass(frozen=True)
class Question:
    """The changes as they were asked for, before they are compared with the server."""

    numbers: Mapping[str, Number]
    queries: Mapping[str, float]
    """By the digest as it was given, or its beginning."""


def question(asked: Mapping[str, Sequence[str]], option: str = "{}") -> Question:
    """Read what was given by name; `option` writes a name as its user knows it.

    Raises `QuestionError` for what is no change, no number, or given twice.
    """
    numbers, queries = dict[str, Number](), dict[str, float]()
    for name, texts in asked.items():
        place = _option(option, name)
        if name == QUERY:
            queries.update(_classes(texts, place))
        elif name not in FACTORS:
            raise QuestionError(f"{_shown(name)}: no such change; there are {_known(option)}")
        elif len(texts) != 1:
            raise QuestionError(f"{place}: given {len(texts)} times; give it once")
        else:
            numbers[name] = _number(texts[0], place, name)
    return Question(numbers, queries)


def changes(asked: Question, load: Load | None, digests: Sequence[str]) -> Changes:
    """Turn counts into factors of the server's present ones, and digests into known ones.

    Raises `QuestionError` where that cannot be done.
    """
    factors = {name: _factor(name, number, load) for name, number in asked.numbers.items()}
    queries = dict[str, float]()
    for digest, factor in asked.queries.items():
        found = _digest(digest, digests)
        if found in queries:
            raise QuestionError(f"query {found}: given twice; give it once")
        queries[found] = factor
    try:
        return Changes(**factors, queries=queries)
    except ValueError as error:
        raise QuestionError(str(error)) from None


def _option(option: str, name: str) -> str:
    return option.format(name.replace("_", "-") if option.startswith("-") else name)


def _known(option: str) -> str:
    return ", ".join(_option(option, name) for name in (*FACTORS, QUERY))


def _number(text: str, place: str, name: str) -> Number:
    match = NUMBER.fullmatch(text.strip())
    example = "8 or 2x" if name in COUNTS else "2x or 0.5x"
    if match is None:
        raise QuestionError(f"{place}: {_shown(text)} is not a factor; write {example}")
    value, is_factor = float(match[1]), bool(match[2]) or name not in COUNTS
    if not MIN_FACTOR <= value <= MAX_FACTOR:
        raise QuestionError(
            f"{place}: {_shown(text)} is out of range; give {MIN_FACTOR:g} to {MAX_FACTOR:g}"
        )
    return Number(value, is_factor)


def _classes(texts: Sequence[str], place: str) -> dict[str, float]:
    if len(texts) > MAX_CLASSES:
        raise QuestionError(f"{place}: more than {MAX_CLASSES} of them; give fewer")
    found = dict[str, float]()
    for text in texts:
        digest, equals, factor = text.partition("=")
        if not equals or DIGEST.fullmatch(digest) is None:
            raise QuestionError(f"{place}: {_shown(text)} is not a class; write DIGEST=0.5x")
        if digest in found:
            raise QuestionError(f"{place}: {digest} is given twice; give it once")
        found[digest] = _number(factor, f"{place} {digest}", QUERY).value
    return found


def _factor(name: str, number: Number, load: Load | None) -> float:
    if number.is_factor or name == SERVERS:
        return number.value
    cpus = usable_cpus(load)
    if cpus is None:
        raise QuestionError(
            f"{name}: how many processors this server has is not known; give a factor such as 2x"
        )
    return number.value / cpus


def usable_cpus(load: Load | None) -> float | None:
    """How many processors the server may use, a quota counts as a part of one."""
    if load is None or not load.cpus:
        return None
    return min(load.cpus.values())


def _digest(asked: str, known: Sequence[str]) -> str:
    """The one known digest that is, or begins, so."""
    found = [digest for digest in known if digest == asked]
    found = found or [digest for digest in known if digest.startswith(asked.lower())]
    if len(found) == 1:
        return found[0]
    if found:
        which = ", ".join(digest[:16] for digest in found[:5])
        raise QuestionError(f"query {asked}: that begins several digests ({which}); write more")
    near = get_close_matches(asked, known, n=3, cutoff=0.5) or list(known[:3])
    remedy = f"near are {', '.join(near)}" if near else "no query class is known of this server"
    raise QuestionError(f"query {asked}: no such digest; {remedy}")


def _shown(text: str) -> str:
    """The given text, cut and quoted: no terminal executes it."""
    return repr(text[:40])
