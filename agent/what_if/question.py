"""What-if questions as they are written on the command line and over HTTP: `2.5x`, `8`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from agent.assessment.snapshot import Load
from agent.support.errors import InputError
from models.what_if.changes import MAX_FACTOR, MIN_FACTOR, Changes

NUMBER = re.compile(r"([0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(x?)", re.ASCII)
MIN_DIGEST_LENGTH = 4
DIGEST = re.compile(rf"[0-9a-zA-Z]{{{MIN_DIGEST_LENGTH},64}}", re.ASCII)
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
"""The changes that are a count where no `x` follows."""


class QuestionError(InputError):
    """An invalid question; the message is one line with the place and the remedy."""


@dataclass(frozen=True)
class Number:
    """A number as it was given: a factor, or a count."""

    value: float
    is_factor: bool


@dataclass(frozen=True)
class Question:
    """The changes as they were asked for, before they are related to the server."""

    numbers: Mapping[str, Number]
    queries: Mapping[str, float]
    """Factors by digest as given, which may be the beginning of one."""


def parse_question(asked: Mapping[str, Sequence[str]], option: str = "{}") -> Question:
    """Parse texts by the name of their change; `option` is the format of a name in messages.

    Raises `QuestionError` for an unknown change, an invalid factor, or one given twice.
    """
    numbers, queries = dict[str, Number](), dict[str, float]()
    for name, texts in asked.items():
        place = _shown_option(option, name)
        if name == QUERY:
            queries.update(_parse_classes(texts, place))
        elif name not in FACTORS:
            raise QuestionError(
                f"{_quoted(name)}: unknown change; known are {_known_options(option)}"
            )
        elif len(texts) != 1:
            raise QuestionError(f"{place}: given {len(texts)} times; give it once")
        else:
            numbers[name] = _parse_number(texts[0], place, name)
    return Question(numbers, queries)


def to_changes(asked: Question, load: Load | None, digests: Sequence[str]) -> Changes:
    """Convert counts to factors of the server's present ones, and complete the digests.

    Raises `QuestionError` where that cannot be done.
    """
    factors = {name: _to_factor(name, number, load) for name, number in asked.numbers.items()}
    queries = dict[str, float]()
    for digest, factor in asked.queries.items():
        found = _complete_digest(digest, digests)
        if found in queries:
            raise QuestionError(f"query {found}: given twice; give it once")
        queries[found] = factor
    try:
        return Changes(**factors, queries=queries)
    except ValueError as error:
        raise QuestionError(str(error)) from None


def _shown_option(option: str, name: str) -> str:
    return option.format(name.replace("_", "-") if option.startswith("-") else name)


def _known_options(option: str) -> str:
    return ", ".join(_shown_option(option, name) for name in (*FACTORS, QUERY))


def _parse_number(text: str, place: str, name: str) -> Number:
    match = NUMBER.fullmatch(text.strip())
    example = "8 or 2x" if name in COUNTS else "2x or 0.5x"
    if match is None:
        raise QuestionError(f"{place}: {_quoted(text)} is not a factor; write {example}")
    value, is_factor = float(match[1]), bool(match[2]) or name not in COUNTS
    if not MIN_FACTOR <= value <= MAX_FACTOR:
        raise QuestionError(
            f"{place}: {_quoted(text)} is out of range; give {MIN_FACTOR:g} to {MAX_FACTOR:g}"
        )
    return Number(value, is_factor)


def _parse_classes(texts: Sequence[str], place: str) -> dict[str, float]:
    if len(texts) > MAX_CLASSES:
        raise QuestionError(f"{place}: more than {MAX_CLASSES} classes; give fewer")
    found = dict[str, float]()
    for text in texts:
        name, equals, factor = text.rpartition("=")
        digest = name.rpartition(".")[2]  # as a table shows it, after its schema
        if not equals or DIGEST.fullmatch(digest) is None:
            raise QuestionError(
                f"{place}: {_quoted(text)} is not a class; write DIGEST=0.5x, with at least"
                f" {MIN_DIGEST_LENGTH} characters of the digest"
            )
        if digest in found:
            raise QuestionError(f"{place}: {digest} is given twice; give it once")
        found[digest] = _parse_number(factor, f"{place} {digest}", QUERY).value
    return found


def _to_factor(name: str, number: Number, load: Load | None) -> float:
    if number.is_factor or name == SERVERS:
        return number.value
    cpus = usable_cpus(load)
    if cpus is None:
        raise QuestionError(
            f"{name}: how many processors this server has is not known; give a factor such as 2x"
        )
    return number.value / cpus


def usable_cpus(load: Load | None) -> float | None:
    """Return how many processors the server may use; a quota may be a fraction."""
    if load is None or not load.cpus:
        return None
    return min(load.cpus.values())


def _complete_digest(asked: str, known: Sequence[str]) -> str:
    """Return the one known digest that is the given text, or begins with it."""
    found = [digest for digest in known if digest == asked]
    found = found or [digest for digest in known if digest.startswith(asked.lower())]
    if len(found) == 1:
        return found[0]
    if found:
        which = ", ".join(digest[:16] for digest in found[:5])
        raise QuestionError(
            f"query {asked}: several digests begin with it ({which}); write more of it"
        )
    near = get_close_matches(asked, known, n=3, cutoff=0.5) or list(known[:3])
    remedy = f"similar are {', '.join(near)}" if near else "no query class of this server is known"
    raise QuestionError(f"query {asked}: no such digest; {remedy}")


def _quoted(text: str) -> str:
    """Return the text, shortened and quoted, so that no terminal interprets it."""
    return repr(text[:40])
