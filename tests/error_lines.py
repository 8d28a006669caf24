"""The error lines of commands, as their tests check them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent.config.yaml_loader import ConfigError


def one_line(capsys: pytest.CaptureFixture[str], code: int) -> str:
    """Return the output of a command that exited with 2: one line on stderr, with a remedy."""
    assert code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("mysql-headroom: ")
    assert captured.err.count("\n") == 1
    assert captured.err.endswith("\n")
    assert "; " in captured.err
    return captured.err


def mistakes(load: Callable[[Path], object], path: Path) -> list[str]:
    """Return the mistakes in the file, without its name."""
    with pytest.raises(ConfigError) as caught:
        load(path)
    return [problem.removeprefix(f"{path}:") for problem in caught.value.problems]
