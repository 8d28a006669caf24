"""The overview of all targets on the page, and the page of each."""

import html
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import parse_qs, urljoin, urlsplit

import numpy as np
import pytest
from law_windows import SETTINGS, WAVES, ZERO, interval, intervals, known, now, with_resources
from web_clients import NOW, ask, listening

from agent.assessment.recent_load import LoadOutlook
from agent.assessment.snapshot import AssessmentState, Health, Snapshot
from agent.export.overview_html import COLUMNS
from agent.export.page import MAX_SECTIONS, render
from agent.pipeline import assess
from agent.window.intervals import Interval, Window
from models.forecast.next_hour import Rise

AT = NOW


class Overview(HTMLParser):
    """The texts and the links of the rows of the page's first table."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.links: list[str] = []
        self.is_inside = False
        self.feed(page.partition("</table>")[0])
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin the table, a row or a cell."""
        self.is_inside |= tag == "table"
        if not self.is_inside:
            return
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "a":
            self.links.append(dict(attrs)["href"] or "")

    def handle_data(self, data: str) -> None:
        """Text of the latest cell."""
        if self.is_inside:
            self.rows[-1][-1] += data

    @property
    def names(self) -> list[str]:
        """The targets, in the order of their rows."""
        return [row[0] for row in self.rows[1:]]

    def row(self, name: str) -> dict[str, str]:
        """The cells of a target by their headings."""
        [found] = [row for row in self.rows if row[0] == name]
        return dict(zip(self.rows[0], map(str.strip, found), strict=True))


def assessed(name: str, rows: list[Interval]) -> Snapshot:
    """A target with these intervals, the last of which ended at AT."""
    end = AT - ZERO
    moved = [row._replace(end=end - rows[-1].end + row.end) for row in rows]
    health = Health(up=True, server="MySQL 9")
    return assess(name, Window(moved), health, AssessmentState(), SETTINGS, now(end))


def with_load(share: float, name: str) -> Snapshot:
    """A target whose present load is that share of its capacity."""
    found = assessed(name, with_resources(intervals([n / 4 for n in WAVES]), cpu=1 / 4000))
    capacity = found.capacity(AT)
    assert found.load is not None
    assert capacity is not None
    assert capacity.value is not None
    load = replace(found.load, throughput=share * capacity.value)
    return replace(found, load=replace(load, concurrency={}, resources={"cpu": share}))


def overloaded(name: str) -> Snapshot:
    """A target past its peak: more statements run, and far fewer end."""
    found = assessed(name, intervals(WAVES))
    capacity, source = found.capacity(AT), found.assessed.source
    assert found.load is not None
    assert source is not None
    assert capacity is not None
    assert capacity.usl is not None
    n = 6 * (capacity.usl.n_max or 0.0)
    x = float(capacity.usl.law.throughput(n))
    crowd = replace(found.load, concurrency={source: n}, throughput=x)
    return replace(found, load=crowd)


def unidentifiable(name: str) -> Snapshot:
    """A target with little load."""
    rows = [interval(k, 0.3 * n, throughput=150.0 * n) for k, n in enumerate(WAVES)]
    return assessed(name, with_resources(rows, cpu=1 / 30_000))


def fleet() -> list[Snapshot]:
    """A target in each state; their names are in the order in which they are not urgent."""
    full = with_load(0.3, "full")
    assert full.load is not None
    full = replace(full, load=replace(full.load, resources={"cpu": 0.99}))
    down = replace(with_load(0.5, "down"), health=Health(up=False))
    new = Snapshot("a new one", AT, 60.0, Health(), None, AssessmentState())
    half, tenth = with_load(0.5, "half used"), with_load(0.9, "b tenth left")
    downs = [replace(down, target="down too"), down]
    little, above = unidentifiable("c little load"), with_load(1.1, "z above")
    return [new, tenth, little, above, *downs, full, half, overloaded("over")]


def test_those_in_need_come_first() -> None:
    """Down, overloaded, full, then by headroom, and those at the end of which little is known."""
    page = render(fleet(), AT)
    shown = Overview(page)
    assert shown.rows[0] == list(COLUMNS)
    order = ["down", "down too", "over", "full", "z above", "b tenth left", "half used"]
    assert shown.names == [*order, "a new one", "c little load"]
    assert "9 targets, first those that are down" in page


def test_a_row_has_what_the_section_has() -> None:
    """State, trust, headroom, load, capacity, limit and probability, in the same words."""
    targets = fleet()
    page = render(targets, AT)
    shown = Overview(page)
    section = html.unescape(page.partition("<h2>half used</h2>")[2].partition("</section>")[0])
    half = shown.row("half used")
    badges = re.findall('<span class="badge [a-z]+">([^<]*)<', section)
    kinds = set(re.findall('<span class="badge ([a-z]+)">([^<]*)<', page))
    assert kinds >= {("good", "up"), ("bad", "down"), ("bad", "overloaded"), ("dim", "connecting")}
    assert kinds >= {("good", "trusted"), ("dim", "not identifiable")}
    assert half["state and trust"].split() == badges
    assert (badges[0], len(badges)) == ("up", 2)
    for column in ("headroom", "throughput", "capacity"):
        assert re.search(f"<dt>{column}</dt><dd>{re.escape(half[column])}<", section), column
    assert half["headroom"] == "50 %"
    assert half["limit"] in section
    assert half["limit"] != ""
    assert shown.row("over")["headroom"] == shown.row("z above")["headroom"] == "none"
    assert shown.row("z above")["limit"] == half["limit"]
    assert re.search(r"\d+ concurrent statements at the capacity", page)
    assert shown.row("over")["state and trust"].split()[:2] == ["up", "overloaded"]
    assert shown.row("full")["limit"].endswith(
        ". Host CPU is 99 % used now, although the load is below the capacity."
    )
    little = shown.row("c little load")
    assert little["capacity"].startswith("at least ")
    assert little["limit"] == little["headroom"] == ""
    assert little["state and trust"].endswith("not identifiable")
    new = shown.row("a new one")
    assert [new[column] for column in COLUMNS[2:]] == [""] * 5
    assert new["state and trust"] == "connecting"


def test_a_row_has_the_probability_of_the_next_hour() -> None:
    """That of the section; a target that is overloaded has none."""
    rises = {steps: Rise(np.array([0.0, 0.4, 1.5])) for steps in (3, 6, 12)}
    half, over = with_load(0.5, "half used"), overloaded("over")
    assert half.load is not None
    assert over.load is not None
    half = replace(half, outlook=LoadOutlook(half.load.throughput, rises))
    over = replace(over, outlook=LoadOutlook(over.load.throughput, rises))
    page = render([half, over], AT)
    soon = COLUMNS[-1]
    shown = re.findall(rf"<dt>{re.escape(soon)}</dt><dd>([^<]*)<", page)
    assert shown == [Overview(page).row("half used")[soon]]
    assert 0 < int(shown[0].removesuffix(" %")) < 100
    assert Overview(page).row("over")[soon] == ""


def test_one_target_needs_no_overview() -> None:
    """Its section is the page."""
    page = render([with_load(0.5, "db")], AT)
    assert "overview of all targets" not in page
    assert "<h2>db</h2>" in page
    assert "targets," not in page


@pytest.mark.parametrize(("count", "sections"), [(2, 2), (MAX_SECTIONS, 10), (11, 0), (200, 0)])
def test_many_targets_have_their_own_pages(count: int, sections: int) -> None:
    """The page of all has their names; it was 356,000 pixels high."""
    one = with_load(0.5, "db")
    page = render([replace(one, target=f"db{k:03d}") for k in range(count)], AT)
    assert page.count("<h2>db") == sections
    assert Overview(page).names == [f"db{k:03d}" for k in range(count)]
    assert len(page) < 300_000


@pytest.mark.parametrize("query", ["", "?refresh=no"])
@pytest.mark.parametrize("count", [3, 12])
def test_each_name_leads_to_its_page(count: int, query: str) -> None:
    """With all that is known of it, reloaded or not as the page that led there, and back."""
    names = [f"db {k:02} <&+é>" for k in range(count)]
    targets = [replace(known(intervals(WAVES)), target=name) for name in names]
    with listening(*targets) as server:
        shown = Overview(ask(server.server_port, f"/{query}")[2])
        turned = ask(server.server_port, "/" if query else "/?refresh=no")[2]
        assert ('http-equiv="refresh"' in turned) == bool(query)
        assert shown.names == names
        for name, link in zip(names, shown.links, strict=True):
            status, headers, page = ask(server.server_port, urljoin("/", link))
            assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
            assert f"<title>mysql-headroom: {html.escape(name)}</title>" in page
            assert re.findall("<h2>(.*?)</h2>", page) == [html.escape(name)]
            assert ('http-equiv="refresh"' in page) == (query == "")
            assert f'<a href="{query or "?"}">all targets</a>' in page
            other = page_links(page, lambda text: text in ("stop", "reload it"))
            assert parse_qs(urlsplit(other).query) == {
                "target": [name],
                **({"refresh": ["no"]} if query == "" else {}),
            }
            turned = ask(server.server_port, f"/{other}")[2]
            assert ('http-equiv="refresh"' in turned) == bool(query)


def page_links(page: str, is_wanted: Callable[[str], bool]) -> str:
    """The address of the only link whose text is wanted."""
    links = re.findall('<a href="([^"]*)">([^<]*)</a>', page)
    [found] = [address for address, text in links if is_wanted(text)]
    return html.unescape(found)


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ("target=nobody", 404, "404 no such target"),
        ("target=", 404, "404 no such target"),
        ("targt=db", 400, "400 targt: unknown field; allowed are target, refresh"),
        (80 * "x" + "=1", 400, f"400 {30 * 'x'}: unknown field; allowed are target, refresh"),
        ("target=db&target=db", 400, "400 target: given twice"),
        ("refresh=off", 400, "400 refresh: the only value is no"),
    ],
)
def test_a_wrong_query_is_refused_in_one_line(query: str, status: int, text: str) -> None:
    """As on the other paths: a misspelt name must not show other targets instead."""
    with listening(known(intervals(WAVES))) as server:
        assert ask(server.server_port, f"/?{query}")[::2] == (status, f"{text}\n")
