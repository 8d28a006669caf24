"""`mysql-headroom profile` and the page's table: the same ranking, each number with its source."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from binary_protocol import Prepared
from class_samples import samples
from known_classes import known_classes, one_class
from simulated_classes import simulate

from agent.assessment.snapshot import AssessmentState, Health, Snapshot
from agent.cli import main
from agent.commands.profile_report import as_csv, as_json, as_text
from agent.demo.private_server import PrivateServer
from agent.export.attribute_report import BAR_WIDTH
from agent.export.class_table_html import TEXT_LENGTH, classes_table
from agent.export.profile_plot import draw_figure, plot_class
from agent.export.profile_rows import SORT_KEYS, profile_of, ranked_profile
from agent.query_classes.class_intervals import ClassInterval, ClassIntervalMaker
from agent.query_classes.class_registry import NONE, ClassRegistry, class_name_of
from agent.query_classes.period_attribution import ObservedClasses, observed_classes
from models.attribution.class_interval_table import OTHER
from models.attribution.result import AttributionReason, DivisionMethod
from testbed.real.clients import Clients, run_as_root
from testbed.real.daemon import target, write_config

PNG = b"\x89PNG\r\n\x1a\n"


def observed(*, measured: bool = False, host: bool = True, intervals: int = 120) -> ObservedClasses:
    """A simulated server, looked at for so many seconds."""
    registry, made = ClassRegistry(), list[ClassInterval]()
    maker = ClassIntervalMaker(registry)
    for sample in samples(simulate(3, intervals=intervals), measured=measured, host=host):
        maker.append(sample)
        made += maker.intervals(sample.at)
    return observed_classes(registry, made)


@pytest.fixture(scope="module")
def estimated() -> ObservedClasses:
    """Two minutes without measured CPU."""
    return observed()


def test_the_table_has_the_largest_class_its_share_and_the_method(
    estimated: ObservedClasses,
) -> None:
    """A sentence with its share, its error and the method."""
    profile = profile_of(estimated, "cpu", with_text=True)
    text = as_text(profile, 5)
    first = profile.rows[0]
    assert first.cpu == max(row.cpu or 0 for row in profile.rows)
    assert text.splitlines()[0].endswith(f"{100 * (first.share or 0):.1f} %.")
    assert "source         work time" in text
    assert "of which" in text
    assert " ± " in text
    assert f"{len(profile.rows) - 5} more" in text
    assert sum(row.share or 0 for row in profile.rows) == pytest.approx(1)
    compared = replace(profile, disagreement=0.08, compared_with=DivisionMethod.WLR)
    assert "4.0 % of the use differs with weighted linear regression" in as_text(compared, 5)


@pytest.mark.parametrize("sort", SORT_KEYS)
def test_every_order_ranks_by_its_quantity(estimated: ObservedClasses, sort: str) -> None:
    """The largest first; by time where the quantity is not known."""
    profile = profile_of(estimated, sort, with_text=False)
    used = sort if sort != "io" else "time"  # nothing was read or written
    assert profile.sort == used
    values = [SORT_KEYS[used](row) or 0 for row in profile.rows]
    assert values == sorted(values, reverse=True)
    assert "SELECT" not in as_text(profile, 50)


def test_json_and_csv_agree(estimated: ObservedClasses) -> None:
    """Unknown values are null, or empty."""
    profile = profile_of(estimated, "time", with_text=True)
    content = json.loads(as_json(profile, 3))
    rows = list(csv.DictReader(io.StringIO(as_csv(profile, 3))))
    assert [c["digest"] for c in content["classes"]] == [row["digest"] for row in rows]
    assert [c["cpu"] for c in content["classes"]] == pytest.approx([float(r["cpu"]) for r in rows])
    assert content["classes"][0]["io"] is None
    assert rows[0]["io"] == ""
    assert content["cpu"]["source"] == "work-time"
    assert {row["cpu_source"] for row in rows} == {"work-time"}
    assert content["classes"][0]["text"] is not None


def test_measured_cpu_has_no_error() -> None:
    """And without the host there is no unattributed part."""
    profile = profile_of(observed(measured=True, host=False), "cpu", with_text=False)
    assert profile.cpu_unattributed is None
    assert all(row.cpu_stderr is None for row in profile.rows)
    assert "measured" in as_text(profile, 20)
    assert ",measured\n" in as_csv(profile, 20)
    nothing = profile_of(observed(host=False), "cpu", with_text=False)
    assert as_csv(nothing, 1).endswith(",")
    assert nothing.sort == "time"
    assert "not known" in as_text(nothing, 20)


def test_combined_classes_have_no_latency() -> None:
    """They come last; without shares none are combined."""
    seen = observed()
    profile = profile_of(seen, "latency", with_text=False)
    first, *_ = profile.rows
    pooled = replace(first, digest=OTHER, latency=1e6)
    found = ranked_profile(replace(profile, rows=(pooled, *profile.rows)), {})
    assert found.rows[0].digest == first.digest
    assert found.rows[-1] == pooled
    more = len(found.rows) - 2
    assert f"\n  {more} more\n" in as_text(found, 2)
    assert re.search(
        rf"\n  {more - 1} more: \d", as_text(profile_of(seen, "time", with_text=False), 2)
    )


def test_classes_together_are_named_as_on_the_page() -> None:
    """All others are no class, and are not the greatest; statements without a digest may be."""
    rows = profile_of(observed(), "time", with_text=False).rows
    others, undigested, one = (
        replace(row, schema="", digest=digest, text=None, seconds=seconds)
        for row, digest, seconds in zip(rows, (OTHER, NONE, "d1"), (9.0, 5.0, 6.0), strict=False)
    )
    profile = replace(profile_of(observed(), "time", with_text=False), rows=(others, one))
    text = as_text(ranked_profile(profile, {}), 5)
    assert text.startswith("Of single classes d1 has the greatest share of the time: 40.0 %.")
    assert "\n  all others " in text
    text = as_text(ranked_profile(replace(profile, rows=(undigested,)), {}), 5)
    assert text.startswith("Statements without a digest have the greatest share of the time")


def test_classes_with_similar_texts_have_names_that_differ() -> None:
    """The middle of a text is left out where the rest still tells it; else the schema is given."""
    profile = profile_of(observed(), "time", with_text=False)
    long = "SELECT c FROM t{} WHERE id BETWEEN ? AND ? AND k BETWEEN ? AND ? ORDER BY c"
    known = zip(
        profile.rows, ("a", "a", "b"), (long.format(1), *2 * [long.format(2)]), strict=False
    )
    rows = tuple(replace(row, schema=schema, text=text) for row, schema, text in known)
    lines = as_text(ranked_profile(replace(profile, rows=rows), {}), 5).splitlines()[3:6]
    names = {line.partition("  █")[0].partition(" █")[0].strip() for line in lines}
    assert len(names) == 3
    assert {name[:3] for name in names} == {"SEL", "a: ", "b: "}


def test_an_order_that_is_not_known_is_replaced_and_reported() -> None:
    """Ranked by IO, of which no class has any: by time, with a line that says so."""
    seen = observed()
    assert "sorted by      time, as no IO is attributed to any class" in as_text(
        profile_of(seen, "io", with_text=False), 5
    )
    assert "sorted by" not in as_text(profile_of(seen, "cpu", with_text=False), 5)


def test_a_class_that_did_nothing_has_no_row() -> None:
    """One that only runs, or whose calls took no measured time, has one."""
    profile = profile_of(observed(), "time", with_text=False)
    first, *_ = profile.rows
    kinds = {"idle": (0.0, 0.0), "running": (0.0, 9.0), "untimed": (5.0, 0.0)}
    rows = [replace(first, digest=d, calls=n, seconds=s) for d, (n, s) in kinds.items()]
    found = ranked_profile(replace(profile, rows=tuple(rows)), {}).rows
    assert [row.digest for row in found] == ["running", "untimed"]


def test_totals_are_reported_as_the_servers_own() -> None:
    """With the time since which the server has them."""
    profile = replace(
        profile_of(observed(), "time", with_text=False), is_of_sums=True, seconds=84.0
    )
    text = as_text(profile, 5)
    assert "watched" not in text
    assert "summed up      by the server, over 84 s at most" in text


def test_time_that_is_in_no_class_is_reported_first() -> None:
    """Where it may change the order, and in JSON always."""
    profile = profile_of(observed(), "time", with_text=False)
    assert "in no class" not in as_text(profile, 5)
    assert json.loads(as_json(profile, 5))["unclassified_share"] is None
    most = replace(profile, unclassified_share=0.9)
    assert "But 90.0 % of all statement time is in no class." in as_text(most, 5).splitlines()[0]
    assert "caution        in no class are statements without a digest" in as_text(most, 5)
    assert "in no class" not in as_text(replace(profile, unclassified_share=0.01), 5)


def test_the_table_omits_unknown_columns() -> None:
    """CPU and bytes of totals, the error of measured CPU; a single unknown cell is a dash."""
    sums = profile_of(observed(host=False), "cpu", with_text=False)
    assert columns_of(as_text(sums, 5)) == ["class", "share", "time s", "calls", "latency"]
    measured = profile_of(observed(measured=True), "cpu", with_text=False)
    names = ["class", "share", "CPU s", "time s", "calls", "latency"]
    assert columns_of(as_text(measured, 5)) == names
    first, second, *_ = sums.rows
    known = replace(sums, rows=(replace(first, cpu=1.5), replace(second, waits=True)))
    title, one, other = as_text(known, 5).splitlines()[2:5]
    assert columns_of(as_text(known, 5)) == names
    assert (one[: title.index("CPU s") + 5][-6:], other[: title.index("CPU s") + 5][-2:]) == (
        "  1.50",
        " –",
    )
    assert other.endswith("  waits")


def columns_of(text: str) -> list[str]:
    """The titles of the table."""
    return re.split("  +", text.splitlines()[2].strip())


def test_an_idle_server_has_an_empty_profile() -> None:
    """No class, and no division by zero."""
    empty = observed_classes(ClassRegistry(), [])
    for write in (as_text, as_json, as_csv):
        assert write(profile_of(empty, "cpu", with_text=True), 20)


def test_the_plot_shows_the_profile(estimated: ObservedClasses) -> None:
    """The first class's points add up to its CPU, over its work time; each interval is there."""
    profile = profile_of(estimated, "time", with_text=True)
    profile = replace(profile, rows=tuple(sorted(profile.rows, key=lambda row: -(row.cpu or 0))))
    left, right = draw_figure(estimated, profile).axes
    first = profile.rows[0]
    k = next(
        i
        for i, key in enumerate(estimated.intervals.names)
        if class_name_of(key).digest == first.digest
    )
    assert estimated.cpu is not None
    assert estimated.cpu_target is not None
    x, z = np.asarray(left.collections[0].get_offsets()).T
    worked = estimated.intervals.work_time[:, k]
    assert x == pytest.approx(worked[worked > 0])
    assert z.sum() == pytest.approx(first.cpu)
    line = estimated.cpu.classes[k].line
    (start, end), heights = (np.asarray(values) for values in left.lines[0].get_data())
    assert (start, end) == pytest.approx((x.min(), x.max()))
    assert (heights[1] - heights[0]) / (end - start) == pytest.approx(line.slope)
    actual, predicted = np.asarray(right.collections[0].get_offsets()).T
    assert actual == pytest.approx(estimated.cpu_target)
    assert np.corrcoef(actual, predicted)[0, 1] ** 2 > 0.8
    assert (left.get_xlabel(), right.get_xlabel()) == (
        "its work time in an interval (s)",
        "actual (s)",
    )


@pytest.mark.parametrize("known", [True, False])
def test_the_plot_is_written(tmp_path: Path, known: bool) -> None:
    """Also without known CPU."""
    seen = observed(host=known)
    file = tmp_path / "class.png"
    plot_class(str(file), seen, profile_of(seen, "cpu", with_text=True))
    assert file.read_bytes().startswith(PNG)


def page_of(snapshot: Snapshot) -> str:
    """The table's text."""
    return re.sub(r"<[^>]+>", " ", classes_table(snapshot, 100.0))


def test_the_pages_table_is_of_one_period() -> None:
    """A class newly displayed has the use that its share of the CPU implies."""
    state = known_classes(100.0)
    first, *others = state.classes
    new = replace(first, totals=dict.fromkeys(first.totals, 0.0))
    snapshot = Snapshot("db", 100.0, 60.0, Health(True), None, AssessmentState())
    text = page_of(replace(snapshot, classes=replace(state, classes=(new, *others))))
    assert text == page_of(replace(snapshot, classes=state))
    assert "Queries of the last 30 min; older minutes count less." in text
    assert re.search(r"6 s\s+3,?000 ", text)
    largest, second, *_ = re.findall("█+.", text)
    assert largest == "█" * BAR_WIDTH + " "
    assert second == "█" * (BAR_WIDTH * 5 // 12) + " "  # as 2.5 is of 6


@pytest.mark.parametrize(
    ("calls", "shown"),
    [(0.0, "0"), (0.3, "below 1"), (0.889, "1"), (10.8, "11"), (1e6, "1,000,000")],
)
def test_the_pages_table_has_whole_calls(calls: float, shown: str) -> None:
    """Older ones count in part, but no query is called 0.889 times."""
    state = known_classes(100.0)
    first, *others = state.classes
    few = replace(first, recent={**first.recent, "calls": calls})
    snapshot = Snapshot("db", 100.0, 60.0, Health(True), None, AssessmentState())
    table = classes_table(replace(snapshot, classes=replace(state, classes=(few, *others))), 100.0)
    assert f"<td>{shown}</td>" in table


def test_the_pages_table_marks_a_text_that_is_cut() -> None:
    """A statement without its WHERE is not taken for the whole; none is shown backwards."""
    state = known_classes(100.0)
    long = one_class("c3", 9.0, "SELECT `a` FROM `t` WHERE " + "`b` = ? AND " * 20)
    backwards = one_class("c4", 8.0, "SELECT \u202e`a`")
    whole = one_class("c5", 7.0, "SELECT `a` FROM `t`".ljust(TEXT_LENGTH, "z"))
    state = replace(state, classes=(*state.classes, long, backwards, whole))
    snapshot = Snapshot("db", 100.0, 60.0, Health(True), None, AssessmentState(), state)
    text = page_of(snapshot)
    assert re.search(r"SELECT `a` FROM `t` WHERE (`b` = \? AND )+.{0,11} \.\.\. ", text)
    assert r"SELECT \u202e`a`" in text
    assert text.count(" ...") == 1


def test_the_pages_table_ranks_classes_with_their_reasons() -> None:
    """Texts are escaped; stale results are not shown."""
    state = known_classes(100.0)
    evil = one_class("c3", 9.0, "SELECT `<b>` FROM `t`")
    state = replace(state, classes=(*state.classes, evil))
    snapshot = Snapshot("db", 100.0, 60.0, Health(True), None, AssessmentState(), state)
    text = classes_table(snapshot, 100.0)
    assert "<b>" not in text
    assert text.index("&lt;b&gt;") < text.index("`a`") < text.index("shop.b2")
    assert "measured by the server" in text
    assert "all others" in text
    doubted = replace(state.resources[0], reasons=(AttributionReason.FEW_INTERVALS,))
    few = replace(snapshot, classes=replace(state, resources=(doubted,)))
    assert "fewer than 60 intervals" in classes_table(few, 100.0)
    by_time = classes_table(replace(snapshot, classes=replace(state, resources=())), 100.0)
    assert "CPU is not known here: classes are ranked by their time." in by_time
    assert "%" not in by_time  # no share of the CPU, nor an error of it
    assert classes_table(snapshot, 279.0) == classes_table(snapshot, 100.0)  # three intervals
    assert classes_table(snapshot, 500.0) == ""
    assert classes_table(replace(snapshot, classes=None), 100.0) == ""


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--target", "nobody"], "--target: no target 'nobody'; the configuration has db"),
        (
            ["--plot", "x.gif"],
            "x.gif: a plot is written as PNG or SVG; end its name in .png or .svg",
        ),
        (
            ["--plot", "/none/x.png"],
            "/none/x.png: the plot cannot be written (no such directory); name a file in a"
            " directory that exists",
        ),
    ],
)
def test_a_usage_error_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    """With exit code 2, before a server is contacted."""
    (tmp_path / "config.yaml").write_text("targets: [{name: db, user: x, port: 1}]\n")
    code = main(["profile", "--config.file", str(tmp_path / "config.yaml"), *arguments])
    assert code == 2
    assert capsys.readouterr().err == f"mysql-headroom: {complaint}\n"


@pytest.mark.parametrize("top", ["-1", "0", "many", "1.5"])
def test_an_invalid_number_of_classes_is_refused(
    capsys: pytest.CaptureFixture[str], top: str
) -> None:
    """And not used as a count from the end."""
    with pytest.raises(SystemExit) as stopped:
        main(["profile", "--config.file", "config.yaml", f"--top={top}"])
    assert stopped.value.code == 2
    problem = f"mysql-headroom profile: --top: must be an integer of at least 1, not {top!r}"
    assert capsys.readouterr().err == f"{problem}; see `mysql-headroom profile --help`\n"


def test_an_unreachable_server_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit code 1."""
    (tmp_path / "config.yaml").write_text("targets: [{name: db, user: x, port: 1}]\n")
    assert main(["profile", "--config.file", str(tmp_path / "config.yaml"), "--format=csv"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.live
def test_a_real_server_is_profiled(
    server: PrivateServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The class that computes is first by CPU, the one that sleeps by time."""
    file, _ = write_config(tmp_path, target(tmp_path, server))
    plot = tmp_path / "class.svg"
    with (
        Clients(server, "SELECT BENCHMARK(1000000, 2 + 1)", pace=0.05),
        Clients(server, "SELECT SLEEP(0.2)", 3),
    ):
        options = ["--seconds", "8", "--text", "--format", "json", "--plot", str(plot)]
        assert main(["profile", "--config.file", str(file), *options]) == 0
    content = json.loads(capsys.readouterr().out)
    classes = content["classes"]
    assert "BENCHMARK" in classes[0]["text"]
    [sleep] = [c for c in classes if "SLEEP" in (c["text"] or "")]
    assert sleep["seconds"] == max(c["seconds"] for c in classes)
    assert sleep["waits"]
    assert sleep["cpu"] < 0.05 * classes[0]["cpu"]
    assert content["cpu"]["total"] > 0
    assert b"<svg" in plot.read_bytes()
    assert np.isfinite([c["cpu"] for c in classes]).all()


@pytest.mark.live
def test_the_servers_totals_need_no_observation(
    server: PrivateServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Since the start: no estimate."""
    run_as_root(server, *["SELECT BENCHMARK(1000, 13 * 17) AS before_anybody"] * 7)
    file, _ = write_config(tmp_path, target(tmp_path, server))
    options = ["--since", "start", "--text", "--format", "json", "--top", "100000"]
    assert main(["profile", "--config.file", str(file), *options, "--sort", "count"]) == 0
    content = json.loads(capsys.readouterr().out)
    [found] = [c for c in content["classes"] if "before_anybody" in (c["text"] or "")]
    assert found["calls"] % 7 == 0
    assert found["calls"] > 0
    assert content["cpu"]["source"] in (None, "measured")


@pytest.mark.live
def test_the_share_of_prepared_statements_in_the_totals_is_known(
    server: PrivateServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """MariaDB has no class for those of the binary protocol, and MySQL has one."""
    file, _ = write_config(tmp_path, target(tmp_path, server))

    def unclassified() -> float:
        options = ["--since", "start", "--format", "json"]
        assert main(["profile", "--config.file", str(file), *options]) == 0
        return float(json.loads(capsys.readouterr().out)["unclassified_share"])

    before = unclassified()
    with server.connect_as_root() as session:
        Prepared(session, "SELECT SLEEP(2)").execute()
    after = unclassified()
    assert after > before if server.flavour == "mariadb" else after < before + 0.01
