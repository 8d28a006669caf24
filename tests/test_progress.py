"""A computation that takes long: its progress is shown, and Ctrl-C ends it at once."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from attribute_command import run
from attribute_command import wide_file as wide_file

from agent.commands import progress
from agent.commands.interruption import interruptible
from agent.csv_input.class_file import read_classes

LONG_CALL = """
import numpy as np
from agent.commands.interruption import interruptible
matrix = np.random.default_rng(1).normal(size=(6000, 6000))
with interruptible():
    print("computing", flush=True)
    np.linalg.eigh(matrix)
    print("done", flush=True)
"""


def test_an_interrupt_ends_a_long_call_of_linear_algebra() -> None:
    """Ctrl-C does not wait until LAPACK returns, a minute or more later."""
    process = subprocess.Popen(
        [sys.executable, "-c", LONG_CALL],
        stdout=subprocess.PIPE,
        env={"OPENBLAS_NUM_THREADS": "1"},
        cwd=Path(__file__).parent.parent,
    )
    try:
        assert process.stdout
        assert process.stdout.readline() == b"computing\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == -signal.SIGINT
        assert process.stdout.read() == b""
    finally:
        process.kill()
        process.communicate()


def test_progress_is_printed_once_it_takes_long(
    wide_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line on a terminal for each step, none after the last; nothing in a script's log."""
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.0)
    assert run(wide_file) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert run(wide_file) == 0
    captured = capsys.readouterr()
    assert captured.err.splitlines() == [
        f"dividing over 3 classes in 80 intervals: {done} of 5 steps done …" for done in range(5)
    ]
    assert captured.out.startswith("b uses the most of cpu")


def test_the_former_signal_handler_is_restored() -> None:
    """The calling process keeps its own."""
    former = signal.getsignal(signal.SIGINT)
    with interruptible():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is former


def test_a_wide_table_is_read_like_cell_by_cell(tmp_path: Path) -> None:
    """Numbers of a row are converted together, to the same values."""
    path = tmp_path / "wide.csv"
    path.write_text("a,b,cpu\n1e-13,2.5,3\n 0 ,+4,1e2\n")
    found = read_classes(str(path))
    assert np.array_equal(found.intervals.statement_time, [[0.0, 2.5], [0.0, 4.0]])
    assert found.y is not None
    assert np.array_equal(found.y, [3.0, 100.0])
