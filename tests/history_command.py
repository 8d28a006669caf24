"""The command `mysql-headroom history` on a file, as a function; the fixtures of both."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent.cli import main

Run = Callable[..., tuple[int, str, str]]
FORMATS = ("csv", "openmetrics")


def history_command(path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `mysql-headroom history ACTION --file PATH …`; return its code and output."""

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
    """Return the path of the history."""
    return tmp_path / "state" / "history.db"


@pytest.fixture
def run(path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs the command on that file."""
    return history_command(path, capsys)
