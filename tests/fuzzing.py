"""Settings and inputs of the fuzz tests: reproducible examples, and files with random edits."""

import os
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from agent.config.yaml_loader import ConfigError

QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
IS_LONG = "HEADROOM_LONG_TESTS"
"""Set while `--long` runs: the number of examples is chosen when a module is imported."""
SHORTER, LEAST = 3, 25
SLIPS = 4  # the most in one file
MAX_SLIP = 40  # characters that one slip takes away at most
ODD = (
    *("", " ", "\n", "\t", "\r", "\0", "\x1c", "\x85", "\u2028", "\ufeff", "\ud800", "\x7f"),
    *(":", ": ", "- ", "{", "}", "[", "]", ",", "&a ", "*a", "<<: ", "!!int ", "!!binary ", "? "),
    *("'", '"', "#", "|", ">", "%", "@", "`", "=", "\\", "\\x", "[client]", "..", "/" * 5000),
    *("0", "-1", "1e999", "-1e308", "1e-320", ".nan", ".inf", "nan", "inf", "9" * 400, "9" * 5000),
    *("1_000", "0x1f", "1:1:1", "2001-99-99", "null", "true", "~", "é", "x" * 300, "١"),
)


def fuzz(examples: int) -> settings:
    """So many examples with `--long`, a third of them without; the same ones in every such run.

    Since they are the same each time, the next run finds nothing new.
    """
    return settings(
        max_examples=examples if IS_LONG in os.environ else max(examples // SHORTER, LEAST),
        derandomize=True,
        database=None,
        suppress_health_check=QUIET,
    )


@st.composite
def with_slips(draw: st.DrawFn, valid: str) -> bytes:
    """Generate edits of a valid file: something cut, overwritten or inserted."""
    text = valid
    for _ in range(draw(st.integers(1, SLIPS))):
        start = draw(st.integers(0, len(text)))
        end = start + draw(st.integers(0, MAX_SLIP))
        text = text[:start] + draw(st.sampled_from(ODD) | st.text(max_size=4)) + text[end:]
    return text.encode("utf-8", "surrogatepass")


def any_text() -> st.SearchStrategy[bytes]:
    """Generate texts that are no such file at all."""
    odd = st.lists(st.sampled_from(ODD) | st.text(max_size=4), max_size=12).map("".join)
    return st.binary(max_size=40) | odd.map(lambda text: text.encode("utf-8", "surrogatepass"))


def told(load: Callable[[Path], object], path: Path) -> list[str]:
    """The mistakes that were told of a file, none where it was accepted; anything else is raised.

    Each is one line that begins with a place.
    """
    problems: list[str] = []
    try:
        load(path)
    except ConfigError as error:
        problems = error.problems or ["told nothing"]
    for problem in problems:
        assert problem.startswith(str(path))
        assert len(problem.splitlines()) == 1
    return problems
