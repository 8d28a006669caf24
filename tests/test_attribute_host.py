"""The command `attribute` and what the host counts: which resource, measured or not, how busy."""

from pathlib import Path

import pytest
from attribute_command import LONG, as_json, as_table, csv, long_rows
from attribute_command import host_file as host_file
from attribute_command import long_file as long_file
from attribute_command import served as served
from simulated_classes import Simulated


def test_measured_cpu_is_a_source(
    tmp_path: Path, host_file: Path, served: Simulated, capsys: pytest.CaptureFixture[str]
) -> None:
    """A column cpu_s is what the server itself accounts for."""
    path = tmp_path / "measured.csv"
    path.write_text(csv([*LONG[:-1], "cpu_s"], long_rows(served)))
    answer = as_json(capsys, path, "--host", host_file)
    assert answer["method"] == "measured"
    assert answer["compared_with"] == "work-time"
    assert answer["classes"]["scan"]["total"] == pytest.approx(served.truth[:, 7].sum())
    assert "measured" in as_table(capsys, path, "--host", host_file)


def test_any_column_of_the_host_can_be_divided(
    long_file: Path, host_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bytes are no time: learnt, and not scored against a truth about CPU."""
    answer = as_json(capsys, long_file, "--host", host_file, "--resource", "wchar")
    assert (answer["resource"], answer["method"]) == ("wchar", "learned")
    assert answer["truth_error"] is None


def test_the_host_s_jiffies_tell_saturation(
    tmp_path: Path, long_file: Path, served: Simulated, capsys: pytest.CaptureFixture[str]
) -> None:
    """Busy for 99 % of the time: said in JSON and in words."""
    kinds = ("user", "nice", "sys", "idle", "iowait", "irq", "softirq", "steal")
    header = ["t_s", "mysqld_cpu_s", *(f"host_{kind}" for kind in kinds)]
    rows = [[i + 1, y, 150, 0, 48, 1, 1, 0, 0, 0] for i, y in enumerate(served.y)]
    host = tmp_path / "busy.csv"
    host.write_text(csv(header, rows))
    assert as_json(capsys, long_file, "--host", host)["reasons"] == ["saturated"]
    assert "take care      the host is saturated" in as_table(capsys, long_file, "--host", host)
