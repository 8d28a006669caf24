"""The command `attribute` and what the host counts: which resource, measured or not, how busy."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from attribute_command import LONG, as_json, as_table, csv, long_rows, run
from attribute_command import host_file as host_file
from attribute_command import long_file as long_file
from attribute_command import served as served
from error_lines import one_line
from simulated_classes import Simulated

from testbed.data_file_paths import data


def test_measured_cpu_is_used(
    tmp_path: Path, host_file: Path, served: Simulated, capsys: pytest.CaptureFixture[str]
) -> None:
    """A column cpu_s is what the server itself measures."""
    path = tmp_path / "measured.csv"
    path.write_text(csv([*LONG[:-1], "cpu_s"], long_rows(served)))
    answer = as_json(capsys, path, "--host", host_file)
    assert answer["method"] == "measured"
    assert answer["compared_with"] == "work-time"
    assert answer["classes"]["scan"]["total"] == pytest.approx(served.truth[:, 7].sum())
    assert "measured" in as_table(capsys, path, "--host", host_file)
    few = tmp_path / "few.csv"
    few.write_text(csv([*LONG[:-1], "cpu_s"], long_rows(served)[:300]))
    answer = as_json(capsys, few, "--host", host_file)
    assert (answer["method"], answer["reasons"]) == ("measured", [])


def test_any_column_of_the_host_can_be_divided(
    long_file: Path, host_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bytes are no time: by the learned model, and not scored against a truth about CPU."""
    answer = as_json(capsys, long_file, "--host", host_file, "--resource", "wchar")
    assert (answer["resource"], answer["method"]) == ("wchar", "learned")
    assert answer["truth_error"] is None


def test_calls_without_times_are_not_used_as_times(
    tmp_path: Path, host_file: Path, served: Simulated, capsys: pytest.CaptureFixture[str]
) -> None:
    """CPU is learned from calls and rows: a call that reads more rows may cost more."""
    places = [i for i, name in enumerate(LONG) if name not in ("timer_wait_s", "lock_s")]
    rows = [[row[i] for i in places] for row in long_rows(served)]
    path = tmp_path / "counts.csv"
    path.write_text(csv([LONG[i] for i in places], rows))
    answer = as_json(capsys, path, "--host", host_file)
    assert answer["method"] == "learned"
    assert answer["truth_error"] < 0.12


def test_times_without_calls_are_divided_by_the_reported_method(
    tmp_path: Path, host_file: Path, served: Simulated, capsys: pytest.CaptureFixture[str]
) -> None:
    """By work time where texts are known: sleepers get nothing, nearly all is attributed."""
    unknown = ("count", "rows_examined", "rows_sent")
    places = [i for i, name in enumerate(LONG) if name not in unknown]
    path = tmp_path / "times.csv"
    path.write_text(
        csv([LONG[i] for i in places], [[row[i] for i in places] for row in long_rows(served)])
    )
    answer = as_json(capsys, path, "--host", host_file)
    assert (answer["method"], answer["compared_with"]) == ("work-time", "wlr")
    assert answer["truth_error"] < 0.12
    assert answer["classes"]["sleep"]["total"] == 0
    assert answer["unattributed"] < 0.1 * answer["total"]


@pytest.mark.parametrize(("every", "shown"), [(0.2, "0.2 s"), (4, "4 s")])
def test_a_host_file_with_other_intervals_is_refused(
    tmp_path: Path, long_file: Path, every: float, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row at an interval's end would be taken for the use in all of it."""
    host = tmp_path / "other.csv"
    rows = [[every * k, 0.3 * every] for k in range(1, round(120 / every) + 1)]
    host.write_text(csv(["t_s", "mysqld_cpu_s"], rows))
    said = one_line(capsys, run(long_file, "--host", host))
    assert f"{host}: its rows are {shown} apart, and an interval of {long_file} lasts 1 s;" in said


def test_a_recording_for_replay_is_no_host_file(
    long_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its CPU time is a counter, not what an interval used."""
    samples = tmp_path / "samples.csv"
    samples.write_text("t_s,questions,threads_running,uptime_s,server_cpu_s\n0,10,1,10,7\n")
    words = (long_file, "--host", samples, "--resource", "server_cpu_s")
    text = one_line(capsys, run(*words))
    assert "samples.csv:1: these are samples of a server, whose columns are counters; give" in text


def test_unpredictable_bytes_are_unattributed(
    tmp_path: Path, long_file: Path, served: Simulated, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of a checkpoint, for instance; bytes that go with rows are divided."""
    rng = np.random.default_rng(1)
    rows = dict(served.intervals.sizes)["rows_sent"].sum(axis=1)
    columns = {"write_bytes": rng.exponential(1e6, len(rows)), "sent_bytes": 100.0 * rows}
    host = tmp_path / "bytes.csv"
    table = np.column_stack((np.arange(1, len(rows) + 1), *columns.values()))
    host.write_text(csv(["t_s", *columns], table.tolist()))
    written = as_json(capsys, long_file, "--host", host, "--resource", "write_bytes")
    assert written["unattributed"] == pytest.approx(columns["write_bytes"].sum())
    assert not any(one["total"] for one in written["classes"].values())
    assert "withheld" in written["reasons"]
    asked = ("--host", host, "--resource", "write_bytes", "--method", "learned")
    assert any(one["total"] for one in as_json(capsys, long_file, *asked)["classes"].values())
    sent = as_json(capsys, long_file, "--host", host, "--resource", "sent_bytes")
    assert sent["unattributed"] < 0.1 * columns["sent_bytes"].sum()
    assert "withheld" not in sent["reasons"]


@pytest.mark.parametrize("resource", ["utime_s", "stime_s", "system_cpu_s"])
def test_user_or_system_cpu_is_not_compared_with_all_cpu(
    tmp_path: Path, served: Simulated, capsys: pytest.CaptureFixture[str], resource: str
) -> None:
    """Cpu_s and cpu_true_s are of both together: neither used nor compared with."""
    host = tmp_path / "parts.csv"
    host.write_text(csv(["t_s", resource], [[i + 1, 0.2 * y] for i, y in enumerate(served.y)]))
    path = tmp_path / "measured.csv"
    path.write_text(csv([*LONG, "cpu_s"], [[*row, row[-1]] for row in long_rows(served)]))
    answer = as_json(capsys, path, "--host", host, "--resource", resource)
    assert (answer["method"], answer["truth_error"]) == ("work-time", None)
    used = sum(one["total"] for one in answer["classes"].values())
    assert used + answer["unattributed"] == pytest.approx(0.2 * served.y.sum())


KINDS = ("user", "nice", "sys", "idle", "iowait", "irq", "softirq", "steal")
AT_REST, BUSY = [50, 0, 2, 147, 1, 0, 0, 0], [150, 0, 48, 1, 1, 0, 0, 0]
READING = [50, 0, 9, 101, 40, 0, 0, 0]
"""Jiffies of an interval, by these kinds."""


def busy_file(path: Path, served: Simulated, kinds: Sequence[list[int]], begin: int = 1) -> Path:
    """A host file with these jiffies, an interval each; some are the simulated server's."""
    y = dict(enumerate(served.y, 1))
    rows = [[t, y.get(t, 0.0), *kind] for t, kind in enumerate(kinds, begin)]
    path.write_text(csv(["t_s", "mysqld_cpu_s", *(f"host_{kind}" for kind in KINDS)], rows))
    return path


@pytest.mark.parametrize(
    ("kinds", "reasons"),
    [
        ([BUSY] * 120, ["saturated"]),
        ([AT_REST] * 30 + [BUSY] * 60 + [AT_REST] * 30, ["saturated"]),
        ([AT_REST] * 60 + [BUSY] * 20 + [AT_REST] * 40, []),
        ([READING] * 60 + [AT_REST] * 60, ["io_bound"]),
        ([BUSY] * 60 + [READING] * 60, ["saturated", "io_bound"]),
        ([[0] * 8] * 120, []),
    ],
    ids=["always", "for a minute", "for seconds", "of IO", "one after the other", "not counted"],
)
def test_a_saturated_or_io_bound_period_is_found_in_the_jiffies(
    tmp_path: Path,
    long_file: Path,
    served: Simulated,
    capsys: pytest.CaptureFixture[str],
    kinds: Sequence[list[int]],
    reasons: list[str],
) -> None:
    """A minute of it is enough, in JSON and in words."""
    host = busy_file(tmp_path / "busy.csv", served, kinds)
    assert as_json(capsys, long_file, "--host", host)["reasons"] == reasons
    text = as_table(capsys, long_file, "--host", host)
    assert ("caution        the host is saturated" in text) == ("saturated" in reasons)
    assert ("caution        the host waits for IO" in text) == ("io_bound" in reasons)


def test_the_host_is_judged_by_the_intervals_that_are_divided(
    tmp_path: Path, long_file: Path, served: Simulated, capsys: pytest.CaptureFixture[str]
) -> None:
    """An idle hour around two busy minutes does not count, nor does a busy one."""
    for inside, outside, reasons in ((BUSY, AT_REST, ["saturated"]), (AT_REST, BUSY, [])):
        kinds = [outside] * 1800 + [inside] * 120 + [outside] * 1800
        host = busy_file(tmp_path / "hour.csv", served, kinds, begin=-1799)
        assert as_json(capsys, long_file, "--host", host)["reasons"] == reasons


def test_a_recordings_saturated_minute_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """Busy for 97 % of one minute, and for 73 % of all eight."""
    for name, reasons in (("A_moderate", ["saturated"]), ("D_light", [])):
        files = (data(f"mysql97/{name}.csv.gz"), "--host", data(f"mysql97/{name}_host.csv.gz"))
        assert as_json(capsys, *files)["reasons"] == reasons
