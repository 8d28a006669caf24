"""Servers that fail in every way we know of: the agent says so, shows no nonsense, and recovers."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

import pytest
import set_clock
from conftest import FLAVOURS
from fault_records import Span, left_behind
from faults import (
    BACK_WITHIN,
    CALM,
    CLIENTS,
    DIGESTS,
    EXACT,
    FAULTS,
    NAP,
    Fault,
    Scene,
    WatchedServer,
)
from faults_of_surroundings import AROUND
from history_rows import is_sound as is_sound_file
from history_rows import rows
from page_changes import ALWAYS_POSSIBLE, falls, increases, lost, rise, skipped, was_undisturbed
from proxy import Proxy
from set_clock import set_ahead

from agent.demo.private_server import PrivateServer
from agent.history.row_kinds import INTERVALS
from collectors.endpoint import Endpoint
from testbed.real.clients import Clients, run_as_root, sessions
from testbed.real.daemon import Daemon, Page, PlausiblePage, target, wait_until, watching
from testbed.real.server_account import least_account
from testbed.real.server_programs import RELEASES, Release

THROUGHPUT = "throughput_queries_per_second"
SOURCES = ("statement_time", "threads_running")
OFFERED = ("status", "statements", "statements_in_flight", "threads", "host")
ALL_ON = "--performance-schema-consumer-events-statements-current=ON"
FEW_DIGESTS = f"--performance-schema-digests-size={DIGESTS}"
CLASSES = {"interval": "5s", "window": "1m"}
SANE = PlausiblePage(queries=1.2 * CLIENTS / NAP + 200, threads=2 * CLIENTS)  # 200: we ask, too
LOAD = f"SELECT SLEEP({NAP})"
LAG = 45.0  # seconds that counters of query classes may be behind, on a busy machine
UNCOUNTED = 2 * CLIENTS * len([*FAULTS, *AROUND])  # statements that ended with their session


@pytest.fixture(scope="module")
def scene(
    start_server: Callable[..., PrivateServer],
    mariadb_without_schema: PrivateServer,
    tmp_path_factory: pytest.TempPathFactory,
    *,
    is_long: bool,
) -> Iterator[Scene]:
    """One agent for all faults, loaded servers, and one that is left in peace.

    A MySQL and a MariaDB, with `--long` one of each release.
    """
    folder = tmp_path_factory.mktemp("faults")
    releases: tuple[Release, ...] = RELEASES if is_long else FLAVOURS
    with ExitStack() as stack:
        places, targets = [], [target(folder, mariadb_without_schema, name=CALM)]
        for release in releases:
            server = stack.enter_context(start_server(release, options=[ALL_ON, FEW_DIGESTS]))
            proxy = stack.enter_context(Proxy(server.port))
            account, over = least_account(server), Endpoint(port=proxy.port)
            targets.append(target(folder, server, account, name=release, over=over))
            file = folder / f"{release}.password"
            load = stack.enter_context(Clients(server, LOAD, CLIENTS))
            places.append(
                WatchedServer(release, server, proxy, account, file, load, digest_of(LOAD, server))
            )
        patient = [{**there, "timeout": "3s"} for there in targets]
        set_ahead(clock := folder / "clock", 0.0)
        by_it = (sys.executable, set_clock.__file__, str(clock))
        history = folder / "history" / "history.db"
        options = {"classes": CLASSES, "history": {"path": str(history)}}
        run = watching(folder, *patient, sane=SANE, prefix=by_it, **options)
        agent = stack.enter_context(run)
        yield Scene(agent, folder / "config.yaml", clock, history, places)
        kept = agent.page
    assert is_sound_file(history)
    written = Counter(row.labels[0] for row in rows(history, INTERVALS))
    assert written[CALM] > 0  # without clients nothing of it is assessed
    for place in places:
        assert 0 < (kept.get("intervals_kept", target=place.name) or 0) <= written[place.name]


@pytest.mark.parametrize("fault", [*FAULTS, *AROUND], ids=lambda fault: fault.name)
def test_a_fault_is_reported_and_passes(fault: Fault, scene: Scene, promtool: str) -> None:
    """What is said while it lasts; then all is as before in a stated time, and nothing was made up.

    No server shows a rate that cannot be, no counter falls or rises by more than was done, no
    session is left behind, and the history has all that was seen. The server beside them is watched
    as if nothing had happened.
    """
    agent = scene.agent
    wait_until("all is well", partial(is_sound, scene), BACK_WITHIN)
    before, began, since = agent.page, time.monotonic(), time.time()
    agent.unanswered.clear()
    try:
        fault.inject(scene)
        wait_until("it shows", partial(shows, fault, scene, before), 30)
        noticed = time.monotonic()
        wait_until("it lasts", lambda: time.monotonic() > noticed + fault.lasts, fault.lasts + 5)
        lint(promtool, agent.page.text)
        meanwhile = [page for page in agent.pages if page.requested_at > noticed]
    finally:
        fault.undo(scene)
    undone = time.monotonic()
    wait_until("all is well again", partial(is_sound, scene), fault.back_within)
    print(f"{fault.name}: back after {time.monotonic() - undone:.1f} s")
    after, until = agent.page, time.time()
    unanswered = list(agent.unanswered)
    agent.unanswered.clear()
    assert unanswered == []
    assert all(is_told(fault, scene, page) for page in meanwhile)
    for place in scene.places if not fault.gone else []:
        loses_what_it_must(fault, place.name, before, agent)
        counted = {kind for kind, n in increases(place.name, before, after).items() if n}
        assert counted <= fault.kinds | fault.beside | ALWAYS_POSSIBLE, (place.name, counted)
        assert bool(counted & fault.kinds) == bool(fault.kinds), (place.name, counted)
        restarts = [
            page.get("server_restarts_total", target=place.name) for page in (before, after)
        ]
        assert (restarts[1] or 0) - (restarts[0] or 0) == fault.restarts, place.name
    pages = wait_until("pages", partial(two_or_more, agent, began))
    assert [text for page in pages for text in SANE.complaints(page)] == []
    assert falls(pages, only=CALM if fault.gone else None) == []
    was_undisturbed(CALM, pages)
    for place in scene.places if not fault.gone else []:
        assert_nothing_is_made_up(place, before, agent.page)
    names = [place.name for place in scene.places if fault.unbroken]
    unbroken = [CALM, *names] if fault.in_step else []
    gaps = {name: fault.longest_gap + missed_turns(name, before, agent.page) for name in unbroken}
    assert left_behind(scene.history, Span(since, until), gaps, SANE) == []
    assert "Traceback" not in agent.log
    assert not [place.name for place in scene.places if place.account.password in agent.log]


def two_or_more(agent: Daemon, since: float) -> list[Page]:
    """The pages since then; none before there are two."""
    pages = [page for page in agent.pages if page.at > since]
    return pages if len(pages) > 1 else []


def missed_turns(name: str, before: Page, after: Page) -> int:
    """The turns that a busy machine cost a target; an interval without a sample is not known."""
    return round(skipped(name, after) - skipped(name, before))


def is_sound(scene: Scene) -> bool:
    """Whether each server is up, loaded, offers all it can, and has one session of the agent's."""
    page = scene.agent.page
    return all(
        page.get("up", target=place.name) == 1
        and all((page.get("concurrency", target=place.name, source=s) or 0) > 2 for s in SOURCES)
        and all(page.get("feature_enabled", target=place.name, feature=f) == 1 for f in OFFERED)
        and page.all("query_calls_total", target=place.name, digest=place.digest)
        and sessions(place.server, place.account.user) == 1
        for place in scene.places
    )


def shows(fault: Fault, scene: Scene, before: Page) -> bool:
    """Whether the fault shows at each target, and as what it is."""
    page = scene.agent.page
    if not is_told(fault, scene, page):
        return False
    kinds = fault.kinds if fault.up is not None else frozenset()
    for place in scene.places:
        if kinds and not any(increases(place.name, before, page).get(kind) for kind in kinds):
            return False
        if fault.skips and not skipped(place.name, page) > skipped(place.name, before):
            return False
        if fault.loses.keys() - {"restart"} and not lost(place.name, before, page):
            return False
    return True


def is_told(fault: Fault, scene: Scene, page: Page) -> bool:
    """Whether the page says what it must say while the fault lasts."""
    return all(_is_told(fault, place.name, page) for place in scene.places)


def _is_told(fault: Fault, name: str, page: Page) -> bool:
    up = page.get("up", target=name)
    if fault.gone:
        return up is None
    return (
        fault.up in (None, up)
        and not (up == 0 and page.all(THROUGHPUT, target=name))
        and all(page.get("feature_enabled", target=name, feature=f) == 0 for f in fault.missing)
        and all(page.get("collector_success", target=name, collector=c) == 0 for c in fault.failing)
    )


def loses_what_it_must(fault: Fault, name: str, before: Page, agent: Daemon) -> None:
    """The query classes lose the intervals that the fault hides, each once, and no other.

    Of two restarts both are lost where the digests were read between them, else one.
    """

    def enough() -> bool:
        found = lost(name, before, agent.page)
        return all(found.get(kind, 0) >= number for kind, number in fault.loses.items())

    wait_until("what is lost is counted", enough, LAG)
    found = lost(name, before, agent.page)
    exact = {kind: number for kind, number in found.items() if kind in EXACT}
    least = {kind: n for kind, n in fault.loses.items() if kind in EXACT}
    most = least | ({"restart": fault.restarts} if fault.restarts > 1 else {})
    assert exact in (least, most), name


def assert_nothing_is_made_up(place: WatchedServer, before: Page, after: Page) -> None:
    """The counters of query classes have no more than was done, and what may have been late."""
    seconds = after.at - before.at + LAG
    calls = after.get("query_calls_total", target=place.name, digest=place.digest)
    assert calls is not None
    assert calls <= place.load.done + UNCOUNTED
    spent = rise("query_statement_seconds_total", before, after, target=place.name)
    assert spent <= SANE.threads * seconds
    used = rise("query_cpu_seconds_total", before, after, target=place.name)
    assert used <= (os.cpu_count() or 1) * seconds


def digest_of(statement: str, server: PrivateServer) -> str:
    """The digest that the server has for the load's statement."""
    query = (
        "SELECT DIGEST FROM performance_schema.events_statements_summary_by_digest"
        " WHERE DIGEST_TEXT LIKE 'SELECT %SLEEP%'"
    )
    [(digest,)] = wait_until(statement, lambda: run_as_root(server, query))
    return str(digest)


def lint(promtool: str, text: str) -> None:
    """Have promtool judge a page."""
    command = [promtool, "check", "metrics"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
