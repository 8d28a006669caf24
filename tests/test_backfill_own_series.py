"""`backfill` from what an agent itself has exported, as a real Prometheus has kept it."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from error_lines import one_line
from history_rows import SERVER
from prometheus_server import Sample, exported, fill, serving
from recordings import rows

from agent.assessment.cadence import is_due
from agent.assessment.snapshot import AssessmentState, Health, ServerIdentity, Snapshot
from agent.cli import main
from agent.config.resources import DiskSettings, ResourceSettings
from agent.config.settings import FitSettings
from agent.export.snapshot_metrics import SnapshotCollector
from agent.history.open_database import open_to_read
from agent.history.row_access import select_rows
from agent.history.row_kinds import INTERVALS
from agent.history.row_mapping import interval_from_row
from agent.pipeline import assess, latest_load, observations
from agent.support.clock_pair import ClockPair
from agent.window.concurrency import ConcurrencySource
from agent.window.intervals import Interval, Window
from models.capacity.assess import assess_capacity

START, WIDTH, COUNT = 1_790_000_000, 15.0, 200
SAMPLING = 7.5  # seconds, of an agent by default
END = START + 4000
CEILINGS = ResourceSettings(
    ceilings={"cpu": 0.8, "disk:sda": 0.5}, disks={"sda": DiskSettings(operations=1500.0)}
)
AGENT = {"job": "headroom", "instance": "db1:10104"}
ANOTHER = "00000000-0000-0000-0000-000000000000"
OF_ANOTHER = 5
"""The first intervals are of another server."""
ZERO = ClockPair(0.0, 0.0)
SINGLE_PRECISION = 1e-7  # of a window's numbers


def watched() -> list[Interval]:
    """What an agent has seen of a server and its host, with a gap of five minutes."""
    random = np.random.default_rng(7)
    found = []
    for k in range(COUNT):
        end, n = START + 500.25 + WIDTH * k + (300.0 if k > 100 else 0.0), 8 + 6 * np.sin(k / 9)
        used = {"cpu": n / 20, "cpu:server": n / 25, "cpu:steal": 0.01, "server_cpu": n / 25}
        used |= {"disk:sda": n / 40, "disk:sda:flush": 0.02, "network:eth0:sent": 0.1}
        used |= {"disk:sda:operations_per_second": 90 * n, "connections": 0.2, "cpu:clock": 0.9}
        x = 400 * n * random.lognormal(0.0, 0.05)
        found.append(Interval(end, WIDTH, x, n, n + 3.0, WIDTH / SAMPLING, 1.0, 2.0, 0.0, used))
    return found


def shown(seen: Sequence[Interval], after: Sequence[float] = (2.0,)) -> Iterator[Sample]:
    """Each page of that agent that Prometheus scrapes, so long after an interval's end.

    The capacity is assessed with every other interval, as at a quiet load.
    """
    for k, interval in enumerate(seen):
        server = ANOTHER if k < OF_ANOTHER else SERVER
        health = Health(up=True, identity=ServerIdentity("db1", "3306", "9.7", server))
        load = latest_load(Window([interval]), ZERO, CEILINGS)
        fitted = AssessmentState(at=seen[k - k % 2].end)
        for later in after:
            at = round(interval.end + later, 3)
            yield from samples_of(Snapshot("shop", at, 60.0, health, load, fitted))


def samples_of(known: Snapshot) -> Iterator[Sample]:
    """What a scrape of that agent stores at that moment."""
    for family in SnapshotCollector(lambda: [known], lambda: known.at).collect():
        for sample in family.samples:
            yield sample.name, {**sample.labels, **AGENT}, known.at, sample.value


def configured(folder: Path, interval: str = "15s") -> Path:
    """The configuration of an agent with one target and those ceilings, and its history's file."""
    (folder / "state").mkdir(mode=0o700, parents=True)
    file, secret = folder / "config.yaml", folder / "password"
    secret.write_text("p\n")
    secret.chmod(0o600)
    resources = "{ceilings: {cpu: 0.8, 'disk:sda': 0.5}, disks: {sda: {operations: 1500}}}"
    file.write_text(
        f"targets: [{{name: shop, host: db1, user: u, password_file: {secret},"
        f" resources: {resources}}}]\n"
        f"fit: {{interval: {interval}}}\n"
        f"history: {{path: {folder / 'state' / 'history.db'}}}\n"
    )
    return file


@pytest.fixture(scope="module")
def url(prometheus: str, promtool: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that has scraped that agent, and the server's mysqld_exporter."""
    samples = list(shown(watched()))
    table = rows(END - START, step=15, start=START)
    samples += exported(table, {"job": "mysql", "instance": "db1:9104"})
    folder = tmp_path_factory.mktemp("own")
    with serving(prometheus, fill(folder, promtool, samples)) as found:
        yield found


def backfilled(url: str, file: Path, *words: str) -> int:
    """The exit code of `backfill` of all that time."""
    asked = ("--prometheus", url, "--config.file", str(file), "--server", SERVER)
    return main(["backfill", *asked, "--since", f"{END - START}s", "--until", str(END), *words])


def restored(file: Path) -> list[Interval]:
    """The intervals of the history."""
    with closing(open_to_read(file.parent / "state" / "history.db")) as connection:
        return [interval_from_row(row, 1.0, ZERO) for row in select_rows(connection, INTERVALS)]


def test_the_agents_own_intervals_come_back_unchanged(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every number of every interval of this server, and so the same capacity."""
    file = configured(tmp_path)
    assert backfilled(url, file, "--series", "agent") == 0
    count = COUNT - OF_ANOTHER
    said = f"shop: {count} intervals of 15s added from the agent db1:10104, 0 existed already"
    assert said in capsys.readouterr().out
    found, expected = restored(file), watched()[OF_ANOTHER:]
    assert len(found) == count
    for one, other in zip(found, expected, strict=True):
        assert one[:-2] == pytest.approx(other[:-2], rel=SINGLE_PRECISION)
        assert one.resources == pytest.approx(other.resources, rel=SINGLE_PRECISION)
    capacities = [
        assess_capacity(observations(Window(seen), ConcurrencySource.STATEMENT_TIME, CEILINGS))
        for seen in (found, expected)
    ]
    assert capacities[0].value is not None
    assert capacities[0].value == pytest.approx(capacities[1].value, rel=1e-6)
    assert capacities[0].limit == capacities[1].limit


def quiet_after_a_busy_day() -> list[Interval]:
    """A load that shows the capacity, then one so low that it is seldom assessed again."""
    busy = [1000 * (1 + np.sin(k / 20)) for k in range(120)]
    quiet = [100 + 30 * np.sin(k / 3) for k in range(60)]
    found = []
    for k, x in enumerate(busy + quiet):
        n, used = x / (2500 - x), {"cpu": x / 2500}
        found.append(Interval(START + WIDTH * k, WIDTH, x, n, n, 3.0, 0.0, 0.0, 0.0, used))
    return found


def pages_of_an_agent(seen: Sequence[Interval]) -> Iterator[tuple[Snapshot, list[Sample]]]:
    """What an agent knows after each interval, and its page, as it assesses what is due."""
    state, settings = AssessmentState(), FitSettings()
    for k, interval in enumerate(seen, start=1):
        window, at = Window(seen[:k]), interval.end + 2.0
        now = ClockPair(at, at)
        again = is_due(window, state, settings, now)
        known = assess("shop", window, Health(up=True), state, settings, now, is_due=again)
        state = known.assessed
        yield known, list(samples_of(known))


def test_each_interval_of_a_quiet_load_comes_back(
    prometheus: str, promtool: str, tmp_path: Path
) -> None:
    """Though the capacity, and so the time of its assessment, is the same for many of them."""
    seen = quiet_after_a_busy_day()
    pages = list(pages_of_an_agent(seen))
    assert len({known.assessed.at for known, _ in pages[-60:]}) < 20
    samples = (sample for _, page in pages for sample in page)
    with serving(prometheus, fill(tmp_path, promtool, samples)) as url:
        file = configured(tmp_path)
        assert backfilled(url, file) == 0
    found = restored(file)
    assert [(one.end, one.seconds) for one in found] == [(one.end, WIDTH) for one in seen]
    assert [one.throughput for one in found] == pytest.approx([one.throughput for one in seen])


def test_exporters_fill_the_agents_gaps(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before it ran, and while it did not; its own intervals stay, and a second run adds none."""
    file = configured(tmp_path)
    assert backfilled(url, file) == 0
    assert "intervals of 30s added from db1:9104, " in capsys.readouterr().out
    found = restored(file)
    own = [one for one in found if one.seconds == WIDTH]
    assert len(own) == COUNT - OF_ANOTHER
    others = [one for one in found if one.seconds == 2 * WIDTH]
    assert len(others) == len(found) - len(own)
    assert sum(one.end < own[0].end for one in others) == pytest.approx(560 / 30, abs=3)
    assert sum(own[0].end < one.end < own[-1].end for one in others) == pytest.approx(10, abs=2)
    assert all(b.end - b.seconds >= a.end - 0.01 * WIDTH for a, b in pairwise(found))
    assert backfilled(url, file) == 0
    assert restored(file) == found


def test_intervals_scraped_repeatedly_are_added_once(
    prometheus: str, promtool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With their own width, so that a wider configuration uses them for the forecast."""
    file = configured(tmp_path, "30s")
    often = fill(tmp_path, promtool, shown(watched(), (1.0, 6.0, 11.0)))
    with serving(prometheus, often) as url:
        assert backfilled(url, file) == 0
    found = restored(file)
    assert {one.seconds for one in found} == {WIDTH}
    assert [one.end for one in found] == [one.end for one in watched()[OF_ANOTHER:]]
    assert "some intervals are 15s wide, but fit.interval is 30s" in capsys.readouterr().err


def test_intervals_scraped_seldom_are_added_if_seen(
    prometheus: str, promtool: str, tmp_path: Path
) -> None:
    """None where they end closer together than configured: their width is not known."""
    narrow, wide = configured(tmp_path / "a"), configured(tmp_path / "b", "5m")
    seldom = fill(tmp_path, promtool, shown(watched()[::4]))
    with serving(prometheus, seldom) as url:
        assert backfilled(url, narrow) == 0
        assert backfilled(url, wide) == 0
    assert [one.end for one in restored(narrow)] == [one.end for one in watched()[20::4]]
    assert restored(wide) == []


def test_a_target_that_prometheus_renames_is_found_by_its_new_name(
    prometheus: str, promtool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As docs/fleet.md names the `primary` of each host."""
    renamed = [
        (name, {**labels, "target": "db1"} if "target" in labels else labels, at, value)
        for name, labels, at, value in shown(watched()[:40])
    ]
    with serving(prometheus, fill(tmp_path, promtool, renamed)) as url:
        file = configured(tmp_path)
        unnamed = ("--series", "agent")
        assert "no agent that has watched it" in one_line(capsys, backfilled(url, file, *unnamed))
        assert backfilled(url, file, "--agent-selector", '{job="headroom", target="db1"}') == 0
    found = restored(file)
    assert [one.end for one in found] == [one.end for one in watched()[OF_ANOTHER:40]]


@pytest.mark.parametrize("replicas", [("a", "b"), ("", "")], ids=["labelled", "in one series"])
def test_a_pair_of_prometheus_makes_no_interval_wider(
    prometheus: str, promtool: str, tmp_path: Path, replicas: tuple[str, str]
) -> None:
    """Each scrapes one of four intervals, one a little after the other."""
    samples = [
        (name, {**labels, "replica": replica} if replica else labels, at, value)
        for replica, later in zip(replicas, (2.0, 5.0), strict=True)
        for name, labels, at, value in shown(watched()[::4], (later,))
    ]
    samples.sort(key=lambda sample: sample[2])
    file = configured(tmp_path)
    with serving(prometheus, fill(tmp_path, promtool, samples)) as url:
        assert backfilled(url, file) == 0
    found = [(one.end, one.seconds) for one in restored(file)]
    assert found == [(one.end, WIDTH) for one in watched()[20::4]]


def test_several_agents_are_one_line(
    prometheus: str, promtool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the option that chooses; also if no agent has watched the target."""
    one = list(shown(watched()[:40]))
    other = [(name, {**labels, "instance": "db2:10104"}, at, v) for name, labels, at, v in one]
    with serving(prometheus, fill(tmp_path, promtool, [*one, *other])) as url:
        file = configured(tmp_path)
        said = one_line(capsys, backfilled(url, file))
        named = '{job="headroom",instance="db1:10104",target="shop"}'
        assert f"shop: 2 agents export this target: {named}, " in said
        assert "choose one with --agent-selector" in said
        none = ("--agent-selector", '{instance="db3:10104"}')
        assert "knows no agent that has watched it" in one_line(
            capsys, backfilled(url, file, *none)
        )
        assert not (tmp_path / "state" / "history.db").exists()
        assert backfilled(url, file, "--agent-selector", '{instance="db2:10104"}') == 0
        assert len(restored(file)) == 40 - OF_ANOTHER
