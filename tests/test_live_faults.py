"""Servers that fail in every way we know of: the agent says so, shows no nonsense, and recovers."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import mean

import pytest
import set_clock
from conftest import FLAVOURS, ServerFactory
from faults import BACK_WITHIN, CALM, CLIENTS, DIGESTS, FAULTS, NAP, Fault, Place, Scene
from faults_around import AROUND
from live import (
    Clients,
    Page,
    Sane,
    is_root,
    run_as_root,
    sessions,
    target,
    wait_until,
    watching,
    write_config,
)
from namespaces import other_host, server_inside
from proxy import Proxy
from servers import least_account
from set_clock import set_ahead

from agent import watch
from agent.config.file import load
from agent.daemon import Agent
from agent.demo.server import Flavour, PrivateServer
from agent.lane import Lane
from agent.snapshot import CollectorHealth
from agent.watch import Watch
from collectors import COLLECTORS as TABLE
from collectors import CollectorSpec
from collectors.base import FailureKind, Feature, Prepared
from collectors.connection import Connection, Endpoint

THROUGHPUT = "throughput_queries_per_second"
SOURCES = ("statement_time", "threads_running")
OFFERED = ("status", "statements", "statements_in_flight", "threads", "host")
ALL_ON = "--performance-schema-consumer-events-statements-current=ON"
FEW_DIGESTS = f"--performance-schema-digests-size={DIGESTS}"
CLASSES = {"interval": "5s", "window": "1m"}
ALWAYS_POSSIBLE = {"slow"}  # a machine with much else to do
SANE = Sane(queries=1.2 * CLIENTS / NAP + 200, threads=CLIENTS + 1.5)  # 200: we ask, too


@pytest.fixture(scope="module")
def scene(
    start_server: Callable[..., PrivateServer],
    mariadb_without_schema: PrivateServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Scene]:
    """One agent for all faults, a loaded server of each flavour, and one that is left in peace."""
    folder = tmp_path_factory.mktemp("faults")
    with ExitStack() as stack:
        places, targets = [], [target(folder, mariadb_without_schema, name=CALM)]
        for flavour in FLAVOURS:
            server = stack.enter_context(start_server(flavour, options=[ALL_ON, FEW_DIGESTS]))
            proxy = stack.enter_context(Proxy(server.port))
            account, over = least_account(server), Endpoint(port=proxy.port)
            targets.append(target(folder, server, account, name=flavour, over=over))
            file = folder / f"{flavour}.password"
            places.append(Place(server, proxy, account, file))
            load = Clients(server, f"SELECT SLEEP({NAP})", CLIENTS)
            stack.enter_context(load)
        patient = [{**there, "timeout": "3s"} for there in targets]
        set_ahead(clock := folder / "clock", 0.0)
        by_it = (sys.executable, set_clock.__file__, str(clock))
        run = watching(folder, *patient, sane=SANE, prefix=by_it, classes=CLASSES)
        agent = stack.enter_context(run)
        yield Scene(agent, folder / "config.yaml", clock, places)


@pytest.mark.parametrize("fault", [*FAULTS, *AROUND], ids=lambda fault: fault.name)
def test_a_fault_is_told_as_what_it_is_and_passes(
    fault: Fault, scene: Scene, promtool: str
) -> None:
    """What is said while it lasts; then all is as before in a stated time, and nothing was made up.

    Neither flavour shows a rate that cannot be, no counter falls, no session is left behind, and
    the server beside them is watched as if nothing had happened.
    """
    agent = scene.agent
    wait_until("all is well", partial(is_sound, scene), BACK_WITHIN)
    before, began = agent.page, time.monotonic()
    try:
        fault.inject(scene)
        wait_until("it shows", partial(shows, fault, scene, before), 30)
        noticed = time.monotonic()
        wait_until("it lasts", lambda: time.monotonic() > noticed + fault.lasts, fault.lasts + 5)
        lint(promtool, agent.page.text)
        meanwhile = [page for page in agent.pages if page.at > noticed]
    finally:
        fault.undo(scene)
    wait_until("all is well again", partial(is_sound, scene), fault.back_within)
    after = agent.page
    assert all(is_told(fault, scene, page) for page in meanwhile)
    for place in scene.places if not fault.gone else []:
        counted = {kind for kind, n in increases(place.name, before, after).items() if n}
        assert counted <= fault.kinds | ALWAYS_POSSIBLE, (place.name, counted)
        assert bool(counted & fault.kinds) == bool(fault.kinds), (place.name, counted)
        restarts = [
            page.get("server_restarts_total", target=place.name) for page in (before, after)
        ]
        assert (restarts[1] or 0) - (restarts[0] or 0) == fault.restarts, place.name
    pages = [page for page in agent.pages if page.at > began]
    assert [text for page in pages for text in SANE.complaints(page)] == []
    assert falls(pages, only=CALM if fault.gone else None) == []
    was_undisturbed(pages)
    assert "Traceback" not in agent.log
    assert not [place.name for place in scene.places if place.account.password in agent.log]


def is_sound(scene: Scene) -> bool:
    """Whether each server is up, loaded, offers all it can, and has one session of the agent's."""
    page = scene.agent.page
    return all(
        page.get("up", target=place.name) == 1
        and all((page.get("concurrency", target=place.name, source=s) or 0) > 2 for s in SOURCES)
        and all(page.get("feature_enabled", target=place.name, feature=f) == 1 for f in OFFERED)
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
        if fault.loses and not lost(fault, place.name, page) > lost(fault, place.name, before):
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


def increases(name: str, before: Page, after: Page) -> dict[str, float]:
    """By how much each kind of failure was counted, over all collectors of a target."""
    return {
        str(kind): sum(after.all("collector_failures_total", target=name, kind=kind))
        - sum(before.all("collector_failures_total", target=name, kind=kind))
        for kind in FailureKind
    }


def skipped(name: str, page: Page) -> float:
    """Turns that were missed, over all collectors of a target."""
    return sum(page.all("collector_skipped_total", target=name))


def lost(fault: Fault, name: str, page: Page) -> float:
    """Intervals of which the fault hides what the query classes did."""
    return page.get("query_intervals_lost_total", target=name, kind=fault.loses) or 0.0


def falls(pages: list[Page], only: str | None) -> list[str]:
    """Every counter that has fallen from one page to the next; of `only` that target, if any."""
    return [
        f"{name}{dict(labels)}: {earlier.samples[name, labels]} to {value}"
        for earlier, later in pairwise(pages)
        for (name, labels), value in later.samples.items()
        if name.endswith("_total")
        and (only is None or ("target", only) in labels)
        and value < earlier.samples.get((name, labels), 0)
    ]


def was_undisturbed(pages: list[Page]) -> None:
    """The calm target: up on every page, the same session, no new failure, and samples go on."""
    assert {page.get("up", target=CALM) for page in pages} == {1}
    assert len({page.get("connects_total", target=CALM) for page in pages}) == 1
    counted = increases(CALM, pages[0], pages[-1])
    assert {kind for kind, n in counted.items() if n} <= ALWAYS_POSSIBLE
    stamps = {page.get("last_sample_timestamp_seconds", target=CALM) for page in pages}
    assert len(stamps) > (pages[-1].at - pages[0].at) / 4


def lint(promtool: str, text: str) -> None:
    """Have promtool judge a page."""
    command = [promtool, "check", "metrics"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.live
@pytest.mark.skipif(not is_root(), reason="only root makes network namespaces")
def test_a_host_whose_packets_are_dropped_is_down_until_they_pass(
    templates: Path, tmp_path: Path
) -> None:
    """Not a word comes back, no refusal either: down by time-out, then up with one session each."""
    with ExitStack() as stack:
        name, address = stack.enter_context(other_host())
        ours = address.removesuffix("2") + "1"
        netns = ("ip", "netns", "exec", name)
        anywhere = ("--bind-address=0.0.0.0",)
        servers = [
            stack.enter_context(server_inside(flavour, templates, *netns, options=anywhere))
            for flavour in FLAVOURS
        ]
        targets = [
            target(tmp_path, server, name=server.flavour, over=Endpoint(address, server.port))
            for server in servers
        ]
        agent = stack.enter_context(watching(tmp_path, *targets))
        wait_until("up", lambda: agent.page.all("up") == [1, 1])
        drop = ["ip", "-n", name, "route", "add", "blackhole", f"{ours}/32"]
        subprocess.run(drop, check=True)
        wait_until("down", lambda: agent.page.all("up") == [0, 0])
        page = agent.page
        assert len(page.all("collector_failures_total", kind="timeout", collector="status")) == 2
        subprocess.run([word.replace("add", "del") for word in drop], check=True)
        wait_until("up", lambda: agent.page.all("up") == [1, 1], BACK_WITHIN)
        for server in servers:
            wait_until("one session", partial(has_one_session, server), BACK_WITHIN)


def has_one_session(server: PrivateServer) -> bool:
    """Whether the server has noticed the end of every other."""
    return sessions(server, "headroom") == 1


@pytest.fixture
def failing(private_server: ServerFactory, flavour: Flavour) -> PrivateServer:
    """A server of the test's own, that offers all that can be read."""
    return private_server(flavour, options=[ALL_ON])


def test_a_grant_is_missed_and_found_again_by_itself(
    failing: PrivateServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without the grant the log has the exact GRANT; once it is run the feature is there again.

    Taken away from a session that goes on it is missed too.
    """
    grant = "GRANT SELECT ON performance_schema.* TO 'headroom'@'%'"
    revoke = grant.replace("GRANT", "REVOKE").replace("TO", "FROM")
    account = least_account(failing)
    run_as_root(failing, revoke)
    monkeypatch.setattr(watch, "PREPARE_AGAIN", 1.0)
    file, _ = write_config(tmp_path, target(tmp_path, failing, account))
    with running_here(Agent(load(file))) as agent:
        wait_until("lacks", lambda: lacking(agent) >= set(LACKING))
        run_as_root(failing, grant)
        wait_until("all", lambda: not lacking(agent) & set(LACKING), 20)
        first = len(caplog.records)
        run_as_root(failing, revoke)
        wait_until("lacks again", lambda: lacking(agent) >= set(LACKING))
        assert [work.connects for work in agent.own_state().work] == [1]
        run_as_root(failing, grant)
        wait_until("all again", lambda: not lacking(agent) & set(LACKING), 20)
    said = [r for r in caplog.records[:first] if "may not read performance_schema" in r.message]
    named = [vars(record)["fields"]["feature"] for record in said]
    assert set(LACKING) <= set(named)
    assert len(named) == len(set(named))
    assert {vars(record)["fields"]["remedy"] for record in said} == {grant}


LACKING = ("statements", "statements_in_flight", "threads")  # without the grant


def lacking(agent: Agent) -> set[str]:
    """What the only target does not offer; everything before it was looked at."""
    [snapshot] = agent.snapshots()
    found = snapshot.health.features
    return {feature.name for feature in found if not feature.enabled} if found else {"unknown"}


@contextmanager
def running_here(agent: Agent) -> Iterator[Agent]:
    """The agent within this process."""
    agent.start()
    try:
        yield agent
    finally:
        agent.stop()


def gaps(moments: Iterable[float]) -> list[float]:
    """The times between moments that follow each other."""
    return [after - before for before, after in pairwise(sorted(moments))]


SLOW_SQL = "SELECT SUM(SLEEP(0.02)) FROM performance_schema.setup_instruments"
BROKEN_SQL = "SELECT nothing FROM performance_schema.threads"


def asking(name: str, sql: str) -> CollectorSpec:
    """A collector of this statement."""

    def prepare(connection: Connection) -> Prepared:
        def read() -> dict[str, float]:
            return {"value": float(connection.query(sql)[0][0])}

        return Prepared(read, (Feature(name, enabled=True),))

    return CollectorSpec(name, prepare, 1.0, on_server=True)


def noting(spec: CollectorSpec, moments: list[float]) -> CollectorSpec:
    """The same collector, that notes when it has read."""

    def prepare(connection: Connection) -> Prepared:
        prepared = spec.prepare(connection)
        wrapped = prepared.read
        assert wrapped

        def read() -> dict[str, float]:
            values = dict(wrapped())
            moments.append(time.monotonic())
            return values

        return replace(prepared, read=read)

    return replace(spec, prepare=prepare)


@pytest.mark.parametrize(
    ("sql", "kind", "duration"),
    [(SLOW_SQL, FailureKind.SLOW, 0.4), (BROKEN_SQL, FailureKind.UNREADABLE, 0.0)],
    ids=["slow", "broken"],
)
def test_a_bad_collector_harms_no_other(
    server: PrivateServer,
    sql: str,
    kind: FailureKind,
    duration: float,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Cut off or broken: timed, counted, named once in the log, and the status keeps its grid."""
    file, _ = write_config(
        tmp_path, target(tmp_path, server), collectors={}, fit={"interval": "2s"}
    )
    moments: list[float] = []
    status, statements, *_ = TABLE
    bad = asking("bad", sql)
    config = load(file)
    table = [noting(status, moments), bad, statements]
    watched = Watch(config, config.targets[0], table)
    with ticking(watched):
        wait_until("readings", lambda: len(moments) >= 8)
        bad_health = health(watched, "bad")
    assert mean(gaps(moments)) == pytest.approx(1.0, abs=0.1)
    assert max(gaps(moments)) < 1.6
    assert health(watched, "statements").success
    assert health(watched, "statements").failures == {}
    assert bad_health.success is False
    assert bad_health.failures[kind] >= 2
    assert bad_health.duration == pytest.approx(duration, abs=0.25)
    named = [r for r in caplog.records if vars(r).get("fields", {}).get("collector") == "bad"]
    assert len(named) == 1


def health(watched: Watch, name: str) -> CollectorHealth:
    """How one collector fares."""
    [found] = [c for c in watched.snapshot.health.collectors if c.name == name]
    return found


@contextmanager
def ticking(watched: Watch) -> Iterator[None]:
    """Serve one watch as the agent does."""
    lanes = [Lane("server", [watched.server_tick]), Lane("fit", [watched.fit_tick])]
    for lane in lanes:
        lane.start()
    try:
        yield
    finally:
        for lane in lanes:
            lane.stop()
            lane.join()
        watched.close()
