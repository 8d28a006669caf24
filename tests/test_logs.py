"""One line per event, whatever is in it."""

import io
import json
import logging
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from agent.support.logs import (
    BURST,
    MAX_KINDS,
    RepeatedMessages,
    describe_error,
    fields,
    set_up_logging,
)


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
    set_up_logging("info", style, stream)
    root.debug("not shown")
    root.warning(message, extra=fields(**facts))
    return stream.getvalue()


def test_logfmt_quotes_values_that_need_it(root: logging.Logger) -> None:
    """Values with spaces, quotes, equal signs or line feeds stay readable on one line."""
    line = logged("logfmt", root, "it is\nbroken", target="db1", why='a "b"', x=1.23456789, e="")
    stamp, rest = line.split(" ", 1)
    assert stamp.startswith("ts=20")
    assert stamp.endswith("Z")
    assert rest == (
        'level=warning msg="it is\\nbroken" target=db1 why="a \\"b\\"" x=1.23457 e=""\n'
    )


@pytest.mark.parametrize("style", ["logfmt", "json"])
def test_unknown_fields_are_left_out(root: logging.Logger, style: str) -> None:
    """No field is None; 0 is a value."""
    stream = io.StringIO()
    set_up_logging("info", style, stream)
    root.info("capacity", extra=fields(capacity=None, limit=None, headroom=0.0, target="a"))
    said = stream.getvalue()
    assert "capacity" in said
    assert "headroom" in said
    assert not re.search("None|null|limit", said)


def test_json_is_one_object_per_line(root: logging.Logger) -> None:
    """Every field is a key."""
    found = json.loads(logged("json", root, "hallo", target="db1", count=3))
    assert (found["level"], found["msg"], found["target"], found["count"]) == (
        "warning",
        "hallo",
        "db1",
        3,
    )


@pytest.mark.parametrize("style", ["logfmt", "json"])
def test_an_exception_is_logged_with_its_trace_on_one_line(
    root: logging.Logger, style: str
) -> None:
    """There is one line per event."""
    stream = io.StringIO()
    set_up_logging("info", style, stream)
    try:
        raise ValueError("odd")
    except ValueError:
        root.exception("failed")
    assert stream.getvalue().count("\n") == 1
    assert "ValueError" in stream.getvalue()


def record(text: str, *values: object, level: int = logging.WARNING, **facts: object) -> Any:
    """One event as the handler gets it."""
    made = logging.LogRecord("agent", level, "", 0, text, values, None)
    vars(made).update(fields(**facts))
    return made


def test_a_flapping_server_does_not_flood_the_log() -> None:
    """After a few lines of a kind there is one a minute, with the number suppressed."""
    now = [0.0]
    repeats = RepeatedMessages(lambda: now[0])
    written = []
    for second in range(600):
        now[0] = float(second)
        event = record("cannot read: %s", f"reason {second}", target="db1", collector="status")
        if repeats.filter(event):
            written.append(event.fields.get("repeated", 0))
    assert 13 <= len(written) <= 15
    assert written[:5] == [0] * 5
    assert sum(written) + len(written) == pytest.approx(600, abs=60)


def test_only_repeated_events_are_suppressed() -> None:
    """Another target, collector, kind or event, and every mistake of a file get a line."""
    repeats = RepeatedMessages(lambda: 0.0)
    for _ in range(8):
        repeats.filter(record("cannot read: %s", "x", target="db1", collector="status"))
    assert repeats.filter(record("cannot read: %s", "x", target="db2", collector="status"))
    assert repeats.filter(record("cannot read: %s", "x", target="db1", collector="threads"))
    denied = record("cannot read: %s", "x", target="db1", collector="status", kind="denied")
    assert repeats.filter(denied)
    assert repeats.filter(record("connected to %s", "x", target="db1"))
    assert not repeats.filter(record("cannot read: %s", "y", target="db1", collector="status"))
    assert all(repeats.filter(record("refused: %s", f"mistake {i}")) for i in range(20))
    assert all(repeats.filter(record("a", level=logging.DEBUG)) for _ in range(20))
    for index in range(2 * MAX_KINDS):
        repeats.filter(record(f"event {index}"))
    assert len(repeats._kinds) == MAX_KINDS


def test_the_number_of_suppressed_lines_is_in_the_line(root: logging.Logger) -> None:
    """In both formats."""
    stream = io.StringIO()
    set_up_logging("info", "logfmt", stream)
    (repeats,) = [f for f in root.handlers[0].filters if isinstance(f, RepeatedMessages)]
    now = [0.0]
    repeats._clock = lambda: now[0]
    for now[0] in (*[0.0] * 7, 120.0):
        root.warning("down", extra=fields(target="db1"))
    assert stream.getvalue().count("\n") == 6
    assert stream.getvalue().endswith("target=db1 repeated=2\n")


def test_a_reload_lets_no_more_of_the_same_through(root: logging.Logger) -> None:
    """It sets up the log again, with another level or format perhaps."""
    stream = io.StringIO()
    for _ in range(10):
        for style in ("logfmt", "json"):
            set_up_logging("info", style, stream)
            root.warning("down", extra=fields(target="db1"))
    assert stream.getvalue().count("\n") == BURST
    set_up_logging("error", "logfmt", stream)
    root.error("down", extra=fields(target="db1"))
    root.warning("another")
    assert stream.getvalue().count("\n") == BURST + 1


def test_threads_that_log_the_same_at_once_have_one_limit() -> None:
    """Requests that fail, each in a thread of its own."""

    def clock() -> float:
        time.sleep(0.01)  # others run meanwhile
        return 0.0

    repeats = RepeatedMessages(clock)
    with ThreadPoolExecutor(4 * BURST) as pool:
        passed = pool.map(repeats.filter, [record("a request failed") for _ in range(4 * BURST)])
        assert sum(passed) == BURST


def test_an_exception_is_described_on_one_line() -> None:
    """Its type and where it was raised, without a trace."""
    try:
        int("a\nb")
    except ValueError as error:
        text = describe_error(error)
    assert text.startswith("ValueError: invalid literal for int() with base 10: ")
    assert "(test_logs.py:" in text
    assert text.endswith("in test_an_exception_is_described_on_one_line)")
    assert describe_error(KeyError()) == "KeyError"
