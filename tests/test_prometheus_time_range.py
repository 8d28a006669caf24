"""The time range of commands that read a Prometheus: --since and --until."""

import argparse

import pytest

from agent.cli import main
from agent.commands.prometheus_options import add_prometheus_options, query_of

DAY = 86400.0
UNTIL = "2026-11-21T00:00Z"
END = 1795219200.0
"""The same, s since 1970."""


def span(*words: str) -> tuple[float, float]:
    """The beginning and the end, s since 1970."""
    parser = argparse.ArgumentParser()
    add_prometheus_options(parser, 30 * DAY, "Prometheus")
    query = query_of(parser.parse_args(["--until", UNTIL, *words]))
    return query.start, query.end


@pytest.mark.parametrize(
    ("since", "length"),
    [
        ("6h", DAY / 4),
        ("3600", 3600.0),
        ("2026-11-14T00:00Z", 7 * DAY),
        (str(int(END - 2 * DAY)), 2 * DAY),
        ("366d", 366 * DAY),
    ],
)
def test_it_begins_at_a_time_or_a_duration_before_the_end(since: str, length: float) -> None:
    """Dates, Unix seconds, and durations."""
    assert span("--since", since) == (END - length, END)


def test_the_default_is_30_days() -> None:
    """The command's own default."""
    assert span() == (END - 30 * DAY, END)


@pytest.mark.parametrize("since", ["30s", "367d", "99999999999d", "tomorrow", "nan"])
def test_an_invalid_beginning_is_refused(since: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Too short, too long, or neither a time nor a duration."""
    with pytest.raises(SystemExit) as ended:
        span("--since", since)
    assert ended.value.code == 2
    assert " --since: " in capsys.readouterr().err


@pytest.mark.parametrize("since", ["2026-11-22", "2020-01-01"])
def test_a_beginning_after_the_end_or_long_before_is_refused(
    since: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line with both times."""
    asked = ["analyze", "--prometheus", "http://127.0.0.1:1", "--until", UNTIL]
    assert main([*asked, "--since", f"{since}T00:00Z"]) == 2
    told = capsys.readouterr().err
    assert "--since must be 1m to 366d before --until" in told
    assert f"these are {since}T00:00:00Z and 2026-11-21T00:00:00Z" in told
    assert told.count("\n") == 1
