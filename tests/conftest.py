"""Real servers for the tests, and a check that no test leaves one behind."""

import gc
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest
from file_scheduling import TwoEndsScheduling, place
from fuzzing import IS_LONG
from hypothesis import settings
from priority import Background
from web_clients import Authority

from agent.demo.private_server import FOLDER_PREFIX, Flavour, PrivateServer
from testbed.real.bare_root import BareRoot
from testbed.real.server_programs import CACHE, RELEASES, Release, missing, program, server_program

FLAVOURS: tuple[Flavour, ...] = ("mysql", "mariadb")


def one_in_every_run(name: Flavour) -> list[Any]:
    """Parametrise a test of a minute by both flavours: one in every run, both with `--long`."""
    return [f if f == name else pytest.param(f, marks=pytest.mark.long) for f in FLAVOURS]


LIVE_FIXTURES = {
    "mysql_server",
    "mariadb_server",
    "later_mariadb_server",
    "mariadb_without_schema",
    "server",
    "private_server",
    "prometheus",
}
LIVE_RERUNS = 3  # real servers on a busy machine; the summary names whoever needed it
BACKGROUND = pytest.StashKey[Background]()
MARK = "HEADROOM_TEST_SESSION"
LAST_LINES, MAX_LINE = 25, 500  # of why a test was run again
GONE_SECONDS = 5.0


class ServerFactory(Protocol):
    """Starts a private server that lives as long as the test."""

    def __call__(
        self,
        release: Release,
        *,
        performance_schema: bool = True,
        log_bin: bool = False,
        options: Sequence[str] = (),
    ) -> PrivateServer: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--long` has the tests of repeated faults repeat them as often as they can bear."""
    parser.addoption(
        "--long", action="store_true", help="repeat faults hundreds of times; run tests marked long"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Have modules know of `--long` that are imported after this; no example has a time limit.

    On a busy machine an example may take any time: Hypothesis would report 0.2 s as a failure.
    """
    settings.register_profile("without-deadline", deadline=None)
    settings.load_profile("without-deadline")
    if config.getoption("--long"):
        os.environ[IS_LONG] = "1"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test that asks for a real server is a live one, and may be run up to three times more.

    Their files take longest, so they come first: no worker is left with one of them at the end,
    and those that begin there compute meanwhile.
    Those that are marked `long` are for `--long`.
    """
    if not config.getoption("--long"):
        long = [item for item in items if item.get_closest_marker("long")]
        items[:] = [item for item in items if item not in long]
        config.hook.pytest_deselected(items=long)
    slow = set()
    for item in items:
        if LIVE_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("live")
        if item.get_closest_marker("live"):
            item.add_marker(pytest.mark.flaky(reruns=LIVE_RERUNS))
            slow.add(item.path)
    items.sort(key=lambda item: (item.path not in slow, place(item.path.name)))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Have the tests, which all stay, not looked through for rubbish: neither now nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> TwoEndsScheduling | None:
    """Some processes compute while others wait for servers."""
    return TwoEndsScheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Live tests measure in real time, unless they are `patient`, and run ahead of the others."""
    if item.get_closest_marker("live") and not item.get_closest_marker("patient"):
        return (yield)
    if BACKGROUND not in item.config.stash:
        item.config.stash[BACKGROUND] = Background()
    background = item.config.stash[BACKGROUND]
    background.enter()
    try:
        return (yield)
    finally:
        background.leave()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """The group of tests that yield goes away with them."""
    if BACKGROUND in session.config.stash:
        session.config.stash[BACKGROUND].remove()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Why each live test that was run again had failed before, whether it passed then or not."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.section(f"failed at first: {report.nodeid}", sep="-")
        lines = report.longreprtext.splitlines()
        terminalreporter.write_line("\n".join(line[:MAX_LINE] for line in lines[-LAST_LINES:]))


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Check that no process of the tests is alive, and no folder of a server is left."""
    tmp_path_factory.getbasetemp()  # pytest keeps its own where it was
    folder = Path(tempfile.mkdtemp(prefix="hr-"))
    folder.chmod(0o711)  # a server that runs as another user has its folder in there
    token = f"{MARK}={folder}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARK, str(folder))
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", str(folder))
        yield
    alive = _wait_for_end(lambda: _processes_with(token))
    folders = [path.name for path in folder.glob(f"{FOLDER_PREFIX}*")]
    shutil.rmtree(folder, ignore_errors=True)
    assert not alive, f"still running: {alive}"
    assert not folders, f"left behind: {folders}"


def _wait_for_end(processes: Callable[[], list[str]]) -> list[str]:
    deadline = time.monotonic() + GONE_SECONDS
    while (alive := processes()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return alive


def _processes_with(token: str) -> list[str]:
    """Return the processes that inherited this setting, orphans too."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.fsencode(token) in (process / "environ").read_bytes().split(b"\0"):
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found.append(f"{process.name} {words}")
        except OSError:  # gone, or not ours to read
            continue
    return [p for p in found if int(p.split()[0]) != os.getpid() and "resource_tracker" not in p]


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Share new data directories, so that all processes of a run create each once."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "templates"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def certificate() -> Iterator[tuple[str, ...]]:
    """A server's options for a certificate, which any user can read."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        certificate, key = Authority(folder).issue("server")
        yield f"--ssl-cert={certificate}", f"--ssl-key={key}"


@pytest.fixture(scope="session")
def start_server(templates: Path, certificate: tuple[str, ...]) -> Callable[..., PrivateServer]:
    """Prepare a server of that release, to be entered; skip where there is no such program.

    Without a certificate MariaDB 11.8 makes one at each start, whose key takes a second to compute.
    """

    def prepare(release: Release, *, options: Sequence[str] = (), **more: object) -> PrivateServer:
        found = server_program(release) or missing(f"{release} server")
        all_options = [*(certificate if release == "mariadb-11.8" else ()), *options]
        return PrivateServer(
            found,
            template=templates / release,
            options=all_options,
            **more,  # type: ignore[arg-type]
        )

    return prepare


@pytest.fixture(scope="session")
def mysql_server(start_server: Callable[..., PrivateServer]) -> Iterator[PrivateServer]:
    """A MySQL that all tests share; a test that harms its server takes private_server."""
    with start_server("mysql") as server:
        yield server


@pytest.fixture(scope="session")
def mariadb_server(start_server: Callable[..., PrivateServer]) -> Iterator[PrivateServer]:
    """A MariaDB with performance_schema that all tests share."""
    with start_server("mariadb") as server:
        yield server


@pytest.fixture(scope="session")
def later_mariadb_server(start_server: Callable[..., PrivateServer]) -> Iterator[PrivateServer]:
    """Debian 13's MariaDB with performance_schema that all tests share."""
    with start_server("mariadb-11.8") as server:
        yield server


@pytest.fixture(scope="session")
def mariadb_without_schema(start_server: Callable[..., PrivateServer]) -> Iterator[PrivateServer]:
    """A MariaDB as it comes, without performance_schema, that all tests share."""
    with start_server("mariadb", performance_schema=False) as server:
        yield server


@pytest.fixture
def bare() -> Iterator[BareRoot]:
    """A bookworm as debootstrap made it, with our checkout."""
    with BareRoot("bookworm") as root:
        root.check_out()
        yield root


@pytest.fixture(params=RELEASES)
def server(request: pytest.FixtureRequest) -> PrivateServer:
    """The shared MySQL, then each shared MariaDB."""
    name = request.param.replace("mariadb-11.8", "later_mariadb")
    shared: PrivateServer = request.getfixturevalue(f"{name}_server")
    return shared


@pytest.fixture(params=FLAVOURS)
def flavour(request: pytest.FixtureRequest) -> Flavour:
    """Each flavour in turn, for tests that start their own server."""
    name: Flavour = request.param
    return name


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> Release:
    """Each release in turn, for tests that start their own server and may find releases differ."""
    name: Release = request.param
    return name


@pytest.fixture
def private_server(start_server: Callable[..., PrivateServer]) -> Iterator[ServerFactory]:
    """Start servers of the test's own, to restart, kill and freeze."""
    with ExitStack() as servers:
        yield lambda release, **options: servers.enter_context(start_server(release, **options))


@pytest.fixture(scope="session")
def is_long(pytestconfig: pytest.Config) -> bool:
    """Say whether the run was asked for many repetitions."""
    return bool(pytestconfig.getoption("--long"))


@pytest.fixture(scope="session")
def prometheus() -> str:
    """The path of prometheus."""
    return program("prometheus", last=CACHE / "prometheus/usr/bin")


@pytest.fixture(scope="session")
def promtool() -> str:
    """The path of promtool."""
    return program("promtool", last=CACHE / "prometheus/usr/bin")


@pytest.fixture(scope="session")
def sysbench() -> str:
    """The path of sysbench."""
    return program("sysbench")


@pytest.fixture(scope="session")
def compose() -> str:
    """The path of Docker compose v2, ours first; `config` needs no daemon."""
    return program("docker-compose", first=CACHE / "compose/usr/libexec/docker/cli-plugins")
