"""SLAs of query classes: recent quantiles from a server's counts, and which class breaks first."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from error_lines import mistakes
from test_sla import LAW, on_the_law, processors, queued, watched

from agent.assessment.snapshot import ClassSlasState, Snapshot
from agent.config.class_slas import ClassSla
from agent.config.loader import load_config
from agent.export.page import render
from agent.export.snapshot_json import snapshots_as_json
from agent.query_classes.recent_response_times import (
    MAX_GAP_SECONDS,
    MAX_SECONDS,
    RecentResponseTimes,
)
from agent.support.clock_pair import ClockPair
from agent.what_if.class_sla import class_slas_of
from agent.window.intervals import Window
from collectors.histograms import Buckets, HistogramValues
from models.capacity.result import CapacityReason
from models.response_time_histogram import ResponseTimes
from models.trust import Trust
from models.what_if.class_sla_headroom import MeasuredClass, class_headroom
from models.what_if.sla_result import SlaReason

SLOW, QUICK = "a" * 64, "b" * 64


def counted(seconds: np.ndarray) -> dict[tuple[float, float], float]:
    """Those times in the buckets of MySQL: 50 for each power of ten from 10 µs on."""
    place = np.ceil(50 * np.log10(np.maximum(seconds, 1e-5) / 1e-5))
    edges, counts = np.unique(place, return_counts=True)
    to = 1e-5 * 10 ** (edges / 50)
    low = np.where(edges > 0, to * 10 ** (-1 / 50), 0.0)
    return {(float(a), float(b)): float(n) for a, b, n in zip(low, to, counts, strict=True)}


def lasting(mean: float, calls: int = 4000, seed: int = 1) -> np.ndarray:
    """So many response times of that mean, spread as those of a queue M/M/1 are."""
    return np.random.default_rng(seed).exponential(mean, calls)


@pytest.mark.parametrize("share", [0.5, 0.9, 0.95, 0.99])
def test_a_quantile_is_exact_within_a_bucket(share: float) -> None:
    """Within the width of a bucket, 4.7 %."""
    times = lasting(0.02)
    found = ResponseTimes.of(counted(times))
    assert found.calls == len(times)
    assert found.quantile(share) == pytest.approx(np.quantile(times, share), rel=0.05)


def test_quantiles_are_within_the_observed_times() -> None:
    """Whatever share is asked for, as an interval's ends are."""
    found = ResponseTimes.of({(0.01, 0.02): 3.0, (0.1, 0.2): 1.0})
    assert found.quantile(1.0) == found.quantile(1.4) == pytest.approx(0.2)
    assert found.quantile(0.0) == found.quantile(-0.4) == pytest.approx(0.01)


def test_quantile_intervals_have_their_nominal_coverage() -> None:
    """Of 200 samples of 400 calls each, for the 95 % quantile of a known distribution."""
    truth = -0.02 * np.log(0.05)
    bounds = [
        ResponseTimes.of(counted(lasting(0.02, 400, seed))).interval(0.95) for seed in range(200)
    ]
    held = np.mean([low <= truth <= high for low, high in bounds])
    assert 0.84 < held < 0.97


def sums(*parts: Buckets) -> dict[tuple[float, float], float]:
    """The counts of a server since its start."""
    return {
        edges: sum(part.get(edges, 0.0) for part in parts)
        for edges in {edges for part in parts for edges in part}
    }


def test_earlier_calls_do_not_count() -> None:
    """A million quick calls since the server's start are no part of the last minutes."""
    long_ago, now = counted(lasting(0.001, 50_000)), counted(lasting(0.1, 500))
    times = RecentResponseTimes()
    times.append(0.0, HistogramValues({SLOW: long_ago}))
    assert times.latest(SLOW, 0.95, 0.0) is None
    times.append(10.0, HistogramValues({SLOW: sums(long_ago, now)}))
    found = times.latest(SLOW, 0.95, 10.0)
    assert found is not None
    assert (found.start, found.end, found.times.calls) == (0.0, 10.0, 500)
    assert found.times.quantile(0.5) == pytest.approx(0.1 * np.log(2), rel=0.15)


def test_only_the_latest_sufficient_calls_count() -> None:
    """Of three readings only those that make four hundred calls count for a 95 % quantile."""
    times, total = RecentResponseTimes(), dict[tuple[float, float], float]()
    for at, mean in ((0.0, 1.0), (10.0, 1.0), (20.0, 0.05), (30.0, 0.05)):
        total = sums(total, counted(lasting(mean, 250)))
        times.append(at, HistogramValues({SLOW: total}))
    found = times.latest(SLOW, 0.95, 30.0)
    assert found is not None
    assert (found.start, found.times.calls) == (10.0, 500)
    every = times.latest(SLOW, 0.99, 30.0)
    assert every is not None
    assert (every.start, every.times.calls) == (0.0, 750)


NORMAL, ONCE = (0.0, 1.0), (2.0, 4.0)
"""Buckets of many calls, and of one."""


@pytest.mark.parametrize(
    ("later", "gap"),
    [
        ({SLOW: {NORMAL: 3.0}}, 10.0),
        ({SLOW: {NORMAL: 500.0}}, 10.0),
        ({}, 10.0),
        ({SLOW: {NORMAL: 500.0, ONCE: 1.0}}, MAX_GAP_SECONDS + 1),
    ],
    ids=["restart", "busy since", "evicted", "gap"],
)
def test_counts_that_fall_start_again(later: dict[str, Buckets], gap: float) -> None:
    """No difference is negative, nor taken over a restart, an eviction or a long silence."""
    times = RecentResponseTimes()
    times.append(0.0, HistogramValues({SLOW: {NORMAL: 100.0}}))
    times.append(5.0, HistogramValues({SLOW: {NORMAL: 300.0, ONCE: 1.0}}))
    assert times.latest(SLOW, 0.5, 5.0) is not None
    times.append(5.0 + gap, HistogramValues(later))
    assert times.latest(SLOW, 0.5, 5.0 + gap) is None


def test_without_new_calls_there_are_no_times() -> None:
    """Counts that are as before are no calls."""
    times = RecentResponseTimes()
    for at in (0.0, 10.0):
        times.append(at, HistogramValues({QUICK: {(0.0, 1.0): 5.0}}))
    assert times.has_readings(10.0)
    assert times.latest(QUICK, 0.5, 10.0) is None


def test_old_calls_are_dropped() -> None:
    """No call is older than five minutes and a reading."""
    times = RecentResponseTimes()
    for k in range(100):
        times.append(10.0 * k, HistogramValues({SLOW: {(0.0, 1.0): 1.0 * k}}))
    found = times.latest(SLOW, 0.95, 990.0)
    assert found is not None
    assert found.end - found.start <= MAX_SECONDS + 10.0


def measured(times: np.ndarray, throughput: float, seconds: float, q: float = 0.5) -> MeasuredClass:
    """A class of which those response times were seen at that throughput."""
    return MeasuredClass(ResponseTimes.of(counted(times)), throughput, q, seconds)


@pytest.mark.parametrize("then", [1.0, 0.5])
def test_a_class_breaks_its_sla_where_the_mean_has_grown_by_its_ratio(then: float) -> None:
    """On a law: with half of its SLA used, where R is twice what it was then."""
    today = on_the_law(5.0)
    assert today.load is not None
    x = today.load.throughput
    one = measured(lasting(0.02, 20_000), then * x, 2 * 0.02 * np.log(2))
    [found] = class_headroom(today, [one])
    n = float(LAW.concurrency_at_throughput(np.array([then * x]))[0])
    r = 2 * n / (then * x)
    many = np.linspace(n, LAW.n_max or 0.0, 5000)
    times = many / LAW.throughput(many)
    truth = float(np.interp(r, times, LAW.throughput(many))) / x
    assert found.load_ratio is not None
    assert found.load_ratio.value == pytest.approx(truth, rel=0.03)
    assert found.load_ratio.upper is not None
    assert found.load_ratio.lower < truth < found.load_ratio.upper
    assert found.first == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("count", [1, 4])
def test_at_an_exact_queue_the_interval_holds_the_truth(count: int) -> None:
    """Of M/M/c, by Erlang's formula, seen half full: where the mean is 1.5 times as long."""
    today = processors(count, 0.5)
    shares = np.linspace(0.5, 0.999, 1000)
    grown = np.array([queued(count, share) for share in shares]) / queued(count, 0.5)
    truth = float(np.interp(1.5, grown, shares)) / 0.5
    one = measured(lasting(0.01), 500.0, 1.5 * 0.01 * np.log(2))
    [found] = class_headroom(today, [one])
    assert found.load_ratio is not None
    assert found.load_ratio.upper is not None
    assert found.load_ratio.lower <= truth <= found.load_ratio.upper


def test_a_class_at_the_lowest_load_so_far_has_its_ratio_to_that_load() -> None:
    """Its SLA is met up to the capacity, though the other intervals had 15 % more throughput."""
    today = processors(1, 0.5)
    assert today.load is not None
    xs = np.linspace(500.0, 575.0, 60)
    ns = xs * np.array([queued(1, share) for share in xs / 1000.0]) / 1000.0
    today = replace(today, load=replace(today.load, window=(xs, ns)))
    [found] = class_headroom(today, [measured(lasting(0.01), 500.0, 3600.0)])
    assert found.load_ratio is not None
    assert found.load_ratio.value == pytest.approx(2.0, rel=0.01)


def test_the_class_closest_to_its_sla_is_first() -> None:
    """Whatever its times: the quick one has used 80 % of its SLA, the slow one 20 %."""
    today = on_the_law(5.0)
    assert today.load is not None
    x, median = today.load.throughput, np.log(2)
    quick = measured(lasting(0.001), x, 0.001 * median / 0.8)
    slow = measured(lasting(1.0, seed=2), x, median / 0.2)
    found = class_headroom(today, [slow, quick])
    assert [round(one.first or 0.0, 2) for one in found] == [0.0, 1.0]
    twins = class_headroom(today, [quick, replace(quick, seconds=1.0001 * quick.seconds)])
    assert [one.first for one in twins] == pytest.approx([0.5, 0.5], abs=0.1)


def test_a_class_far_from_its_sla_is_limited_by_the_capacity() -> None:
    """Its probability to be the first is 0."""
    today = on_the_law(5.0)
    assert today.load is not None
    x = today.load.throughput
    [found] = class_headroom(today, [measured(lasting(0.001), x, 3600.0)])
    assert found.first == 0.0
    assert found.load_ratio is not None
    assert found.load_ratio.value == pytest.approx((LAW.x_max or 0.0) / x, rel=0.01)


def test_a_class_that_breaks_its_sla_kept_it_at_a_lower_load() -> None:
    """At less than the present one."""
    today = on_the_law(15.0)
    assert today.load is not None
    x = today.load.throughput
    [found] = class_headroom(today, [measured(lasting(0.02), x, 0.8 * 0.02 * np.log(2))])
    assert found.load_ratio is not None
    assert found.load_ratio.value < 1
    [never] = class_headroom(today, [measured(lasting(0.02), x, 1e-4)])
    assert (never.load_ratio, never.reason, never.first) == (None, SlaReason.NEVER_MET, 1.0)


def states(
    snapshot: Snapshot, times: RecentResponseTimes, monotonic: float = 10.0
) -> ClassSlasState:
    """Two classes, the slow one of which is nearer to its SLA."""
    slas = (ClassSla(digest=QUICK, seconds=1.0), ClassSla(digest=SLOW, seconds=0.08, quantile=0.5))
    now = ClockPair(monotonic, snapshot.at)
    return class_slas_of(snapshot, slas, times, Window(), now)


def read() -> RecentResponseTimes:
    """The slow class has a median of 0.05 s, the quick one 95 % of its calls below 0.06 s."""
    times = RecentResponseTimes()
    times.append(0.0, HistogramValues({}))
    both = {SLOW: counted(lasting(0.05 / np.log(2))), QUICK: counted(lasting(0.02))}
    times.append(10.0, HistogramValues(both))
    return times


def test_times_that_are_no_longer_read_become_unknown() -> None:
    """As where a privilege was revoked, or the histograms were switched off: not those of then."""
    snapshot, times = watched(3000.0, 2.0), read()
    before, after = (states(snapshot, times, at) for at in (10.0 + MAX_GAP_SECONDS, 3600.0))
    assert all(one.present is not None for one in before.classes)
    for one in after.classes:
        assert (one.present, one.calls) == (None, 0)
        assert one.headroom.reason is SlaReason.NO_HISTOGRAMS
    assert after.first is None


def test_page_and_json_name_the_first_class() -> None:
    """In words with its digest; in JSON with every number and its bounds."""
    snapshot = watched(3000.0, 2.0)
    snapshot = replace(snapshot, class_slas=states(snapshot, read()))
    page = render([snapshot], snapshot.at)
    assert f"The first class to break its SLA as the load grows is {SLOW[:16]}" in page
    assert "50 % of its statements may take 80" in page
    [target] = json.loads(snapshots_as_json([snapshot], snapshot.at))["targets"]
    found = target["class_slas"]
    assert found["first"] == {"digest": SLOW, "quantile": 0.5}
    quick, slow = found["classes"]
    assert slow["response_time"]["value"] == pytest.approx(0.05, rel=0.1)
    assert slow["calls"] == 4000
    assert (
        slow["load_ratio"]["lower"] <= slow["load_ratio"]["value"] <= quick["load_ratio"]["value"]
    )
    assert slow["first"] > 0.5 > quick["first"]
    assert (slow["reasons"], target["sla"]) == ([], None)
    stale = snapshot.at + 2 * snapshot.stale_after
    assert json.loads(snapshots_as_json([snapshot], stale))["targets"][0]["class_slas"] is None


def test_each_unknown_class_headroom_has_its_reason() -> None:
    """No histogram, too few calls, a contradicted capacity: one reason, and no number."""
    never = states(watched(3000.0, 2.0), RecentResponseTimes())
    assert {one.headroom.reason for one in never.classes} == {SlaReason.NO_HISTOGRAMS}
    few = RecentResponseTimes()
    few.append(0.0, HistogramValues({}))
    few.append(10.0, HistogramValues({QUICK: counted(lasting(0.02, 99))}))
    assert {one.headroom.reason for one in states(watched(3000.0, 2.0), few).classes} == {
        SlaReason.FEW_CALLS
    }
    refuted = states(watched(3000.0, 2.0, CapacityReason.RECENT_COST_DIFFERS), read())
    assert {one.headroom.reason for one in refuted.classes} == {SlaReason.CONTRADICTED}
    assert (refuted.trust, refuted.first) == (Trust.NOT_IDENTIFIABLE, None)
    assert all(one.present is not None for one in refuted.classes)
    shown = replace(watched(3000.0, 2.0), class_slas=never)
    assert "the server has no histograms per digest" in render([shown], shown.at)


def test_every_mistake_in_an_sla_has_its_place_and_remedy(tmp_path: Path) -> None:
    """An invalid digest, percentage, word or duration, and a class that is given twice."""
    path = tmp_path / "config.yaml"
    start = "targets:\n  - name: a\n    user: u\n    class_slas:\n"
    path.write_text(
        f"{start}      - {{digest: SELECT 1, seconds: soon}}\n"
        f"      - {{digest: {SLOW}, seconds: 50ms, quantile: 95}}\n"
        f"      - {{digest: {SLOW}, seconds: 50ms, quantile: most}}\n"
        f"      - {{digest: {SLOW.upper()}, seconds: 2h}}\n"
    )
    assert mistakes(load_config, path) == [
        "5: targets[0].class_slas[0].digest: must be the 64 hexadecimal digits of a digest: column"
        " DIGEST of performance_schema.events_statements_summary_by_digest, or the label of"
        " mysql_headroom_query_calls_total",
        "5: targets[0].class_slas[0].seconds: not a duration; write 500ms, 15s, 10m, 6h, 1d, 1w or"
        " a number of seconds",
        "6: targets[0].class_slas[1].quantile: must be a number from 0.5 to 0.999; write 0.95 for"
        " 95 % of statements",
        "7: targets[0].class_slas[2].quantile: must be a number from 0.5 to 0.999; write 0.95 for"
        " 95 % of statements",
        "8: targets[0].class_slas[3].seconds: must be from 0.001ms to 1h",
    ]
    one = f"      - {{digest: {SLOW}, seconds: 1}}\n"
    path.write_text(start + one + one)
    assert mistakes(load_config, path) == [
        f"4: targets[0].class_slas: the digest {SLOW[:16]}… has two SLAs for the quantile 0.95;"
        " leave one out, or give it another quantile"
    ]
    path.write_text(start + one + one.replace("}", ", quantile: 0.99}"))
    assert len(load_config(path).targets[0].class_slas) == 2
