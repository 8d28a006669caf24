"""One line per event, whatever is in it."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from agent.logs import fields, set_up


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, put back as it was afterwards."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield logger
    logger.handlers[:], logger.level = handlers, level


def logged(style: str, root: logging.Logger, message: str, **facts: object) -> str:
    """What one warning looks like."""
    stream = io.StringIO()
    set_up("info", style, stream)
    root.debug("not shown")
    root.warning(message, extra=fields(**facts))
    return stream.getvalue()


def test_logfmt_quotes_what_needs_it(root: logging.Logger) -> None:
    """Values with spaces, quotes, equal signs or line feeds stay on one line and readable."""
    line = logged("logfmt", root, "it is\nbroken", target="db1", why='a "b"', x=1.23456789, e="")
    stamp, rest = line.split(" ", 1)
    assert stamp.startswith("ts=20")
    assert stamp.endswith("Z")
    assert rest == (
        'level=warning msg="it is\\nbroken" target=db1 why="a \\"b\\"" x=1.23457 e=""\n'
    )


def test_json_is_one_object_a_line(root: logging.Logger) -> None:
    """Every fact is a key."""
    found = json.loads(logged("json", root, "hallo", target="db1", count=3))
    assert (found["level"], found["msg"], found["target"], found["count"]) == (
        "warning",
        "hallo",
        "db1",
        3,
    )


@pytest.mark.parametrize("style", ["logfmt", "json"])
def test_a_defect_is_told_with_its_trace_on_the_same_line(root: logging.Logger, style: str) -> None:
    """A trace does not break the rule of one line per event."""
    stream = io.StringIO()
    set_up("info", style, stream)
    try:
        raise ValueError("odd")
    except ValueError:
        root.exception("failed")
    assert stream.getvalue().count("\n") == 1
    assert "ValueError" in stream.getvalue()
