"""What a command has said on standard output, as JSON."""

import json
from typing import Any

import pytest


def stdout_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Parse standard output, NaN and Infinity forbidden; nothing went to standard error."""

    def forbid(constant: str) -> None:
        raise AssertionError(constant)

    captured = capsys.readouterr()
    assert captured.err == ""
    answer: dict[str, Any] = json.loads(captured.out, parse_constant=forbid)
    return answer
