"""The command `attribute`: both forms of file, what it prints, and how it fails."""

import argparse
import gzip
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from class_data import data
from complaints import one_line
from simulated_classes import Simulated, simulate

from agent.commands.attribute import add_parser
from agent.commands.attribute_words import in_words
from agent.tables.class_file import read_classes
from models.attribution.class_ticks import ClassTicks
from models.attribution.divide import Method, attribute
from models.attribution.sources import Target

KEYS = ["method", "resource", "ticks", "total", "classes", "unattributed", "fit", "held_out"]
KEYS += ["prediction", "disagreement", "compared_with", "reasons", "truth_error"]
CLASS_KEYS = ["total", "share", "slope", "intercept", "r_squared", "stderr"]
CLASS_KEYS += ["slope_stderr", "intercept_stderr", "samples", "waits"]
QUALITY_KEYS = ["mape", "r_squared", "slope"]
METHODS = ["auto", "wlr", "work-time", "learned"]


def run(*arguments: str | Path) -> int:
    """Run `attribute` with these arguments in this process."""
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    args = parser.parse_args(["attribute", *map(str, arguments)])
    code = args.run(args)
    assert isinstance(code, int)
    return code


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    """Run with --format json and parse standard output, NaN and Infinity forbidden."""

    def forbid(constant: str) -> None:
        raise AssertionError(constant)

    assert run(*arguments, "--format", "json") == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    answer: dict[str, Any] = json.loads(captured.out, parse_constant=forbid)
    return answer


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


def long_rows(s: Simulated, *, shift: float = 0.0) -> list[list[object]]:
    """Give the rows of the long form, truth included."""
    t = s.ticks
    assert t.count is not None
    assert t.lock_time is not None
    examined, sent = (matrix for _, matrix in t.sizes)
    matrices = (t.count, t.statement_time, t.lock_time, examined, sent, s.truth)
    return [
        [i + 1 + shift, 1, name, f'"{(t.texts or ())[k]}"', *(m[i, k] for m in matrices)]
        for i in range(len(t))
        for k, name in enumerate(t.names)
        if t.count[i, k]
    ]


LONG = ["t_s", "dt_s", "class", "digest_text", "count", "timer_wait_s", "lock_s"]
LONG += ["rows_examined", "rows_sent", "cpu_true_s"]


@pytest.fixture
def served() -> Simulated:
    """A simulated server, watched for two minutes."""
    return simulate(ticks=120)


@pytest.fixture
def long_file(tmp_path: Path, served: Simulated) -> Path:
    """A class file in the long form."""
    path = tmp_path / "classes.csv"
    path.write_text(csv(LONG, long_rows(served)))
    return path


@pytest.fixture
def host_file(tmp_path: Path, served: Simulated) -> Path:
    """Its host file, two ticks longer, with times that differ a little."""
    path = tmp_path / "host.csv"
    times = np.arange(len(served.y)) + 1.0004
    rows = [[t, y, 1e6 * y] for t, y in zip(times, served.y, strict=True)]
    path.write_text(csv(["t_s", "mysqld_cpu_s", "wchar"], [[-5, 1, 1], *rows, [500, 1, 1]]))
    return path


@pytest.fixture
def wide_file(tmp_path: Path) -> Path:
    """Three classes, of which the second is twice as dear."""
    rng = np.random.default_rng(1)
    x = rng.gamma(2, 1, (80, 3))
    y = x @ [1, 2, 1] + 0.5
    path = tmp_path / "wide.csv"
    path.write_text(csv(["a", "b", "c", "cpu"], np.column_stack((x, y)).tolist()))
    return path


@pytest.mark.parametrize("method", METHODS)
def test_json_has_its_keys_in_order(
    long_file: Path, host_file: Path, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    """The same keys from every method, numbers finite, totals that add up."""
    answer = as_json(capsys, long_file, "--host", host_file, "--method", method)
    assert list(answer) == KEYS
    assert answer["ticks"] == 120
    assert answer["resource"] == "mysqld_cpu_s"
    assert answer["prediction"] is None
    for quality in (answer["fit"], answer["held_out"]):
        assert list(quality) == QUALITY_KEYS
    for one in answer["classes"].values():
        assert list(one) == CLASS_KEYS
    together = sum(one["total"] for one in answer["classes"].values())
    assert together + answer["unattributed"] == pytest.approx(answer["total"])
    assert sum(one["share"] for one in answer["classes"].values()) == pytest.approx(1)


def test_the_best_source_is_chosen_and_scored(
    long_file: Path, host_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Work time where texts are known, and the truth is only compared with."""
    answer = as_json(capsys, long_file, "--host", host_file)
    assert answer["method"] == "work-time"
    assert answer["truth_error"] < 0.12
    assert answer["classes"]["sleep"]["waits"] is True
    assert answer["classes"]["sleep"]["share"] < 0.01
    assert answer["compared_with"] == "work-time"  # alone, as --method work-time divides
    assert answer["disagreement"] > 0


def test_the_truth_is_never_an_input(
    tmp_path: Path, host_file: Path, served: Simulated, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another truth, or none: the same answer but for the score."""
    answers = []
    for number, factor in enumerate((1.0, 7.0, None)):
        rows = long_rows(served)
        path = tmp_path / f"{number}.csv"
        if factor is None:
            path.write_text(csv(LONG[:-1], [row[:-1] for row in rows]))
        else:
            scaled = [
                [*row[:-1], factor * float(str(row[-1])) * (k % 3)] for k, row in enumerate(rows)
            ]
            path.write_text(csv(LONG, scaled))
        answer = as_json(capsys, path, "--host", host_file)
        score = answer.pop("truth_error")
        assert (score is None) == (factor is None)
        answers.append(answer)
    assert answers[0] == answers[1] == answers[2]


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


def test_the_wide_form_has_the_resource_last_unless_named(
    wide_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--resource b` divides b over a, c and cpu."""
    answer = as_json(capsys, wide_file)
    assert (answer["resource"], answer["method"]) == ("cpu", "learned")
    assert next(iter(answer["classes"])) == "b"
    assert answer["fit"]["mape"] < 0.01
    assert set(as_json(capsys, wide_file, "--resource", "b")["classes"]) == {"a", "c", "cpu"}


def test_another_file_is_predicted(
    wide_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Classes are found by name: another order, one that is new, one that is gone."""
    other = tmp_path / "other.csv"
    other.write_text("new,cpu,b,a\n1,4.5,1,2\n2,8.5,3,2\n0,2.5,1,0\n")
    answer = as_json(capsys, wide_file, "--predict", other)
    assert list(answer["prediction"]) == QUALITY_KEYS
    assert answer["prediction"]["mape"] < 0.02
    assert "prediction     the total within" in as_table(capsys, wide_file, "--predict", other)


def test_another_long_file_is_predicted_from_either_host_file(
    tmp_path: Path, host_file: Path, served: Simulated, capsys: pytest.CaptureFixture[str]
) -> None:
    """One host file for both, or one each."""
    rows = long_rows(served)
    half = next(i for i, row in enumerate(rows) if float(str(row[0])) > 60)
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    first.write_text(csv(LONG, rows[:half]))
    second.write_text(csv(LONG, rows[half:]))
    both = as_json(capsys, first, "--host", host_file, "--predict", second)
    each = as_json(
        capsys, first, "--host", host_file, "--predict", second, "--predict-host", host_file
    )
    assert both["prediction"]["mape"] < 0.06
    assert both == each


def test_the_published_results_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """`--method wlr`: MAPE 5.9 %, R² .96 and .91; `auto` predicts the second within 2.8 %."""
    files = (data("wlr/001.csv"), "--predict", data("wlr/002.csv"))
    published = as_json(capsys, *files, "--method", "wlr")
    assert published["fit"]["mape"] == pytest.approx(0.059, abs=0.0005)
    assert published["fit"]["r_squared"] == pytest.approx(0.96, abs=0.005)
    assert published["fit"]["slope"] == pytest.approx(0.97, abs=0.005)
    assert published["prediction"]["mape"] == pytest.approx(0.059, abs=0.0005)
    assert published["prediction"]["r_squared"] == pytest.approx(0.91, abs=0.005)
    assert published["prediction"]["slope"] == pytest.approx(1.0, abs=0.05)  # printed as "1"
    best = as_json(capsys, *files)
    assert best["prediction"]["mape"] <= 0.028
    assert best["prediction"]["r_squared"] >= 0.975


@pytest.mark.parametrize(("name", "most"), [("A_moderate", 0.06), ("D_light", 0.09)])
def test_recordings_are_divided_close_to_their_truth(
    name: str, most: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """Packed files of MySQL 9.7, scored against its own accounting."""
    files = (data(f"mysql97/{name}.csv.gz"), "--host", data(f"mysql97/{name}_host.csv.gz"))
    assert as_json(capsys, *files)["truth_error"] <= most


def test_packed_files_are_unpacked(
    long_file: Path, host_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By their content, whatever the name."""
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(long_file.read_bytes()))
    plain = as_json(capsys, long_file, "--host", host_file)
    assert as_json(capsys, packed, "--host", host_file) == plain


def test_rows_of_one_class_and_tick_are_summed(tmp_path: Path) -> None:
    """A digest that stands twice in the table is one class."""
    path = tmp_path / "twice.csv"
    path.write_text("t_s,class,timer_wait_s\n1,a,1\n1,a,2\n2,b,5\n2,a,1\n")
    assert read_classes(str(path)).ticks.statement_time.tolist() == [[3, 0], [1, 5]]


def test_optional_columns_may_be_absent_and_unknown_ones_are_passed_over(tmp_path: Path) -> None:
    """Only t_s, class and a time or a count are needed; texts may be blank."""
    path = tmp_path / "little.csv"
    path.write_text("note,t_s,class,count,digest_text\nx,2,a,1,\ny,1,a,3,\n")
    read = read_classes(str(path))
    assert read.ticks.statement_time.tolist() == [[3], [1]]
    assert (read.ticks.lock_time, read.ticks.sizes, read.ticks.texts) == (None, (), (None,))
    assert read.ticks.seconds.tolist() == [1, 1]


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


def test_the_table_is_for_people(
    long_file: Path, host_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sentence, the classes by use with bars and errors, what is left, where it comes from."""
    lines = as_table(capsys, long_file, "--host", host_file).splitlines()
    assert " uses most of mysqld_cpu_s: " in lines[0]
    assert lines[2].split() == ["class", "share", "estimated", "±", "error"]
    assert "████████████" in lines[3]
    assert " ± " in lines[3]
    assert next(line for line in lines if line.startswith("  sleep")).endswith("waits")
    assert any(line.startswith("  unattributed") for line in lines)
    assert any(line.startswith("  held out") for line in lines)
    assert any(line.startswith("  truth") for line in lines)


@pytest.mark.parametrize("classes", [1, 20, 21, 22, 300])
def test_many_classes_with_long_names_fit_the_screen(classes: int) -> None:
    """At most 21 rows and 80 columns; the small ones are summed in one row."""
    rng = np.random.default_rng(classes)
    x = rng.gamma(1, 1, (30, classes))
    names = tuple(f"{k:03d} SELECT {'a' * 90} {k:03d}\t" for k in range(classes))
    ticks = ClassTicks(names, np.ones(30), x)
    found = attribute(ticks, Target(1e9 * x.sum(axis=1)))
    lines = in_words("a_resource_with_quite_a_long_name", found, found.fit, 0.1).splitlines()
    assert max(map(len, lines)) <= 80
    rows = [line for line in lines if "…" in line and "%" in line][1:]
    assert len(rows) == (classes if classes <= 21 else 20)
    assert any(f"{classes - 20} more" in line for line in lines) == (classes > 21)


def test_nothing_explained_is_said_in_words() -> None:
    """No class did anything: all of it is unattributed."""
    ticks = ClassTicks(("a", "b"), np.ones(5), np.zeros((5, 2)))
    found = attribute(ticks, Target(np.ones(5)), Method.WLR)
    text = in_words("cpu", found, None, None)
    assert text.startswith("No class explains any of cpu: 5.00 in 5 ticks.")
    assert "100 % of all" in text


WIDE = {
    "empty": (b"", ":1: the file is empty"),
    "comments only": (b"# nothing\n\n", ":1: the file is empty"),
    "one column": (b"cpu\n1\n2\n", ":1: no class besides the resource"),
    "no ticks": (b"a,cpu\n", ":1: no ticks"),
    "one tick": (b"a,cpu\n1,2\n", ":2: 1 tick"),
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
    "idle": (b"a,cpu\n1,0\n2,0\n", ": cpu is 0 in every tick"),
    "open quote": (b'a,cpu\n1,2\n"1,2\n', ":3: this is not CSV"),
    "binary": (b"a,cpu\n1,2\n\0\0", ":3: this is not a text file"),
    "latin-1": (b"a,cpu\n1,\xb5\n", ":2: this is not UTF-8"),
    "broken gzip": (b"\x1f\x8bnothing", ": it cannot be unpacked"),
    "cut gzip": (gzip.compress(b"a,cpu\n1,2\n2,3\n")[:-9], ": it cannot be unpacked"),
}
LONG_ERRORS = {
    "no time": (b"t_s,class,rows_sent\n1,a,1\n", ":1: neither timer_wait_s nor count"),
    "one tick": (b"t_s,class,count\n1,a,1\n1,b,1\n", ":3: 1 tick"),
    "no ticks": (b"t_s,class,count\n", ":1: no ticks"),
    "no class": (b"t_s,class,count\n1,a,1\n2,,1\n", ":3: class is missing"),
    "word": (b"t_s,class,count\n1,a,1\nnoon,a,1\n", ":3: t_s is 'noon'"),
    "negative": (b"t_s,class,count\n1,a,1\n2,a,-1\n", ":3: count is -1"),
    "no length": (b"t_s,dt_s,class,count\n1,0,a,1\n", ":2: dt_s is 0"),
    "other times": (b"t_s,class,count\n1001,a,1\n1002,a,1\n", "it has 0 ticks at the same t_s"),
    "one common": (b"t_s,class,count\n120,a,1\n121,a,1\n", "it has 1 ticks at the same t_s"),
}
HOST_ERRORS = {
    "empty": (b"", ":1: the file is empty"),
    "no t_s": (b"t,mysqld_cpu_s\n1,1\n", ":1: no column t_s"),
    "no resource": (b"t_s,cpu\n1,1\n", ":1: no column mysqld_cpu_s"),
    "no ticks": (b"t_s,mysqld_cpu_s\n", ":1: no ticks"),
    "twice": (b"t_s,mysqld_cpu_s\n1,1\n1,2\n", ":3: two rows have the same t_s"),
    "negative": (b"t_s,mysqld_cpu_s\n1,1\n2,-2\n", ":3: mysqld_cpu_s is -2"),
    "one row": (b"t_s,mysqld_cpu_s\n1,1\n", "it has 1 ticks at the same t_s"),
    "idle": (b"t_s,mysqld_cpu_s\n1,0\n2,0\n3,0\n", "mysqld_cpu_s is 0 in every tick"),
}


def failure(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """The line that a run with a mistake ends with."""
    return one_line(capsys, run(*arguments))


@pytest.mark.parametrize("name", WIDE)
def test_a_bad_wide_file_is_one_line_with_its_place_and_a_remedy(
    tmp_path: Path, wide_file: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """`mysql-headroom: FILE:LINE: what is wrong; remedy` and exit 2, as --predict too."""
    content, expected = WIDE[name]
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    assert f"mysql-headroom: {path}{expected}" in failure(capsys, path)
    assert str(path) in failure(capsys, wide_file, "--predict", path)


@pytest.mark.parametrize("name", LONG_ERRORS)
def test_a_bad_long_file_is_one_line_with_its_place_and_a_remedy(
    tmp_path: Path, host_file: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """The same for a row per tick and class."""
    content, expected = LONG_ERRORS[name]
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    assert expected in failure(capsys, path, "--host", host_file)


@pytest.mark.parametrize("name", HOST_ERRORS)
def test_a_bad_host_file_is_one_line_with_its_place_and_a_remedy(
    tmp_path: Path, long_file: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """The same for the host's file."""
    content, expected = HOST_ERRORS[name]
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    assert expected in failure(capsys, long_file, "--host", path)


def test_files_that_do_not_go_together_are_one_line(
    tmp_path: Path,
    wide_file: Path,
    long_file: Path,
    host_file: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A long file without a host, a wide one with it, an unknown column, a missing file."""
    assert "name that file with --host" in failure(capsys, long_file)
    assert "leave --host out" in failure(capsys, wide_file, "--host", host_file)
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


def test_what_a_subtraction_leaves_over_counts_as_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """2e-13 of a class is none; the file is not refused for it."""
    path = tmp_path / "rounded.csv"
    path.write_text("a,b,cpu\n1,2e-13,2\n2,0,4\n3,-0.0,6\n")
    answer = as_json(capsys, path)
    assert answer["classes"]["b"]["total"] == 0
    assert answer["classes"]["b"]["samples"] == 0


def test_the_command_does_without_scipy_and_matplotlib(wide_file: Path) -> None:
    """Numpy alone."""
    script = (
        "import sys\n"
        "from agent.cli import main\n"
        "assert main(['attribute', sys.argv[1]]) == 0\n"
        "assert not {'scipy', 'matplotlib'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(wide_file)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("b uses most of cpu")
