"""Times on the command line: the same words are the same time for every command."""

import argparse
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from agent.commands import history, profile
from agent.config.timestamps import parse_time

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC).timestamp()
HERE = "XYZ-05:30"  # POSIX counts westwards: five and a half hours ahead of UTC
OPTIONS = [
    ("profile --config.file c --since", "since"),
    ("history export --file h --since", "since"),
    ("history export --file h --until", "until"),
    ("history prune --file h --before", "before"),
]


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Where the local time is not UTC."""
    with monkeypatch.context() as there:
        there.setenv("TZ", HERE)
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def parser() -> argparse.ArgumentParser:
    """The commands that take a time."""
    parser = argparse.ArgumentParser()
    subparsers = parser.add_subparsers()
    for command in (profile, history):
        command.add_parser(subparsers)
    return parser


@pytest.mark.parametrize(("command", "name"), OPTIONS)
@pytest.mark.parametrize("text", ["2026-11-21T17:30", "2026-11-21T12:00Z", "2026-11-21 13:00+01"])
def test_a_time_without_a_zone_is_local_in_every_command(
    parser: argparse.ArgumentParser, command: str, name: str, text: str
) -> None:
    """A zone that is given counts."""
    args = parser.parse_args([*command.split(), text])
    assert getattr(args, name) == NOON


@pytest.mark.parametrize("command", ["profile", "history export", "history prune"])
def test_the_help_names_the_local_zone(
    parser: argparse.ArgumentParser, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it is now."""
    with pytest.raises(SystemExit):
        parser.parse_args([*command.split(), "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "2026-11-21T1" in shown
    assert "(local time, now XYZ, unless it ends in Z or +02:00)" in shown


def test_a_date_begins_at_local_midnight() -> None:
    """Durations before now and Unix seconds have no zone."""
    assert parse_time("2026-11-22", NOON) == NOON + 6.5 * 3600
    assert parse_time("6h", NOON) == NOON - 6 * 3600
    assert parse_time(f"{NOON:.0f}", 0.0) == NOON


@pytest.mark.parametrize("text", ["20261122", "20261122T000000", "2026-11-22T00:00"])
def test_eight_digits_are_a_date(text: str) -> None:
    """And not Unix seconds in August 1970."""
    assert parse_time(text, NOON) == NOON + 6.5 * 3600


@pytest.mark.parametrize("text", ["7", "3600", "99999999", "20261340", "nan", "inf", "1e12", "x"])
def test_a_number_that_is_no_time_is_refused(text: str) -> None:
    """Neither a date, nor Unix seconds of a year with four digits."""
    with pytest.raises(ValueError, match="is not a time; write 2026-11-21T13:00"):
        parse_time(text, NOON)
