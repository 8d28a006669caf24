"""The command `replay` on the agent's own history file."""

import gzip
import json
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from math import isfinite
from pathlib import Path
from typing import Any

import pytest
from error_lines import one_line
from recordings import rows, written

from agent.cli import main
from agent.config.timestamps import time_text
from agent.history.open_database import open_to_write
from agent.history.row_access import insert_chunk, insert_rows, target_id
from agent.history.row_kinds import INTERVALS
from agent.history.row_mapping import interval_row, sample_chunks
from agent.pipeline import observations
from agent.replay.recording_opener import ReplayOptions, open_recording
from agent.support.clock_pair import ClockPair
from agent.window.concurrency import ConcurrencySource
from agent.window.interval_buffer import IntervalBuffer
from agent.window.intervals import Interval, Window
from collectors.base import Sample
from models.capacity.assess import assess_capacity

RECORDED = Path(__file__).parent / "fixtures" / "real" / "mysql-hot-longer.json.gz"
ZERO = 1_790_000_000.0
"""The Unix time of the recording's first interval."""
SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
PEAK = 24_000.0
Json = dict[str, Any]


def real_intervals() -> list[Interval]:
    """A run of MySQL 9.7 with rising loads, at times of their own on the wall clock."""
    seen = json.loads(gzip.decompress(RECORDED.read_bytes()))
    rows = [Interval(**row) for row in seen["intervals"]]
    first = rows[0].end
    return [row._replace(end=round(row.end - first + ZERO, 3)) for row in rows]


def history(path: Path, *written: tuple[str, str, Iterable[Interval]]) -> Path:
    """A history with these intervals of each target and server."""
    clock = ClockPair(0.0, 0.0)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with closing(open_to_write(path)) as connection:
        for target, server, rows in written:
            found = [interval_row((target, server), row, clock) for row in rows]
            insert_rows(connection, INTERVALS, found)
    return path


def said(capsys: pytest.CaptureFixture[str], *words: object) -> list[Json]:
    """What each line of `replay … --format json` says."""
    assert main(["replay", *map(str, words), "--format", "json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_each_step_uses_only_earlier_intervals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has the models' results for the intervals up to then."""
    rows = real_intervals()
    path = history(tmp_path / "state" / "history.db", ("db", SERVER, rows))
    lines = said(capsys, path, "--every", "2m", "--sla-seconds", "5ms")
    assert len(lines) >= 4
    assert lines[-1]["at"] == rows[-1].end
    for line in lines:
        window = Window(row for row in rows if row.end <= line["at"])
        expected = assess_capacity(observations(window, ConcurrencySource.STATEMENT_TIME))
        found = line["capacity"]
        assert found["value"] == pytest.approx(expected.value)
        assert (found["lower"], found["upper"]) == pytest.approx((expected.lower, expected.upper))
        assert (found["limit"], found["trust"]) == (expected.limit, expected.trust)
        assert line["load"]["throughput"] == window["throughput"][-1]
        assert isfinite(line["capacity"]["headroom"])
        at, lasts = line["sla"]["throughput"], line["residence_time"]
        assert at or line["sla"]["reasons"]
        load = line["load"]["throughput"]
        if at and load < found["value"]:  # what is served beyond the capacity refutes both
            assert (at["value"] > load) == (lasts < 0.005)
    assert lines[-1]["capacity"]["value"] == pytest.approx(PEAK, rel=0.25)


def test_a_time_of_a_history_is_a_date_or_a_duration_ago(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As for every other command; one outside of the history is reported as a date."""
    rows = real_intervals()
    path = history(tmp_path / "state" / "history.db", ("db", SERVER, rows))
    middle = rows[len(rows) // 2].end
    [found] = said(capsys, path, "--at", f"{time.time() - middle:.0f}s")
    assert found["at"] == pytest.approx(middle, abs=30)
    begin, end = time_text(rows[0].end - rows[0].seconds), time_text(rows[-1].end)
    for text, problem in (
        ("20200101", f"is before the recording, which begins at {begin}"),
        ("2096-01-01T00:00Z", f"2096-01-01T00:00:00Z is after the recording, which ends at {end}"),
        ("9000", "--at: '9000' is not a time; write 2026-11-21T13:00 (local)"),
    ):
        assert problem in one_line(capsys, main(["replay", str(path), "--at", text]))


def test_one_of_several_targets_and_servers_is_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A target must be named, its latest server is replayed, and the others are listed."""
    rows = real_intervals()
    half = len(rows) // 2
    path = history(
        tmp_path / "state" / "history.db",
        ("a", "first", rows[:half]),
        ("a", "second", rows[half:]),
        ("b", SERVER, rows),
    )
    assert main(["replay", str(path)]) == 2
    assert "there are a, b; choose one with --target NAME" in capsys.readouterr().err
    assert main(["replay", str(path), "--target", "c"]) == 2
    assert "no target 'c'; the history has a, b" in capsys.readouterr().err
    assert main(["replay", str(path), "--target", "a"]) == 0
    shown = capsys.readouterr()
    assert "a on second" in shown.out
    assert "a also has data of server first (--server)" in shown.err
    [first] = said(capsys, path, "--target", "a", "--server", "first", "--at", rows[half - 1].end)
    assert first["assessed_at"] == rows[half - 1].end
    assert main(["replay", str(path), "--target", "a", "--server", "x"]) == 2
    assert "a has no server 'x'; it has first, second" in capsys.readouterr().err


def test_only_intervals_of_one_width_are_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the latest width by default; those of another are named, and a missing width too."""
    rows = real_intervals()
    half = len(rows) // 2
    wide = [row._replace(seconds=8.0) for row in rows[:half]]
    path = history(tmp_path / "state" / "history.db", ("db", SERVER, [*wide, *rows[half:]]))
    [late] = said(capsys, path, "--at", rows[-1].end)
    [early] = said(capsys, path, "--at", rows[half - 1].end, "--interval", "8s")
    assert min(point["at"] for point in late["points"]) >= rows[half].end
    assert max(point["at"] for point in early["points"]) <= rows[half - 1].end
    assert main(["replay", str(path), "--format", "json"]) == 0
    unused = (
        f"{half} intervals of 8s are not used, only those of 4s; --interval 8s uses them instead"
    )
    assert capsys.readouterr().err == f"mysql-headroom: {path}: {unused}\n"
    assert main(["replay", str(path), "--interval", "5s"]) == 2
    text = (
        "no intervals of 5 s; the latest are of 4 s,"
        " and there are no samples to compute others from"
    )
    assert text in capsys.readouterr().err


def rising(until: int) -> Iterator[Sample]:
    """Samples a second apart of a load that rises, with a burst of a second every ten."""
    questions = 0.0
    for at in range(until):
        questions += 10.0 * at + (5000.0 if at % 10 == 3 else 0.0)
        status = {"questions": questions, "threads_running": 2.0, "uptime": 100.0 + at}
        status |= {"own_statements": 4.0 * at, "threads_connected": 9.0}
        yield Sample("status", at + 0.25, status)
        yield Sample("statements", at + 0.5, {"statement_seconds": questions / 1e4})


def test_intervals_of_another_width_are_computed_from_samples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As by an agent with that `fit.interval`; too narrow ones are refused."""
    buffer, path = IntervalBuffer(15.0, 3600.0, 1.0), tmp_path / "state" / "history.db"
    narrow = IntervalBuffer(5.0, 3600.0, 1.0)
    taken = list(rising(300))
    for sample in taken:
        buffer.append(sample)
        narrow.append(sample)
        buffer.window(sample.at)
        narrow.window(sample.at)
    clock = ClockPair(0.0, ZERO)
    written = [row._replace(end=row.end + ZERO) for row in buffer.window(300.0).as_intervals]
    history(path, ("db", SERVER, written))
    with closing(open_to_write(path)) as connection:
        target = target_id(connection, "db", SERVER)
        for start in range(0, len(taken), 40):
            for chunk in sample_chunks(taken[start : start + 40], clock):
                insert_chunk(connection, target, chunk)
    assert main(["replay", str(path), "--interval", "5s", "--format", "json"]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    last = json.loads(told.out.splitlines()[-1])
    expected = narrow.window(400.0)
    found = {point["at"] - ZERO: point["throughput"] for point in last["points"]}
    rates = dict(zip(expected["end"], expected["throughput"], strict=True))
    assert len(rates) > 50
    assert rates == pytest.approx({end: found[end] for end in rates}, rel=1e-3)
    assert main(["replay", str(path), "--interval", "1500ms"]) == 2
    assert "less than twice the time between two samples" in capsys.readouterr().err


def test_an_unreadable_history_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A damaged one exits with 1, one without an interval with 2."""
    path = history(tmp_path / "state" / "history.db", ("db", SERVER, real_intervals()))
    empty = history(tmp_path / "empty" / "history.db")
    broken = tmp_path / "broken.db"
    broken.write_bytes(path.read_bytes()[:5000])
    for file, code, text in ((broken, 1, "broken.db: "), (empty, 2, "no intervals yet")):
        assert main(["replay", str(file)]) == code
        shown = capsys.readouterr()
        assert shown.out == ""
        assert text in shown.err
        assert shown.err.count("\n") == 1


@pytest.mark.parametrize("kind", ["samples", "history"])
def test_the_end_of_a_recording_is_known_without_its_intervals(tmp_path: Path, kind: str) -> None:
    """Skipped, it has the same beginning and end as played, and makes no interval."""
    if kind == "samples":
        path = written(tmp_path / "db.csv", rows(600))
    else:
        path = history(tmp_path / "state" / "history.db", ("db", SERVER, real_intervals()))
    with open_recording(str(path), ReplayOptions()) as played:
        while isfinite(played.recording.next_at):
            played.recording.play(played.recording.next_at)
        expected = played.recording.start, played.recording.end
    with open_recording(str(path), ReplayOptions()) as skipped:
        skipped.recording.skip_to_end()
        assert (skipped.recording.start, skipped.recording.end) == expected
        assert len(skipped.recording.buffer.latest_window) == 0
