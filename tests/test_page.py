"""The page for people: what it says in each state, and that it stays whole."""

import re
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from html.parser import HTMLParser

import pytest
from known_classes import known_classes
from law_windows import (
    SETTINGS,
    WAVES,
    ZERO,
    interval,
    intervals,
    known,
    now,
    seen_at,
    with_resources,
)

from agent.assessment.deploy_markers import Marker
from agent.assessment.snapshot import (
    AssessmentState,
    BusinessState,
    ClassSlasState,
    ClassSlaState,
    Health,
    SlaState,
    Snapshot,
)
from agent.config.durations import format_duration
from agent.config.sizes import format_size
from agent.export.assessment_chart import WIDTH
from agent.export.capacity_sentences import headline
from agent.export.number_formats import format_number, format_percent, whole_percent
from agent.export.page import STYLE, render
from agent.export.sla_sentences import sla_sentences
from agent.export.target_group_html import clock_offset_text
from agent.pipeline import assess
from agent.query_classes.class_registry import ClassName
from agent.sampling.collector_health import CollectorHealth
from agent.what_if.target_sla import sla_of
from agent.window.intervals import Window
from collectors.base import FailureKind, Feature
from collectors.cpu_quota import REMEDY as CGROUP_REMEDY
from collectors.digests import ENABLE_LOCK_WAITS
from collectors.statement_totals import (
    ENABLE_CONSUMER,
    ENABLE_INSTRUMENTS,
    ENABLE_PERFORMANCE_SCHEMA,
    GRANT,
)
from collectors.transport_security import USE_SOCKET, USE_TLS
from models.business_metric_headroom import UnitHeadroom, UnitReason
from models.group.ntp_clock_filter import ClockOffset
from models.trust import Trust
from models.what_if.class_sla_headroom import ClassHeadroom
from models.what_if.predicted_value import PredictedValue
from models.what_if.sla_result import SlaHeadroom

NOW = ZERO + 400.0
VOID = {"meta", "circle", "line", "polyline", "br"}
FAR_BELOW = [0.05 * load for load in WAVES]


def snapshot(loads: Sequence[float] = (), up: bool | None = True, cpu: float = 0.0) -> Snapshot:
    """A target with intervals of those concurrencies; the last ended at NOW."""
    rows = with_resources(intervals(loads), **({"cpu": cpu} if cpu else {}))
    rows = [row._replace(end=400.0 - rows[-1].end + row.end) for row in rows]
    return assess(
        "db1", Window(rows), Health(up, "MySQL 9"), AssessmentState(), SETTINGS, now(400.0)
    )


def everything_known() -> Snapshot:
    """A target with resource limits, query classes and collectors."""
    states = (CollectorHealth("status", success=True),)
    known = snapshot([load / 4 for load in WAVES], cpu=1 / 4000)
    return replace(known, health=Health(True, "MySQL 9", 0, states), classes=known_classes(NOW))


class Nesting(HTMLParser):
    """Checks that every element that is opened is closed in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Open."""
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the last one opened."""
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Text that a person sees."""
        if self.open[-1:] != ["style"]:
            self.texts.append(data)


def seen(*snapshots: Snapshot, now: float = NOW) -> str:
    """The page's text, after its markup was checked."""
    parser = Nesting()
    parser.feed(render(list(snapshots), now))
    parser.close()
    assert parser.open == []
    return " ".join(" ".join(parser.texts).split())


def test_a_trusted_capacity_comes_first() -> None:
    """A sentence, then load, capacity with its interval, and headroom."""
    text = seen(snapshot(WAVES))
    assert "up trusted MySQL 9" in text
    assert re.search(r"This server can do 5,\d+ queries/s; the limit is contention\.", text)
    assert re.search(r"\. \d+ % of the capacity is left\.", text)
    assert re.search(r"throughput [\d,]+ queries/s", text)
    assert "used by the fit" in text
    assert "90 %: " in text
    assert re.search(r"headroom \d+ %", text)
    [found] = re.findall(r"\(Nmax\) ([\d.]+) 90 %: ([\d.]+) to ([\d.]+) ", text)
    best, low, high = map(float, found)
    assert low < best < high
    assert "not yet reliable" not in text
    assert "not trusted" not in text


def test_a_configured_sla_is_described() -> None:
    """The load that reaches it and the headroom, or why unknown; without one, nothing."""
    rows = intervals(WAVES)
    rows = [row._replace(end=400.0 - rows[-1].end + row.end) for row in rows]

    def text(sla: float | None) -> str:
        up, at = Health(True, "MySQL 9"), now(400.0)
        known = assess("db1", Window(rows), up, AssessmentState(), SETTINGS, at)
        return seen(replace(known, sla=sla_of(known, sla, at.unix) if sla else None))

    assert "SLA" not in text(None)
    assert re.search(
        r"The SLA is a mean residence time of 4 ms; it is [\d.]+ ms now\. "
        r"It is reached at [\d,]+ queries/s \([\d,]+ to [\d,]+\): the load is above that\.",
        text(0.004),
    )
    assert "The capacity is reached first, at " in text(5.0)
    assert "The load at which it is reached is not yet identifiable: " in text(0.0001)
    endless = SlaHeadroom(
        throughput=PredictedValue(90.0, 70.0, None), ratio=PredictedValue(0.2, 0.1, None)
    )
    said = sla_sentences(SlaState(NOW, 0.004, 0.002, endless, None, Trust.TRUSTED))
    assert "at 90 queries/s (70 or more): 20 %" in said


def test_what_follows_from_an_unidentifiable_capacity_is_a_bound_too() -> None:
    """A processor at a tenth of its use: the capacity is not shown, nor as the end of the SLA."""
    rows = [
        interval(place, 0.3 * load, throughput=500.0 * 0.3 * load)
        for place, load in enumerate(WAVES)
    ]
    known_load = known(with_resources(rows, cpu=1 / 30_000))
    at = seen_at(rows)
    capacity = known_load.capacity(at)
    assert capacity is not None
    assert (capacity.trust, capacity.value is None) == (Trust.NOT_IDENTIFIABLE, False)
    room = UnitHeadroom(PredictedValue(4872.0, 632.0, 5713.0), trust=capacity.trust)
    users = BusinessState("active_users", "users", at, 3200.0, 180.0, room)
    none = replace(room, amount=PredictedValue(9.0, -1.0, 20.0))
    carts = replace(users, name="carts", unit_headroom=none)
    first = ClassHeadroom(PredictedValue(6.5, 1.5, 7.5), 0.9)
    slow = ClassSlaState("d1", 0.95, 0.05, None, 500, first)
    told = replace(
        known_load,
        sla=sla_of(known_load, 0.006, at),
        class_slas=ClassSlasState(at, (slow,), capacity.trust),
        business=(users, carts),
    )
    text = seen(told, now=at)
    assert format_number(capacity.value) not in text
    assert "indicative" not in text
    lower = r"not yet identifiable: at least [\d,]+ queries/s\."
    assert re.search(f"The load at which it is reached is {lower}", text)
    assert "that is reached is not yet identifiable: at least 1.5 times the load." in text
    assert "first class to break" not in text
    assert "users; the headroom is not yet identifiable: at least 632 more are possible." in text
    assert "carts is 3,200 users; the headroom is not yet identifiable." in text


def test_the_headroom_in_a_unit_is_described() -> None:
    """How many more are possible, or why unknown; a stale value is not shown."""
    known, at = snapshot(WAVES), now(400.0).unix

    def text(found: UnitHeadroom, age: float = 0.0) -> str:
        state = BusinessState("active_users", "users", at - age, 3200.0, 180.0, found)
        return seen(replace(known, business=(state,)))

    room = UnitHeadroom(PredictedValue(1840.0, 900.0, 3000.0), trust=Trust.INDICATIVE)
    assert (
        "active_users is 3,200 users; 1,840 more are possible (900 to 3,000). That is indicative."
    ) in text(room)
    assert "active_users is not known now; the headroom is not yet" in text(room, 500.0)
    full = UnitHeadroom(
        PredictedValue(0.0, 0.0, 0.0), trust=Trust.TRUSTED, reason=UnitReason.PAST_PEAK
    )
    assert "no more are possible: the server is past its peak, so there is no headroom." in text(
        full
    )


def test_an_untrusted_capacity_has_its_reasons() -> None:
    """And the load to measure next."""
    text = seen(snapshot(FAR_BELOW))
    assert "not identifiable" in text
    assert "The capacity of this server is not yet identifiable: at least " in text
    assert "Why it is not trusted: no limit by a resource or by contention is visible yet" in text
    assert "no processor's use is known" in text
    assert "would settle it" in text
    assert not re.search(r"headroom \d+ %", text)


def test_a_processor_whose_use_is_known_is_not_asked_for() -> None:
    """Also if it is no limit: hardly any of it was used."""
    assert "no processor's use is known" in seen(snapshot(WAVES))
    text = seen(snapshot(WAVES, cpu=1e-9))
    assert "no resource's limit is known" in text
    assert "no processor's use is known" not in text


def test_the_limits_are_a_table_the_likeliest_first() -> None:
    """Resource, use, demand of a query, limit with its interval and trust, and its probability."""
    text = seen(snapshot([load / 4 for load in WAVES], cpu=1 / 4000))
    assert "full at 90 % interval trust, or why unknown P(is the limit)" in text
    assert re.search(r"host CPU \d+ % \d+ µs [34],\d+ /s", text)
    assert re.search(r"trusted \d+ %", text)


def test_a_full_processor_below_the_capacity_is_described() -> None:
    """Others use it, or queries cost more than usual: the headroom alone would mislead."""
    usual = snapshot([load / 4 for load in WAVES], cpu=1 / 4000)
    assert usual.load is not None
    light = replace(usual.load, throughput=usual.load.throughput / 4)
    assert "used now" not in seen(replace(usual, load=light)).replace("resource used now", "")
    full = replace(light, resources={**light.resources, "cpu": 0.99})
    text = seen(replace(usual, load=full))
    assert "P(saturated now)" in seen(replace(usual, load=light))
    assert "P(saturated" not in text
    assert re.search(
        r"\d+ % of the capacity is left\. Host CPU is 99 % used now, "
        r"although the load is below the capacity\.",
        text,
    )


def test_a_load_is_not_below_a_capacity_that_is_not_identifiable() -> None:
    """The full processor is named, but its limit is not known."""
    rows = [
        interval(place, 0.3 * load, throughput=500.0 * 0.3 * load)
        for place, load in enumerate(WAVES)
    ]
    unknown = known(with_resources(rows, cpu=1 / 30_000))
    assert unknown.load is not None
    full = replace(unknown.load, resources={**unknown.load.resources, "cpu": 0.99})
    text = seen(replace(unknown, load=full), now=seen_at(rows))
    assert re.search(r"at least [\d,]+ queries/s\. Host CPU is 99 % used now\. ", text)
    assert "below the capacity" not in text


def test_an_unidentifiable_peak_has_a_caution() -> None:
    """Beside the number and at its mark on the chart."""
    known_law, doubted = snapshot(WAVES), snapshot([load / 8 for load in WAVES])
    assert "perhaps the USL peak" not in seen(known_law)
    assert re.search(r"USL peak \(Xmax\) [\d,]+ queries/s [^;]*; not yet reliable", seen(doubted))


def test_two_equally_likely_limits_are_both_named() -> None:
    """Instead of one of them."""
    known_capacity = snapshot([load / 4 for load in WAVES], cpu=1 / 4000).capacity(NOW)
    assert known_capacity is not None
    sure = replace(known_capacity, trust=Trust.TRUSTED, shares={"cpu": 0.9, "usl": 0.1})
    torn = replace(sure, shares={"cpu": 0.49, "usl": 0.51})
    assert "; the limit is host CPU." in headline(sure, None)
    assert "; the limit is contention or host CPU." in headline(torn, None)


def test_outliers_are_marked_on_the_chart() -> None:
    """A pile-up is a cross among the points."""
    rows = intervals(WAVES)
    at = seen_at(rows)
    assert "left out" not in render([known(rows)], at)
    rows[40] = rows[40]._replace(statement_time=500.0)
    html = render([known(rows)], at)
    assert "<title>left out as an outlier</title>" in html
    assert "× left out: 1 as queries took far longer than others at this throughput." in html


def test_without_a_chart_nothing_refers_to_one() -> None:
    """A load too low for the law has no points; what was left out, and markers, are shown."""
    rows = intervals([0.1 + 0.01 * (k % 3) for k in range(60)])
    rows[40] = rows[40]._replace(statement_time=5.0)
    marked = replace(known(rows), markers=(Marker(ZERO, "4.2", "db"),))
    html = render([marked], seen_at(rows))
    assert "<title>left out as an outlier</title>" not in html
    assert "Left out: 1 as queries took far longer than others at this throughput." in html
    assert "×" not in html
    assert "<p>Deploy markers:</p>" in html


def test_before_the_first_fit_the_missing_data_is_named() -> None:
    """A new user sees that it works."""
    assert "connecting" in seen(snapshot(up=None))
    assert "No prediction yet: no complete interval yet." in seen(snapshot())


def test_a_target_that_is_down_shows_the_error() -> None:
    """Not only the log has the reason."""
    status = CollectorHealth(
        "status", False, 3.0, 1, {FailureKind.TIMEOUT: 2}, "db1:3306: <no answer>", NOW - 90
    )
    text = seen(replace(snapshot(up=False), health=Health(False, "MySQL 9", 0, (status,))))
    assert "db1 down" in text
    assert "No prediction yet: db1:3306: <no answer>." in text
    assert "status fails 3000.0 ms 90 s ago 2 1" in text
    asks = replace(status, last_error="db1:3306: cannot connect; is the server up?")
    text = seen(replace(snapshot(up=False), health=Health(False, "MySQL 9", 0, (asks,))))
    assert "No prediction yet: db1:3306: cannot connect; is the server up? " in text


def test_why_a_target_is_down_is_reported_beside_what_was_known() -> None:
    """The error comes first, with a capacity from before and with one too old to be shown."""
    broken = CollectorHealth("status", success=False, last_error="db1:3306: <no answer>")
    down = replace(snapshot(WAVES), health=Health(False, "MySQL 9", 0, (broken,)))
    why = "Down: db1:3306: <no answer>."
    assert f"{why} This server can do" in seen(down)
    assert f"{why} No present prediction: the latest assessment is 10 min old" in seen(
        down, now=NOW + 600
    )
    assert "Down:" not in seen(snapshot(WAVES))


def test_the_labels_of_a_chart_can_be_read_on_a_phone() -> None:
    """It is scaled to 302 of 390 pixels, and its labels with it."""
    [pixels] = re.findall(r"max-width: 40rem\).*?svg text \{ font-size: (\d+)px", STYLE, re.DOTALL)
    assert 302 / WIDTH * int(pixels) >= 7


def test_collectors_that_fail_are_named_above_their_table() -> None:
    """It is folded where none fails: each reload of the page would fold it again."""
    states = (CollectorHealth("status", success=True), CollectorHealth("host", success=False))
    failing = replace(snapshot(WAVES), health=Health(True, "MySQL 9", 0, states))
    assert "Collector status (failing: host) collector" in seen(failing)
    assert render([failing], NOW).count("<details open>") == 1
    assert "<details open>" not in render([snapshot(WAVES)], NOW)
    assert "Collector status collector" in seen(snapshot(WAVES))


def test_a_table_wider_than_the_screen_scrolls_by_itself() -> None:
    """Also from the keyboard; on a phone the page's sentences stay as wide as the screen."""
    assert "\n.scroll { overflow-x: auto; }\n" in STYLE
    tables = re.findall(r"(<[^>]*>)<table\b", render([everything_known()], NOW))
    assert len(tables) == 3
    area = '<div class="scroll" role="region" tabindex="0" aria-label="(.*) of db1">'
    found = [re.fullmatch(area, before) for before in tables]
    labels = {match[1] for match in found if match}
    assert labels == {"resource limits", "query classes", "collectors"}
    assert "overflow-wrap: break-word" in STYLE  # a long name of a table or host
    assert "header * { overflow-wrap: anywhere; }" in STYLE  # a long name of a target


def test_each_heading_is_of_a_column_and_has_a_text() -> None:
    """A screen reader reads it before each cell of its column."""
    html = render([everything_known()], NOW)
    headings = re.findall("<th[^>]*>[^<]*</th>", html)
    assert len(headings) >= 20
    for heading in headings:
        assert re.fullmatch('<th scope="col">[^<]+</th>', heading)


def test_on_paper_a_table_does_not_scroll() -> None:
    """Columns beyond the edge would be missing."""
    [printed] = re.findall(r"@media print \{.*?\n\}", STYLE, re.DOTALL)
    assert "  .scroll { overflow: visible; }" in printed
    cells = ".numbers td, .overview td, .compared td:nth-child(-n+2)"
    assert f"  {cells} {{ min-width: 0; white-space: normal; }}" in printed


def test_a_stale_fit_is_withheld_and_its_age_shown() -> None:
    """Old numbers are not shown as present ones."""
    text = seen(snapshot(WAVES), now=NOW + 600)
    assert "No present prediction: the latest assessment is 10 min old and withheld." in text
    assert "headroom %" not in text
    assert "USL peak" not in text


def test_absent_features_have_their_remedy() -> None:
    """The exact statement, escaped."""
    lack = Feature("statements", False, "it is off", "GRANT <x>")
    text = seen(replace(snapshot(), health=Health(True, "MySQL 9", 0, (), (lack,))))
    assert "Not available: statements: it is off remedy: GRANT <x>" in text


@pytest.mark.parametrize(
    ("remedy", "is_code"),
    [
        (GRANT, True),
        (ENABLE_CONSUMER, True),
        (ENABLE_INSTRUMENTS, True),
        (ENABLE_LOCK_WAITS, True),
        (ENABLE_PERFORMANCE_SCHEMA, False),
        (USE_SOCKET, False),
        (USE_TLS, False),
        (CGROUP_REMEDY, False),
    ],
)
def test_only_a_statement_is_shown_as_code(remedy: str, is_code: bool) -> None:
    """A sentence in a typewriter's letters looks like something to paste."""
    lack = Feature("statements", False, "it is off", remedy)
    html = render([replace(snapshot(), health=Health(True, "MySQL 9", 0, (), (lack,)))], NOW)
    assert (f"remedy: <code>{escape(remedy)}</code>" in html) == is_code
    assert (f"remedy: {escape(remedy)}</li>" in html) != is_code


def test_names_and_texts_of_others_are_no_markup() -> None:
    """Of a server, its disks, classes and collectors, of a target and of a deploy."""
    hostile = '"><b title=x>&amp;'
    classes = known_classes(NOW)
    shown = [replace(one, text=f"SELECT {hostile}") for one in classes.classes[:1]]
    shown += [replace(one, name=ClassName(hostile, "c3")) for one in classes.classes[1:2]]
    disk = f"disk:{hostile}"
    demands = {"cpu": 1 / 9000, disk: 1 / 4000}
    rows = with_resources(intervals([load / 4 for load in WAVES]), **demands)
    found = known(rows)
    collector = CollectorHealth(f"host {hostile}", success=False, last_error=f"no {hostile}")
    lack = Feature(f"io {hostile}", False, f"why {hostile}", f"GRANT {hostile}")
    page = replace(
        found,
        target=f"db {hostile}",
        health=Health(True, f"MySQL {hostile}", 0, (collector,), (lack,)),
        classes=replace(classes, at=seen_at(rows), classes=tuple(shown)),
        markers=(Marker(seen_at(rows) - 60.0, f"4.2 {hostile}"),),
    )
    text = seen(page, replace(page, target=f"db2 {hostile}"), now=seen_at(rows))
    words = ("db", "db2", "MySQL", "SELECT", "disk", "host", "no", "io", "why", "GRANT", "4.2")
    for word in words:
        assert f"{word} {hostile}" in text, word
    assert f"; the limit is disk {hostile}" in text


@pytest.mark.parametrize("count", [0, 1, 200])
def test_any_number_of_targets_fits_on_the_page(count: int) -> None:
    """In the order of their names."""
    text = seen(*(replace(snapshot(), target=f"t{k:03d}") for k in reversed(range(count))))
    places = [text.index(f"t{k:03d}") for k in range(count)]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (45, "45 s"),
        (119, "119 s"),
        (120, "2 min"),
        (6000, "100 min"),
        (9000, "2.5 h"),
        (216_000, "2.5 days"),
        (40 * 86_400, "40.0 days"),
    ],
)
def test_an_age_has_the_unit_that_people_use(seconds: float, text: str) -> None:
    """Seconds up to two minutes, minutes up to two hours, hours up to two days, then days."""
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(512, "512 B"), (1.25 * 2**20, "1.25 MiB"), (1000 * 2**20, "1,000 MiB"), (2**30, "1 GiB")],
)
def test_a_size_has_no_exponent(size: float, text: str) -> None:
    """A thousand of a unit is not yet one of the next."""
    assert format_size(size) == text


@pytest.mark.parametrize(("share", "text"), [(-0.004, "0 %"), (-0.006, "-1 %"), (0.004, "0 %")])
def test_a_share_that_rounds_to_nothing_has_no_sign(share: float, text: str) -> None:
    """A headroom of a little less than none is none."""
    assert whole_percent(share) == text


def test_rounding_noise_has_no_sign() -> None:
    """Nor has what is left unattributed by rounding, or a clock that is a few µs behind."""
    assert format_percent(-1e-9) == "0.0 %"
    assert clock_offset_text(ClockOffset(-0.00002, 0.0003)) == "+0.0 ± 0.3 ms"
