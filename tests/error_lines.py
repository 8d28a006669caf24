"""What the tests of commands and of files share: how a mistake is told."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent.config.yaml_loader import ConfigError


def one_line(capsys: pytest.CaptureFixture[str], code: int) -> str:
    """What a command said that ended with 2: one line on standard error alone, with a remedy."""
    assert code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("mysql-headroom: ")
    assert captured.err.count("\n") == 1
    assert captured.err.endswith("\n")
    assert "; " in captured.err
    return captured.err


def mistakes(load: Callable[[Path], object], path: Path) -> list[str]:
    """What is wrong with the file, without its name."""
    with pytest.raises(ConfigError) as caught:
        load(path)
    return [problem.removeprefix(f"{path}:") for problem in caught.value.problems]
