"""The command `fit`: what it prints, what it draws, and how it fails."""

import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_json import stdout_json
from error_lines import one_line
from unprivileged_user import as_unprivileged_user, world_readable_folder

from agent.cli import main
from models.usl.law import Usl
from testbed.published.usl_examples import CISCO, RAYTRACER, SPECSDM91

HEADER = "concurrency,throughput\n"
KEYS = [
    "method",
    "sigma",
    "kappa",
    "lambda",
    "n_max",
    "x_max",
    "n_max_interval",
    "x_max_interval",
    "confidence",
    "r_squared",
    "points",
    "outliers",
    "outlier_lines",
    "trust",
    "reasons",
    "n_observed_max",
    "x_observed_max",
    "x_max_lower_bound",
    "settle_concurrency",
    "at",
]


def run(*arguments: str | Path) -> int:
    """Run `fit` with these arguments in this process."""
    return main(["fit", *map(str, arguments)])


def table(curve: tuple[list[Any], list[Any]]) -> str:
    """Write a curve as CSV."""
    return HEADER + "".join(f"{n},{x}\n" for n, x in zip(*curve, strict=True))


@pytest.fixture
def cisco(tmp_path: Path) -> Path:
    """A file with Cisco's 32 points."""
    path = tmp_path / "cisco.csv"
    path.write_text(table(CISCO))
    return path


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    """Run with --format json and parse what it says."""
    assert run(*arguments, "--format", "json") == 0
    return stdout_json(capsys)


@pytest.mark.parametrize("method", ["bayes", "lsq", "linearised"])
def test_json_has_its_keys_in_order(
    cisco: Path, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    """The same keys in the same order from every method, numbers finite."""
    answer = as_json(capsys, cisco, "--method", method)
    assert list(answer) == KEYS
    assert answer["method"] == method
    assert (answer["points"], answer["outliers"], answer["outlier_lines"]) == (32, 0, [])
    assert answer["x_max"] == pytest.approx(12300, rel=0.02)


def test_map_is_the_default_and_trusted_on_a_good_curve(
    cisco: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The interval holds the throughput that was measured at the peak."""
    answer = as_json(capsys, cisco)
    assert answer["method"] == "bayes"
    assert (answer["trust"], answer["reasons"]) == ("trusted", [])
    low, high = answer["x_max_interval"]
    assert low < 12211 < high
    assert answer["settle_concurrency"] is None


def test_nonexistent_values_are_null(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Least squares on the ray tracer: κ = 0, no peak and no interval."""
    path = tmp_path / "raytracer.csv"
    path.write_text(table(RAYTRACER))
    answer = as_json(capsys, path, "--method", "lsq")
    assert answer["kappa"] == 0
    assert answer["n_max"] is None
    assert answer["n_max_interval"] is None
    assert answer["x_max_interval"] is None
    assert answer["trust"] == "not_identifiable"
    assert answer["reasons"] == ["no_peak", "no_interval"]


def test_a_straight_line_has_no_peak(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor a share of a peak."""
    path = tmp_path / "line.csv"
    path.write_text(table(([1, 2, 4, 8, 16], [10, 20, 40, 80, 160])))
    assert run(path, "--method", "lsq") == 0
    out = capsys.readouterr().out
    assert "the fitted law has no peak" in out
    assert "predicted peak" not in out
    assert "– queries/s" not in out
    assert re.search(r"^  peak throughput +–$", out, re.MULTILINE)


def test_equal_throughputs_have_no_r_squared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """R² is undefined without variance: null, not NaN."""
    path = tmp_path / "flat.csv"
    path.write_text(table(([1, 2, 3], [5, 5, 5])))
    assert as_json(capsys, path)["r_squared"] is None


@pytest.mark.parametrize(
    "text",
    [
        "throughput,concurrency\n10,1\n19,2\n33,4\n",
        "when,Throughput , CONCURRENCY,host\nx,10,1,a\ny,19,2,b\nz,33,4,c\n",
        "\ufeffconcurrency,throughput\n1,10\n2,19\n4,33\n",
        "# measured by night\n\nconcurrency,throughput\n\n1,10\n# a break\n2,19\n,\n4,33\n",
        'concurrency,throughput\r\n"1","10"\r\n"2",1.9e1\r\n 4 , 33 \r\n',
        "concurrency,throughput,note\n1,10\n2,19,\n4,33,last",
    ],
    ids=["order", "more columns", "byte-order mark", "comments", "quotes", "ragged"],
)
def test_harmless_differences_are_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """Column order, case, more columns, blanks, comments, a BOM, line ends: the same fit."""
    path, plain = tmp_path / "a.csv", tmp_path / "b.csv"
    path.write_bytes(text.encode())
    plain.write_text(HEADER + "1,10\n2,19\n4,33\n")
    assert as_json(capsys, path) == as_json(capsys, plain)


def test_outliers_are_named_by_their_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A point at a third of its throughput is left out, in JSON and in words."""
    n, x = list(CISCO[0]), list(CISCO[1])
    x[9] /= 3
    path = tmp_path / "pile-up.csv"
    path.write_text("# pile-up\n" + table((n, x)))
    answer = as_json(capsys, path)
    assert (answer["points"], answer["outliers"], answer["outlier_lines"]) == (32, 1, [12])
    assert run(path) == 0
    assert "32, 1 of them left out as outliers (line 12)" in capsys.readouterr().out


def test_standard_input_is_a_dash(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`fit -` reads the table from standard input."""
    stdin = io.TextIOWrapper(io.BytesIO(table(SPECSDM91).encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert as_json(capsys, "-", "--method", "lsq")["x_max"] == pytest.approx(1884, abs=0.5)


def test_the_table_has_the_peak_and_its_uncertainty(
    cisco: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sentence first, then the numbers with their units and intervals."""
    assert run(cisco) == 0
    out = capsys.readouterr().out
    assert out.startswith("The peak is 12,456 queries/s, somewhere from 31.3 to 69.2 threads.")
    assert "90 % interval 11,8" in out
    assert "contention σ" in out
    assert "trusted" in out


def test_a_coherency_of_rounding_errors_is_shown_as_zero(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a throughput that never grows, within 1 %: nothing like 5.2e-11."""
    n = np.linspace(4, 40, 60)
    x = 1000 * np.exp(0.01 * np.random.default_rng(1).standard_normal(60))
    file = tmp_path / "level.csv"
    file.write_text(table((n.tolist(), x.tolist())))
    assert run(file) == 0
    assert "coherency κ      0\n" in capsys.readouterr().out


@pytest.mark.parametrize(("most", "is_past"), [(40, False), (120, True)])
def test_the_table_tells_where_the_peak_was_passed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], most: int, is_past: bool
) -> None:
    """It is at 44 threads; below it more load still adds throughput."""
    n = np.linspace(2, most, 30)
    file = tmp_path / "curve.csv"
    file.write_text(table((n.tolist(), Usl(0.02, 0.0005, 100.0).throughput(n).tolist())))
    assert run(file) == 0
    assert ("the server is past its peak" in capsys.readouterr().out) is is_past


def test_the_table_has_the_load_to_measure_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not identifiable: why, a lower bound, and the load."""
    path = tmp_path / "low.csv"
    path.write_text(table((CISCO[0][:5], CISCO[1][:5])))
    assert run(path) == 0
    out = capsys.readouterr().out
    assert out.startswith("The peak is not yet identifiable from these points.")
    assert "Why: the load seen is below 70 % of the predicted peak." in out
    assert "It is at least " in out
    assert "Measure next: points up to about " in out


@pytest.mark.parametrize("method", ["lsq", "linearised"])
def test_a_method_without_intervals_is_indicative(
    cisco: Path, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    """It names the method that has them."""
    assert run(cisco, "--method", method) == 0
    out = capsys.readouterr().out
    assert "this is only indicative" in out
    assert "--method bayes" in out


ASKED = ("--concurrency", "8", "--throughput", "5000", "--residence-time", "2ms")


def test_requested_loads_of_the_law_are_shown(
    cisco: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each by its concurrency, throughput or residence time: N = X·R holds."""
    answer = as_json(capsys, cisco, *ASKED)
    by_n, by_x, by_r = answer["at"]
    assert by_n["concurrency"] == 8
    assert by_x["throughput"] == 5000
    assert by_r["residence_time"] == 0.002
    law = Usl(answer["sigma"], answer["kappa"], answer["lambda"])
    for load in answer["at"]:
        n, x = load["concurrency"], load["throughput"]
        assert x * load["residence_time"] == pytest.approx(n)
        assert law.throughput(n) == pytest.approx(x)
        assert load["efficiency"] == pytest.approx(x / (n * law.lam))


def test_an_impossible_load_is_null_with_a_note(
    cisco: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A throughput above the peak, a residence time below the shortest."""
    impossible = ("--throughput", "20000", "--residence-time", "0.1ms")
    for load, name in zip(as_json(capsys, cisco, *impossible)["at"], ("x", "r"), strict=True):
        known = {"x": "throughput", "r": "residence_time"}[name]
        assert load["concurrency"] is None
        assert load["efficiency"] is None
        assert load[known] in (20000, 0.0001)
    assert run(cisco, *impossible, "--concurrency", "8") == 0
    lines = capsys.readouterr().out.splitlines()[-3:]
    assert lines[:2] == [
        "  throughput 20000: the law has no such point",
        "  residence time 0.1ms: the law has no such point",
    ]
    assert lines[2].startswith("  concurrency 8: 8 threads, 6,")


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "much"])
@pytest.mark.parametrize("option", ["--concurrency", "--throughput", "--residence-time"])
def test_an_invalid_load_is_refused(
    cisco: Path, capsys: pytest.CaptureFixture[str], option: str, text: str
) -> None:
    """With the option's name."""
    with pytest.raises(SystemExit) as ended:
        run(cisco, f"{option}={text}")
    assert ended.value.code == 2
    assert f": {option}: " in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".png", ".svg", ".PNG"])
@pytest.mark.parametrize("method", ["bayes", "lsq"])
def test_the_plot_is_written(
    cisco: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str, method: str
) -> None:
    """In the format of its name; the report is printed all the same."""
    plot = tmp_path / f"plot{suffix}"
    assert run(cisco, "--plot", plot, "--method", method) == 0
    content = plot.read_bytes()
    assert content.startswith(b"\x89PNG") if suffix != ".svg" else b"</svg>" in content
    assert capsys.readouterr().out.startswith("The peak is")


@pytest.mark.parametrize(
    "curve",
    [
        (CISCO[0][:5], CISCO[1][:5]),
        (RAYTRACER[0], RAYTRACER[1]),
        ([5, 5, 5], [9, 10, 11]),
        ([1, 2, 4], [100, 200, 400]),
        ([1, 2, 4, 8], [100, 50, 20, 5]),
        ([0.01, 0.02, 0.04], [1e-6, 2e-6, 3e-6]),
    ],
)
@pytest.mark.parametrize("method", ["bayes", "lsq", "linearised"])
def test_any_fit_can_be_drawn_without_a_warning(
    tmp_path: Path, curve: tuple[list[Any], list[Any]], method: str
) -> None:
    """Not identifiable, without a peak, falling."""
    path, plot = tmp_path / "curve.csv", tmp_path / "plot.svg"
    path.write_text(table(curve))
    assert run(path, "--method", method, "--plot", plot) == 0
    assert plot.stat().st_size > 10_000


ERRORS = {
    "empty": (b"", ":1: the file is empty"),
    "comments only": (b"# nothing\n\n", ":1: the file is empty"),
    "no points": (HEADER.encode(), ":1: too few points (0)"),
    "two points": (b"concurrency,throughput\n1,10\n2,20\n\n", ":3: too few points (2)"),
    "no header": (b"1,10\n2,20\n3,30\n", ":1: its first line has numbers and no names"),
    "one column": (b"concurrency\n1\n2\n3\n", ":1: no column throughput"),
    "semicolons": (b"concurrency;throughput\n1;10\n", ":1: its cells are separated by semicolons"),
    "spaces": (b"concurrency throughput\n1 10\n", ":1: its cells are separated by spaces"),
    "twice": (b"throughput,concurrency,throughput\n1,1,1\n", ":1: two columns are named"),
    "word": (b"concurrency,throughput\n1,10\n2,many\n3,30\n", ":3: throughput is 'many'"),
    "nan": (b"concurrency,throughput\n1,10\nnan,20\n3,30\n", ":3: concurrency is nan"),
    "inf": (b"concurrency,throughput\n1,10\n2,inf\n3,30\n", ":3: throughput is inf"),
    "overflow": (b"concurrency,throughput\n1,10\n2,1e999\n3,30\n", ":3: throughput is 1e999"),
    "too much": (b"concurrency,throughput\n1,10\n2,1e300\n3,30\n", ":3: throughput is 1e300"),
    "too little": (b"concurrency,throughput\n1e-300,1\n2,2\n3,3\n", ":2: concurrency is 1e-300"),
    "thousands": (b"concurrency,throughput\n1,10\n2,1,000\n3,30\n", ":3: 3 cells, the header"),
    "negative": (b"concurrency,throughput\n1,10\n2,-20\n3,30\n", ":3: throughput is -20"),
    "no load": (b"concurrency,throughput\n# idle\n0,10\n2,20\n3,30\n", ":3: concurrency is 0"),
    "no work": (b"concurrency,throughput\n1,0\n2,20\n3,30\n", ":2: throughput is 0"),
    "missing cell": (b"concurrency,throughput\n1,10\n2\n3,30\n", ":3: throughput is missing"),
    "blank cell": (b"concurrency,throughput\n1,10\n ,20\n3,30\n", ":3: concurrency is missing"),
    "open quote": (b'concurrency,throughput\n1,10\n"2,20\n3,30\n', ":3: this is not CSV"),
    "nul": (b"concurrency,throughput\n1,10\n\0\0", ":3: this is not a text file"),
    "latin-1": (b"concurrency,throughput\n1,10\n\xb5,20\n", ":3: this is not UTF-8 text"),
    "png": (b"\x89PNG\r\n\x1a\n\xff\xff", ":1: this is not UTF-8 text"),
}


def failure(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """The line that a run with a mistake ends with."""
    return one_line(capsys, run(*arguments))


@pytest.mark.parametrize("name", ERRORS)
def test_an_invalid_file_is_one_line_with_place_and_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """`mysql-headroom: FILE:LINE: what is wrong; remedy` and exit 2."""
    content, expected = ERRORS[name]
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    assert f"mysql-headroom: {path}{expected}" in failure(capsys, path)


def test_an_unreadable_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Missing, a directory, below a file, a name with a line feed or a NUL."""
    assert "there is no such file" in failure(capsys, tmp_path / "none.csv")
    assert "it is a directory" in failure(capsys, tmp_path)
    (tmp_path / "file").touch()
    assert "cannot be read" in failure(capsys, tmp_path / "file" / "below.csv")
    assert "no such file" in failure(capsys, tmp_path / "two\nlines.csv")
    assert "cannot be read" in failure(capsys, "nul\0.csv")


def test_a_file_without_permission_is_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With the system's reason."""
    with world_readable_folder() as folder:
        path = folder / "private.csv"
        path.write_text(table(CISCO))
        path.chmod(0)
        with as_unprivileged_user():
            assert path.exists()
            assert "Permission denied" in failure(capsys, path)
        path.chmod(0o600)
        assert run(path) == 0


def test_an_unwritable_plot_is_one_line(
    cisco: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown or no extension, a missing directory, a directory: nothing is printed."""
    for name in ("plot.gif", "plot", "plot.png.txt"):
        assert ".png or .svg" in failure(capsys, cisco, "--plot", tmp_path / name)
    assert "cannot be written" in failure(capsys, cisco, "--plot", tmp_path / "none" / "a.png")
    (tmp_path / "folder.png").mkdir()
    assert "cannot be written" in failure(capsys, cisco, "--plot", tmp_path / "folder.png")


def test_the_command_imports_matplotlib_and_scipy_only_when_needed(cisco: Path) -> None:
    """Importing the command and the default fit take numpy alone."""
    script = (
        "import sys\n"
        "from agent.cli import main\n"
        "assert main(['fit', sys.argv[1]]) == 0\n"
        "assert not {'scipy', 'matplotlib'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(cisco)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("The peak is")
