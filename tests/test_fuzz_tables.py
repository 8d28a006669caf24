"""Tables with anything in them: an answer, or one line with the place; never a trace."""

import contextlib
import gzip
import io
import json
from pathlib import Path

import pytest
from fuzzing import any_text, fuzz, with_slips
from hypothesis import given
from hypothesis import strategies as st

from agent.cli import main

CURVE = "# measured\nconcurrency,throughput\n1,955\n2,1878\n4,3548\n8,6531\n16,9897\n"
WIDE = "select,update,cpu_s\n" + "".join(
    f"{1 + i % 3}.5,{i % 4},{0.4 + 0.1 * (i % 5)}\n" for i in range(8)
)
LONG = "t_s,class,timer_wait_s,count,lock_s,rows_examined,digest_text\n" + "".join(
    f'{i},{name},{0.5 + (i * k) % 3},{3 + i},0.1,{7 * k},"SELECT ?, {name}"\n'
    for i in range(6)
    for k, name in enumerate(("a", "b"), start=1)
)
HOST = (
    "t_s,mysqld_cpu_s,host_user,host_nice,host_sys,host_idle,host_iowait,host_irq,host_softirq,"
    "host_steal\n"
) + "".join(f"{i},{0.3 + 0.2 * (i % 3)},10,0,3,80,2,0,0,0\n" for i in range(6))
RECORDED = "t_s,questions,threads_running,uptime_s,server_cpu_s,host_cpu_busy_s,cpus"
RECORDING = f"{RECORDED}\n" + "".join(
    f"{t},{t * (300 + t)},{1 + t % 5},{500 + t},{0.2 * t},{0.3 * t},2\n" for t in range(0, 60, 2)
)
NUMBERS = st.floats() | st.integers() | st.sampled_from(["", "x", 0, 1e15, 1e-9, 1e300, -1])


def outcome(*arguments: str) -> tuple[int, str, str]:
    """The exit code of a command, and what it printed on both ways out."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    return code, out.getvalue(), err.getvalue()


def answers_or_complains(*arguments: str) -> None:
    """An answer that another program can read, or one line with a place and a remedy."""
    code, out, err = outcome(*arguments, "--format", "json")
    if code == 0:
        assert isinstance(json.loads(out), dict)
        assert err == ""
        return
    assert (code, out) == (2, "")
    assert err.startswith("mysql-headroom: ")
    assert err.count("\n") == 1
    assert "; " in err


def table(header: str, rows: list[list[object]]) -> bytes:
    """A CSV file of those cells."""
    lines = [header, *(",".join(map(str, row)) for row in rows)]
    return "\n".join(lines).encode()


def rows(width: int) -> st.SearchStrategy[list[list[object]]]:
    """Rows of numbers, likely and unlikely ones."""
    row: st.SearchStrategy[list[object]] = st.lists(NUMBERS, min_size=width, max_size=width)
    return st.lists(row, max_size=8)


@fuzz(150)
@given(
    content=with_slips(CURVE)
    | any_text()
    | rows(2).map(lambda r: table("concurrency,throughput", r))
)
def test_no_table_causes_a_trace_in_fit(tmp_path: Path, content: bytes) -> None:
    """A curve with edits, with wild numbers, and files that are no table."""
    path = tmp_path / "curve.csv"
    path.write_bytes(content)
    answers_or_complains("fit", str(path))


LAWFUL = st.floats(1e-9, 1e15)
USED = st.just(0.0) | st.floats(1e-12, 100) | st.floats(1e-12, 1e15)


@fuzz(60)
@given(points=st.lists(st.tuples(LAWFUL, LAWFUL), min_size=3, max_size=12))
@pytest.mark.parametrize("method", ["bayes", "lsq", "linearised"])
def test_no_accepted_numbers_cause_a_trace_in_fit(
    tmp_path: Path, method: str, points: list[tuple[float, float]]
) -> None:
    """Over twenty-four orders of magnitude."""
    path = tmp_path / "curve.csv"
    path.write_bytes(table("concurrency,throughput", [list(point) for point in points]))
    answers_or_complains("fit", str(path), "--method", method)


@fuzz(150)
@given(content=with_slips(WIDE) | any_text() | rows(3).map(lambda r: table("a,b,cpu_s", r)))
def test_no_wide_table_causes_a_trace_in_attribute(tmp_path: Path, content: bytes) -> None:
    """A column per class."""
    path = tmp_path / "wide.csv"
    path.write_bytes(content)
    answers_or_complains("attribute", str(path))


@fuzz(40)
@given(intervals=st.lists(st.tuples(USED, USED, USED), min_size=2, max_size=12))
@pytest.mark.parametrize("method", ["auto", "wlr", "work-time", "learned"])
def test_no_accepted_numbers_cause_a_trace_in_attribute(
    tmp_path: Path, method: str, intervals: list[tuple[float, ...]]
) -> None:
    """Two classes and their use, from nothing to far too much."""
    path = tmp_path / "wide.csv"
    path.write_bytes(table("a,b,cpu_s", [list(interval) for interval in intervals]))
    answers_or_complains("attribute", str(path), "--method", method)


@fuzz(150)
@given(
    long=with_slips(LONG), host=with_slips(HOST), which=st.sampled_from(["long", "host", "both"])
)
def test_no_long_table_causes_a_trace_in_attribute(
    tmp_path: Path, long: bytes, host: bytes, which: str
) -> None:
    """A row per interval and class, and the host's file beside it."""
    files = tmp_path / "long.csv", tmp_path / "host.csv"
    files[0].write_bytes(LONG.encode() if which == "host" else long)
    files[1].write_bytes(HOST.encode() if which == "long" else host)
    answers_or_complains("attribute", str(files[0]), "--host", str(files[1]))


@fuzz(60)
@given(
    content=with_slips(RECORDING)
    | any_text()
    | rows(6).map(lambda r: table(RECORDED, [[k, *row] for k, row in enumerate(r)]))
    | rows(7).map(lambda r: table(RECORDED, r))
)
def test_no_recording_causes_a_trace_in_replay(tmp_path: Path, content: bytes) -> None:
    """Edits, and wild numbers at valid and at wild times: lines of JSON, or one line."""
    path = tmp_path / "recording.csv"
    path.write_bytes(content)
    options = ("--every", "100d", "--interval", "10s", "--sampling", "1s", "--format", "json")
    code, out, err = outcome("replay", str(path), *options)
    assert all(line.startswith("mysql-headroom: ") for line in err.splitlines())
    if code == 0:
        assert all(isinstance(json.loads(line), dict) for line in out.splitlines())
        assert out
    else:
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "; " in err


@fuzz(80)
@given(place=st.integers(0, 200), flipped=st.integers(1, 255), cut=st.integers(0, 200))
def test_no_damaged_gzip_causes_a_trace(tmp_path: Path, place: int, flipped: int, cut: int) -> None:
    """A packed table with a byte changed and its end cut off."""
    packed = bytearray(gzip.compress(CURVE.encode(), mtime=0))
    packed[place % len(packed)] ^= flipped
    path = tmp_path / "curve.csv.gz"
    path.write_bytes(bytes(packed[: len(packed) - cut % len(packed)]))
    answers_or_complains("fit", str(path))
