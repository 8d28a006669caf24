"""The command `attribute`: what it answers, in JSON and in words, on simulated and real servers."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from attribute_command import LONG, as_json, as_table, csv, long_rows, run
from attribute_command import host_file as host_file
from attribute_command import long_file as long_file
from attribute_command import served as served
from attribute_command import wide_file as wide_file
from simulated_classes import Simulated, simulate

from agent.export.attribute_report import format_attribution, shorten_middle
from agent.export.number_formats import format_short
from models.attribution.class_interval_table import ClassIntervals
from models.attribution.division_methods import DividedUse
from models.attribution.resource_division import attribute
from models.attribution.result import DivisionMethod
from testbed.data_file_paths import data

KEYS = ["method", "resource", "intervals", "total", "classes", "unattributed", "fit", "held_out"]
KEYS += ["prediction", "disagreement", "compared_with", "reasons", "truth_error"]
CLASS_KEYS = ["total", "share", "slope", "intercept", "r_squared", "stderr"]
CLASS_KEYS += ["slope_stderr", "intercept_stderr", "samples", "waits"]
QUALITY_KEYS = ["mape", "r_squared", "slope"]
METHODS = ["auto", "wlr", "work-time", "learned"]


@pytest.mark.parametrize("method", METHODS)
def test_json_has_its_keys_in_order(
    long_file: Path, host_file: Path, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    """The same keys from every method, numbers finite, totals that add up."""
    answer = as_json(capsys, long_file, "--host", host_file, "--method", method)
    assert list(answer) == KEYS
    assert answer["intervals"] == 120
    assert answer["resource"] == "mysqld_cpu_s"
    assert answer["prediction"] is None
    for quality in (answer["fit"], answer["held_out"]):
        assert list(quality) == QUALITY_KEYS
    for one in answer["classes"].values():
        assert list(one) == CLASS_KEYS
    together = sum(one["total"] for one in answer["classes"].values())
    assert together + answer["unattributed"] == pytest.approx(answer["total"])
    assert sum(one["share"] for one in answer["classes"].values()) == pytest.approx(1)


def test_the_best_method_is_chosen_and_scored(
    long_file: Path, host_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Work time where texts are known; the truth is only compared with."""
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
    """Another truth, or none: the same result but for the score."""
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


def test_the_wide_form_has_the_resource_last_unless_named(
    wide_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--resource b` divides b over a, c and cpu."""
    answer = as_json(capsys, wide_file)
    assert (answer["resource"], answer["method"]) == ("cpu", "learned")
    assert next(iter(answer["classes"])) == "b"
    assert answer["fit"]["mape"] < 0.01
    assert set(as_json(capsys, wide_file, "--resource", "b")["classes"]) == {"a", "c", "cpu"}


def test_the_report_tells_half_of_the_differences_and_counts_the_classes() -> None:
    """A share too high for one class is too low for another: 0.08 is 4 % of the use."""
    made = simulate(3, intervals=60)
    found = attribute(made.intervals, DividedUse(made.y, is_cpu_seconds=True))
    compared = replace(found, disagreement=0.08, compared_with=DivisionMethod.WLR)
    for count, words in ((11, "11 classes"), (2, "2 classes"), (1, "one class")):
        shown = replace(compared, classes=found.classes[:count])
        text = format_attribution("cpu_s", shown, None, None)
        assert "disagreement   4.0 % of the use differs with weighted linear regression" in text
        assert f"in 60 intervals, {words}; " in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1.00"),
        (999.6, "1,000"),
        (9_999.0, "9,999"),
        (10_000.0, "10.0k"),
        (999_000.0, "999k"),
        (999_600.0, "1.00M"),
        (-2.5e6, "-2.50M"),
        (3e9, "3.00G"),
        (4.56e12, "4.56T"),
    ],
)
def test_a_number_has_three_digits_and_a_letter_from_ten_thousand_on(
    value: float, text: str
) -> None:
    """With a separator below that."""
    assert format_short(value) == text


@pytest.mark.parametrize(
    ("width", "short"), [(9, "SELECT(x)"), (8, "SEL…T(x)"), (7, "SEL…(x)"), (4, "S…x)")]
)
def test_a_long_name_is_shortened_in_the_middle(width: int, short: str) -> None:
    """To exactly its width, with as much of either end."""
    assert shorten_middle("SELECT(x)", width) == short


def test_another_file_is_predicted(
    wide_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Classes are matched by name: another order, a new one, a missing one."""
    other = tmp_path / "other.csv"
    other.write_text("new,cpu,b,a\n1,4.5,1,2\n2,8.5,3,2\n0,2.5,1,0\n")
    assert run(wide_file, "--predict", other, "--format", "json") == 0
    shown = capsys.readouterr()
    assert "1 of its 3 classes are not in" in shown.err
    prediction = json.loads(shown.out)["prediction"]
    assert list(prediction) == QUALITY_KEYS
    assert prediction["mape"] < 0.02
    other.write_text("cpu,b,a\n4.5,1,2\n8.5,3,2\n2.5,1,0\n")
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
    """`--method wlr`: MAPE 5.9 %, R² 0.96 and 0.91; `auto` predicts the second within 2.8 %."""
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


def test_the_table_is_complete(
    long_file: Path, host_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sentence, the classes by use with bars and errors, the unattributed, the method."""
    lines = as_table(capsys, long_file, "--host", host_file).splitlines()
    assert " uses the most of mysqld_cpu_s: " in lines[0]
    assert lines[2].split() == ["class", "share", "seconds", "±", "error"]
    assert "████████████" in lines[3]
    assert " ± " in lines[3]
    assert next(line for line in lines if line.startswith("  sleep")).endswith("waits")
    assert any(line.startswith("  unattributed") for line in lines)
    assert any(line.startswith("  held out") for line in lines)
    assert any(line.startswith("  truth") for line in lines)


@pytest.mark.parametrize(
    ("resource", "column"),
    [
        ("wchar", "bytes"),
        ("mysqld_utime_s", "seconds"),
        ("cpu", "estimated"),
        ("rows", "estimated"),
    ],
)
def test_the_column_has_the_unit_of_the_resources_name(resource: str, column: str) -> None:
    """Without a unit it says that the numbers are estimates."""
    found = attribute(
        ClassIntervals(("a", "b"), np.ones(5), np.ones((5, 2))), DividedUse(np.ones(5))
    )
    title = format_attribution(resource, found, None, None).splitlines()[2]
    assert title.split() == ["class", "share", column, "±", "error"]


@pytest.mark.parametrize("classes", [1, 20, 21, 22, 300])
def test_many_classes_with_long_names_fit_the_screen(classes: int) -> None:
    """At most 21 rows and 80 columns; the small ones are summed in one row."""
    rng = np.random.default_rng(classes)
    x = rng.gamma(1, 1, (30, classes))
    names = tuple(f"{k:03d} SELECT {'a' * 90} {k:03d}\t" for k in range(classes))
    intervals = ClassIntervals(names, np.ones(30), x)
    found = attribute(intervals, DividedUse(1e9 * x.sum(axis=1)))
    lines = format_attribution(
        "a_resource_with_quite_a_long_name", found, found.fit, 0.1
    ).splitlines()
    assert max(map(len, lines)) <= 80
    rows = [line for line in lines if "…" in line and "%" in line][1:]
    assert len(rows) == (classes if classes <= 21 else 20)
    assert any(f"{classes - 20} more" in line for line in lines) == (classes > 21)


def test_an_unexplained_resource_is_described() -> None:
    """No class was active: all of it is unattributed."""
    intervals = ClassIntervals(("a", "b"), np.ones(5), np.zeros((5, 2)))
    found = attribute(intervals, DividedUse(np.ones(5)), DivisionMethod.WLR)
    text = format_attribution("cpu", found, None, None)
    assert text.startswith("No class explains any of cpu: 5.00 in 5 intervals.")
    assert "100 % of all" in text


def test_the_command_imports_neither_scipy_nor_matplotlib(wide_file: Path) -> None:
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
    assert done.stdout.startswith("b uses the most of cpu")
