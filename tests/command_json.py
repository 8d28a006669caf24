"""The standard output of a command as JSON."""

import json
from typing import Any

import pytest


def stdout_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Parse standard output, without NaN and Infinity; standard error must be empty."""

    def forbid(constant: str) -> None:
        raise AssertionError(constant)

    captured = capsys.readouterr()
    assert captured.err == ""
    answer: dict[str, Any] = json.loads(captured.out, parse_constant=forbid)
    return answer
