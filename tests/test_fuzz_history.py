"""Whatever is imported into a history, and whatever rows are in it."""

from contextlib import closing
from pathlib import Path

import pytest
from fuzzing import fuzz
from history_command import FORMATS, Run
from history_command import path as path
from history_command import run as run
from history_rows import everything, interval, rows
from hypothesis import given
from hypothesis import strategies as st

from agent.history.open_database import open_to_write
from agent.history.row_access import insert_rows
from agent.history.row_kinds import INTERVALS, KINDS, Row
from agent.history.text.csv_format import as_csv, header
from agent.history.text.openmetrics_format import FAMILIES

GOOD = "".join(as_csv(INTERVALS, [interval(0), interval(1)])).splitlines()
NAMES = st.sampled_from([*FAMILIES, "x", "mysql_headroom_history_"])
BITS = st.one_of(st.sampled_from([*GOOD, "# EOF", ",", '"', "{", "}", "1e308", "-0"]), st.text())
MADE = st.builds(
    lambda name, labels, value, at: f"{name}{{{labels}}} {value} {at}",
    NAMES,
    st.text(alphabet='targetsvrnm="\\,{} x1', max_size=40),
    st.one_of(st.floats().map(repr), st.text(max_size=9)),
    st.one_of(st.floats().map(repr), st.integers().map(str), st.text(max_size=9)),
)
HEADERS = [",".join(header(kind)) for kind in KINDS.values()]


@fuzz(300)
@given(first=st.sampled_from([*HEADERS, "# TYPE x gauge", ""]), lines=st.lists(BITS | MADE))
def test_any_import_is_an_error_or_a_success(
    tmp_path: Path, run: Run, first: str, lines: list[str]
) -> None:
    """Never a trace or a half; accepted rows can be exported again."""
    text = tmp_path / "anything"
    text.write_bytes("\n".join([first, *lines]).encode("utf-8", "surrogatepass"))
    file = tmp_path / "fuzzed" / "history.db"
    before = everything(file) if file.exists() else None
    code, out, err = run("import", text, file=file)
    if code == 0:
        assert err == ""
        for kind in KINDS:
            assert run("export", "--kind", kind, file=file)[0] == 0
    else:
        assert code == 2
        assert out == ""
        assert all(line.startswith("mysql-headroom: ") for line in err.splitlines())
        assert (everything(file) if file.exists() else None) == before


NUMBER = st.floats(min_value=0.001, max_value=1e300)
ROWS = st.builds(
    lambda target, server, at, required, others, resources: Row(
        (target, server), at, (*required, *others, resources or None)
    ),
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,20}", fullmatch=True),
    st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=20),
    st.integers(0, 4_000_000_000_000),
    st.tuples(NUMBER, NUMBER),
    st.tuples(*[st.none() | NUMBER] * 6),
    st.dictionaries(st.text("abc:", min_size=1, max_size=5), st.floats(-1e300, 1e300), max_size=3),
)


@fuzz(100)
@given(made=st.lists(ROWS, min_size=1, max_size=8, unique_by=lambda row: (row.labels, row.at)))
@pytest.mark.parametrize("style", FORMATS)
def test_any_rows_round_trip(tmp_path: Path, run: Run, style: str, made: list[Row]) -> None:
    """Whatever the names and numbers."""
    first, second = tmp_path / "first" / "history.db", tmp_path / "second" / "history.db"
    for file in (first, second):
        file.unlink(missing_ok=True)
    with closing(open_to_write(first)) as connection:
        insert_rows(connection, INTERVALS, made)
    text = tmp_path / "rows"
    assert run("export", "--format", style, "-o", text, file=first)[0] == 0
    code, _, err = run("import", text, file=second)
    assert (code, err) == (0, "")
    assert rows(second, INTERVALS) == rows(first, INTERVALS)
    assert sorted(rows(first, INTERVALS)) == sorted(made)
