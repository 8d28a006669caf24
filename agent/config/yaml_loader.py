"""Reading of YAML files: all mistakes at once, each with its line and its key path."""

import errno
import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import yaml

from agent.config.base_model import WRONG_FORM, InvalidValuesError, KeyPath, Mistake, Section
from agent.support.errors import InputError
from collectors.regular_file import read_whole

Model = TypeVar("Model", bound=Section)
MAX_BYTES = 2**20  # bytes of a file; 200 targets with all their keys take 100 KiB
MAX_NODES = 40_000  # keys and values; 200 targets with all their keys have 10,000
MAX_PROBLEMS = 50  # that are listed
MAX_KEYS = 1000  # in one mapping, with all that is merged into it
PLAIN_KEY = re.compile(r"[\w.:@ -]{1,64}")
QUOTED = re.compile(r"""(['"])(?!<).{2,}\1""")
INTEGER = "tag:yaml.org,2002:int"
OCTAL = re.compile(r"[-+]?0[0-7_]+")
NOT_SHOWN = "(not shown)"
YAML_REMEDIES = (
    (r"'\\t'", "a tab; YAML is indented with spaces"),
    (
        r"mapping values are not allowed",
        "a colon is missing or one too many, or the indentation differs",
    ),
    (r"expected <block end>", "indented differently from the lines above"),
    (r"could not find expected ':'", "a key without a colon"),
    (r"end of stream|<stream end>|expected ',' or", "a quote or a bracket is not closed"),
    (r"another document", "a second document begins here (---); write all into one"),
    (r"cannot start any token", "a value that begins with @, % or ` needs quotes around it"),
    (r"undefined alias", "a value that begins with * needs quotes around it"),
    (r"a constructor for the tag", "a value that begins with ! needs quotes around it"),
)
"""What the parser's messages mean, by patterns in them."""


class ConfigError(InputError):
    """The file cannot be used; `problems` are readable lines, one per mistake."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self._problems = problems

    @property
    def problems(self) -> list[str]:
        """The lines, one per mistake."""
        return self._problems


@dataclass(frozen=True, slots=True)
class Document:
    """A file's values, their line numbers, and the name of an example file."""

    path: Path
    data: dict[Any, Any]
    lines: Mapping[KeyPath, int]
    example: str

    def checked(self, model: type[Model], found: Iterable[Mistake]) -> Model:
        """Return the data as a frozen value; raises `ConfigError`.

        The error lists the mistakes `found` before, and the type errors at other places.
        """
        mistakes = list(found)
        places = {place for place, _ in mistakes}
        try:
            value = model.validated(self.data)
        except InvalidValuesError as error:
            mistakes += [m for m in error.mistakes if m[0] not in places]
        if mistakes:
            raise self.error_for(mistakes)
        return value

    def error_for(self, mistakes: Iterable[Mistake]) -> ConfigError:
        """Return an error that lists the mistakes in the order of the file's lines."""
        shown = {WRONG_FORM: f"{WRONG_FORM} (see {self.example})"}
        located = sorted(
            (_nearest_line(self.lines, place), _problem_text(place, shown.get(text, text)))
            for place, text in mistakes
        )
        problems = [f"{self.path}:{line}: {text}" for line, text in located[:MAX_PROBLEMS]]
        more = len(located) - len(problems)
        return ConfigError([*problems, *([f"{self.path}: and {more} more"] if more else [])])


def read_yaml(path: Path, example: str) -> Document:
    """Read the document in a file; raises `ConfigError` where that is not possible."""
    try:
        parsed, lines = _parse(read_whole(path, MAX_BYTES).decode())
        data = deepcopy(parsed)
    except OSError as error:
        is_large = error.errno == errno.EFBIG
        remedy = (
            "the limit of a configuration is 1 MiB"
            if is_large
            else "check the path and its permissions"
        )
        reason = f"{error.strerror or error}; {remedy}"
        raise ConfigError([f"{path}: cannot be read: {reason}"]) from None
    except UnicodeDecodeError:
        reason = f"not UTF-8 text; save it as UTF-8 ({example} shows what it looks like)"
        raise ConfigError([f"{path}: cannot be read: {reason}"]) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        problem = error.problem if isinstance(error, _KeyMistake) else _explain(error.problem or "")
        raise ConfigError([f"{path}:{line}: not readable as YAML: {problem}"]) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        first = _mask_quotations(str(error).splitlines()[0])
        raise ConfigError([f"{path}: not readable as YAML: {first}"]) from None
    except (LookupError, AttributeError, TypeError):  # from PyYAML, for `!!bool x` and the like
        raise ConfigError(
            [f"{path}: not readable as YAML: a value does not match its YAML tag"]
        ) from None
    if data is None:
        raise ConfigError([f"{path}: is empty; {example} shows what it looks like"])
    if not isinstance(data, dict):
        raise ConfigError([f"{path}: not a configuration; see {example}"])
    return Document(path, data, lines, example)


@lru_cache(maxsize=1)
def _parse(text: str) -> tuple[Any, Mapping[KeyPath, int]]:
    """Parse a text to data and lines; the latest is cached, as most reloads find the same text.

    With 56 targets parsing takes four fifths of a reload, and blocks other threads meanwhile.
    """
    loader = _StrictLoader(text)
    node = loader.get_single_node()
    if node is None:
        return None, {}
    lines = dict(_line_numbers(node, (), set()))  # before merges, which change the nodes
    return loader.construct_document(node), lines


class _KeyMistake(yaml.MarkedYAMLError):
    """A key or text that is not accepted; the message is the agent's own, shown in full."""


class _StrictLoader(yaml.SafeLoader):
    """A YAML loader that limits the number of nodes and refuses a key that is written twice."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._nodes = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose and count a key or a value: each costs time and memory."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            text = f"more than {MAX_NODES:,} keys and values, the limit of a configuration"
            raise _KeyMistake(problem=text, problem_mark=self.get_mark())
        return super().compose_node(parent, index)

    def compose_scalar_node(self, anchor: Any) -> Any:
        """Compose a text, in which JSON writes an emoji as two escapes: they are one character.

        A number with a leading zero is refused: YAML 1.1 reads 03306 as the octal 1734.
        """
        node = super().compose_scalar_node(anchor)
        if node.tag == INTEGER and OCTAL.fullmatch(node.value):
            problem = (
                "a number with a leading zero, which YAML reads as octal; write it without the"
                " zero, or in quotes if it is text"
            )
            raise _KeyMistake(problem=problem, problem_mark=node.start_mark)
        if not node.value.isascii():
            try:
                node.value = node.value.encode("utf-16", "surrogatepass").decode("utf-16")
            except UnicodeDecodeError:
                problem = "half of a character, an escape from \\ud800 to \\udfff without the other"
                raise _KeyMistake(problem=problem, problem_mark=node.start_mark) from None
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _KeyMistake(problem="a key must be text", problem_mark=key.start_mark)
            if key.value in seen:
                problem = f"the key {_shown_key(key.value)!r} is written twice"
                raise _KeyMistake(problem=problem, problem_mark=key.start_mark)
            seen.add(key.value)
        return dict(super().construct_mapping(node, deep))

    def flatten_mapping(self, node: Any) -> None:
        """Merge `<<`, within bounds: merges of merges could make a small file grow without end."""
        super().flatten_mapping(node)
        if len(node.value) > MAX_KEYS:
            raise _KeyMistake(problem="too many keys are merged", problem_mark=node.start_mark)


def _line_numbers(node: Any, path: KeyPath, seen: set[int]) -> Iterator[tuple[KeyPath, int]]:
    """Yield the line number of each place; for an alias, that of its anchor."""
    yield path, node.start_mark.line + 1
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue  # refused later
            place = (*path, key.value)
            yield from _line_numbers(value, place, seen)
            yield place, key.start_mark.line + 1  # the key's line, not its value's
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _line_numbers(value, (*path, index), seen)


def _problem_text(place: KeyPath, text: str) -> str:
    """Format a problem with its dotted key path."""
    key = ""
    for part in place:
        if isinstance(part, int):
            key += f"[{part}]"
        else:
            key += f".{_shown_key(part)}" if key else _shown_key(part)
    return f"{key}: {text}" if key else text


def _shown_key(key: str) -> str:
    """Return the key, unless it may be something misplaced, such as a hash or a password."""
    return key if PLAIN_KEY.fullmatch(key) else NOT_SHOWN


def _explain(problem: str) -> str:
    """Return what a parser's message means, or the message without quotations from the file."""
    for pattern, meaning in YAML_REMEDIES:
        if re.search(pattern, problem):
            return meaning
    return _mask_quotations(problem)


def _mask_quotations(problem: str) -> str:
    """Mask the quotations from the file in a parser's message; its own `'<tokens>'` stay."""
    return QUOTED.sub(NOT_SHOWN, problem)


def _nearest_line(lines: Mapping[KeyPath, int], place: KeyPath) -> int:
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 1)
