"""The files that `attribute` reads: their forms, and every mistake told in one line."""

import gzip
from pathlib import Path

import pytest
from attribute_command import as_json, run
from attribute_command import host_file as host_file
from attribute_command import long_file as long_file
from attribute_command import served as served
from attribute_command import wide_file as wide_file
from error_lines import one_line

from agent.cli import main
from agent.csv_input.class_file import read_classes


def test_compressed_files_are_read(
    long_file: Path, host_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By their content, whatever the name."""
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(long_file.read_bytes()))
    plain = as_json(capsys, long_file, "--host", host_file)
    assert as_json(capsys, packed, "--host", host_file) == plain


def test_rows_of_one_class_and_interval_are_summed(tmp_path: Path) -> None:
    """A digest that occurs twice in the table is one class."""
    path = tmp_path / "twice.csv"
    path.write_text("t_s,class,timer_wait_s\n1,a,1\n1,a,2\n2,b,5\n2,a,1\n")
    assert read_classes(str(path)).intervals.statement_time.tolist() == [[3, 0], [1, 5]]


def test_optional_columns_may_be_absent_and_unknown_ones_are_ignored(tmp_path: Path) -> None:
    """Only t_s, class and a time or a count are required; texts may be blank."""
    path = tmp_path / "little.csv"
    path.write_text("note,t_s,class,count,digest_text\nx,2,a,1,\ny,1,a,3,\n")
    read = read_classes(str(path))
    assert read.intervals.statement_time.tolist() == [[3], [1]]
    assert (read.intervals.lock_time, read.intervals.sizes, read.intervals.texts) == (
        None,
        (),
        (None,),
    )
    assert read.intervals.seconds.tolist() == [1, 1]


def test_column_names_may_be_in_upper_case(
    long_file: Path, host_file: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """As programs write them that export a table; the classes keep their names."""
    upper_long, upper_host = tmp_path / "upper-classes.csv", tmp_path / "upper-host.csv"
    for path, upper in ((long_file, upper_long), (host_file, upper_host)):
        header, _, rows = path.read_text().partition("\n")
        upper.write_text(f"{header.upper()}\n{rows}")
    plain = as_json(capsys, long_file, "--host", host_file)
    same = as_json(capsys, upper_long, "--host", upper_host)
    assert same == plain


def test_two_columns_of_one_name_in_other_case_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the long form, whose names are known in any case."""
    path = tmp_path / "twice.csv"
    path.write_text("t_s,class,count,Count\n1,a,1,1\n2,a,1,1\n")
    assert ":1: two columns are named count; give each a name" in one_line(capsys, run(path))


def test_a_line_that_names_the_separator_is_no_header(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Excel writes or wants one; the separator itself is judged by the header."""
    path = tmp_path / "table.csv"
    path.write_text("sep=,\nt_s,class,count\n1,a,1\n2,b,1\n")
    assert read_classes(str(path)).intervals.names == ("a", "b")
    path.write_text('"sep=;"\r\nt_s;class;count\r\n1;a;1\r\n')
    assert ":2: its cells are separated by semicolons; separate" in one_line(capsys, run(path))


WIDE = {
    "empty": (b"", ":1: the file is empty"),
    "comments only": (b"# nothing\n\n", ":1: the file is empty"),
    "one column": (b"cpu\n1\n2\n", ":1: no class besides the resource"),
    "a recording": (
        b"t_s,questions,threads_running,uptime_s\n0,10,1,10\n5,20,1,15\n",
        ":1: these are samples of a server, without its query classes; `mysql-headroom replay`",
    ),
    "no intervals": (b"a,cpu\n", ":1: no intervals"),
    "one interval": (b"a,cpu\n1,2\n", ":2: 1 interval"),
    "twice": (b"a,a,cpu\n1,1,1\n", ":1: two columns are named a"),
    "no name": (b"a,,cpu\n1,1,1\n", ":1: a column has no name"),
    "word": (b"a,cpu\n1,2\nmany,2\n", ":3: a is 'many'"),
    "nan": (b"a,cpu\n1,2\nnan,2\n", ":3: a is nan"),
    "inf": (b"a,cpu\n1,2\n1,1e999\n", ":3: cpu is 1e999"),
    "negative": (b"a,cpu\n1,2\n-1,2\n", ":3: a is -1"),
    "negative resource": (b"a,cpu\n1,2\n1,-2\n", ":3: cpu is -2"),
    "missing": (b"a,cpu\n1,2\n1\n", ":3: cpu is missing"),
    "blank": (b"a,cpu\n1,2\n ,1\n", ":3: a is missing"),
    "ragged": (b"a,cpu\n1,2\n1,2,3\n", ":3: 3 cells under 2 columns"),
    "idle": (b"a,cpu\n1,0\n2,0\n", ": cpu is 0 in every interval"),
    "open quote": (b'a,cpu\n1,2\n"1,2\n', ":3: this is not CSV"),
    "binary": (b"a,cpu\n1,2\n\0\0", ":3: this is not a text file"),
    "latin-1": (b"a,cpu\n1,\xb5\n", ":2: this is not UTF-8"),
    "broken gzip": (b"\x1f\x8bnothing", ": it cannot be unpacked"),
    "cut gzip": (gzip.compress(b"a,cpu\n1,2\n2,3\n")[:-9], ": it cannot be unpacked"),
}
LONG_ERRORS = {
    "no time": (b"t_s,class,rows_sent\n1,a,1\n", ":1: neither timer_wait_s nor count"),
    "one interval": (b"t_s,class,count\n1,a,1\n1,b,1\n", ":3: 1 interval"),
    "no intervals": (b"t_s,class,count\n", ":1: no intervals"),
    "no class": (b"t_s,class,count\n1,a,1\n2,,1\n", ":3: class is missing"),
    "word": (b"t_s,class,count\n1,a,1\nnoon,a,1\n", ":3: t_s is 'noon'"),
    "negative": (b"t_s,class,count\n1,a,1\n2,a,-1\n", ":3: count is -1"),
    "no length": (b"t_s,dt_s,class,count\n1,0,a,1\n", ":2: dt_s is 0"),
    "other times": (b"t_s,class,count\n1001,a,1\n1002,a,1\n", "it has 0 intervals at the same t_s"),
    "one common": (b"t_s,class,count\n120,a,1\n121,a,1\n", "it has 1 intervals at the same t_s"),
}
HOST_ERRORS = {
    "empty": (b"", ":1: the file is empty"),
    "no t_s": (b"t,mysqld_cpu_s\n1,1\n", ":1: no column t_s"),
    "no resource": (b"t_s,cpu\n1,1\n", ":1: no column mysqld_cpu_s"),
    "no intervals": (b"t_s,mysqld_cpu_s\n", ":1: no intervals"),
    "twice": (b"t_s,mysqld_cpu_s\n1,1\n1,2\n", ":3: two rows have the same t_s"),
    "negative": (b"t_s,mysqld_cpu_s\n1,1\n2,-2\n", ":3: mysqld_cpu_s is -2"),
    "one row": (b"t_s,mysqld_cpu_s\n1,1\n", "it has 1 intervals at the same t_s"),
    "idle": (b"t_s,mysqld_cpu_s\n1,0\n2,0\n3,0\n", "mysqld_cpu_s is 0 in every interval"),
}


def failure(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """The line that a run with a mistake ends with."""
    return one_line(capsys, run(*arguments))


@pytest.mark.parametrize("name", WIDE)
def test_an_invalid_wide_file_is_one_line_with_place_and_remedy(
    tmp_path: Path, wide_file: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """`mysql-headroom: FILE:LINE: what is wrong; remedy` and exit 2, as --predict too."""
    content, expected = WIDE[name]
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    assert f"mysql-headroom: {path}{expected}" in failure(capsys, path)
    assert str(path) in failure(capsys, wide_file, "--predict", path)


@pytest.mark.parametrize("name", LONG_ERRORS)
def test_an_invalid_long_file_is_one_line_with_place_and_remedy(
    tmp_path: Path, host_file: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """The same for a row per interval and class."""
    content, expected = LONG_ERRORS[name]
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    assert expected in failure(capsys, path, "--host", host_file)


@pytest.mark.parametrize("name", HOST_ERRORS)
def test_an_invalid_host_file_is_one_line_with_place_and_remedy(
    tmp_path: Path, long_file: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """The same for the host's file."""
    content, expected = HOST_ERRORS[name]
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    assert expected in failure(capsys, long_file, "--host", path)


def test_incompatible_files_are_one_line(
    tmp_path: Path,
    wide_file: Path,
    long_file: Path,
    host_file: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A long file without a host, a wide one with it, an unknown column, a missing file."""
    assert "name that file with --host" in failure(capsys, long_file)
    assert "omit --host" in failure(capsys, wide_file, "--host", host_file)
    assert "no column x" in failure(capsys, wide_file, "--resource", "x")
    assert "no column x" in failure(capsys, long_file, "--host", host_file, "--resource", "x")
    assert "there is no such file" in failure(capsys, tmp_path / "none.csv")
    assert "it is a directory" in failure(capsys, tmp_path)
    assert "no such file" in failure(capsys, wide_file, "--predict", tmp_path / "none.csv")
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n2,3\n")
    assert "no column cpu" in failure(capsys, wide_file, "--predict", other)
    other.write_text("x,cpu\n1,2\n2,3\n")
    assert "predict a file of the same classes" in failure(capsys, wide_file, "--predict", other)
    alone = failure(capsys, wide_file, "--predict-host", host_file)
    assert "name the other file with --predict" in alone


def test_rounding_errors_of_a_subtraction_count_as_zero(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """2e-13 of a class is none; the file is not refused for it."""
    path = tmp_path / "rounded.csv"
    path.write_text("a,b,cpu\n1,2e-13,2\n2,0,4\n3,-0.0,6\n")
    answer = as_json(capsys, path)
    assert answer["classes"]["b"]["total"] == 0
    assert answer["classes"]["b"]["samples"] == 0


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a;cpu\n1;2\n3;4\n", "its cells are separated by semicolons; separate them by commas"),
        ("a\tcpu\n1\t2\n", "its cells are separated by tabs; separate them by commas"),
        (
            "1,2\n3,4\n",
            "its first line has numbers and no names; name the columns in the first line",
        ),
    ],
)
def test_a_table_of_another_form_is_recognised_by_its_first_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, complaint: str
) -> None:
    """Semicolons, tabs and a missing header, by `fit` and `attribute` alike."""
    path = tmp_path / "table.csv"
    path.write_text(text)
    for command in ("fit", "attribute"):
        assert main([command, str(path)]) == 2
        assert capsys.readouterr().err == f"mysql-headroom: {path}:1: {complaint}\n"
