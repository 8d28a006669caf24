"""The command `mysql-headroom history` on a file, as a function."""

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
