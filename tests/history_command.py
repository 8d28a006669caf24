"""The command `mysql-headroom history` on a file, as a function; the fixtures of both."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent.cli import main

Run = Callable[..., tuple[int, str, str]]
FORMATS = ("csv", "openmetrics")


def history_command(path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """`mysql-headroom history ACTION --file PATH …`: its code and what it printed."""

    def command(action: str, *options: object, file: Path = path) -> tuple[int, str, str]:
        try:
            code = main(["history", action, "--file", str(file), *map(str, options)])
        except SystemExit as usage:
            code = int(usage.code or 0)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return command


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the history is."""
    return tmp_path / "state" / "history.db"


@pytest.fixture
def run(path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command on that file."""
    return history_command(path, capsys)
