"""The command `attribute` as a function, and files of both forms for it, as fixtures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_json import stdout_json
from simulated_classes import Simulated, simulate

from agent.cli import main

LONG = ["t_s", "dt_s", "class", "digest_text", "count", "timer_wait_s", "lock_s"]
LONG += ["rows_examined", "rows_sent", "cpu_true_s"]


def run(*arguments: str | Path) -> int:
    """Run `attribute` with these arguments in this process."""
    return main(["attribute", *map(str, arguments)])


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    """Run with --format json and parse what it says."""
    assert run(*arguments, "--format", "json") == 0
    return stdout_json(capsys)


def as_table(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """Run and return the table, which fits 80 columns."""
    assert run(*arguments) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert max(map(len, captured.out.splitlines())) <= 80
    return captured.out


def csv(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Write a table as CSV."""
    return "".join(",".join(map(str, row)) + "\n" for row in [header, *rows])


def long_rows(s: Simulated) -> list[list[object]]:
    """Return the rows of the long form, the truth included."""
    t = s.intervals
    assert t.count is not None
    assert t.lock_time is not None
    examined, sent = (matrix for _, matrix in t.sizes)
    matrices = (t.count, t.statement_time, t.lock_time, examined, sent, s.truth)
    return [
        [i + 1.0, 1, name, f'"{(t.texts or ())[k]}"', *(m[i, k] for m in matrices)]
        for i in range(len(t))
        for k, name in enumerate(t.names)
        if t.count[i, k]
    ]


@pytest.fixture
def served() -> Simulated:
    """Simulate a server, observed for two minutes."""
    return simulate(intervals=120)


@pytest.fixture
def long_file(tmp_path: Path, served: Simulated) -> Path:
    """Write a class file in the long form."""
    path = tmp_path / "classes.csv"
    path.write_text(csv(LONG, long_rows(served)))
    return path


@pytest.fixture
def host_file(tmp_path: Path, served: Simulated) -> Path:
    """Write its host file, two intervals longer, with times that differ a little."""
    path = tmp_path / "host.csv"
    times = np.arange(len(served.y)) + 1.0004
    rows = [[t, y, 1e6 * y] for t, y in zip(times, served.y, strict=True)]
    path.write_text(csv(["t_s", "mysqld_cpu_s", "wchar"], [[-5, 1, 1], *rows, [500, 1, 1]]))
    return path


@pytest.fixture
def wide_file(tmp_path: Path) -> Path:
    """Write a file of three classes, of which the second costs twice as much."""
    rng = np.random.default_rng(1)
    x = rng.gamma(2, 1, (80, 3))
    y = x @ [1, 2, 1] + 0.5
    path = tmp_path / "wide.csv"
    path.write_text(csv(["a", "b", "c", "cpu"], np.column_stack((x, y)).tolist()))
    return path
