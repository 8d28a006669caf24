"""The course of the demo: a private server, the shop, its load, the agent and its results."""

import io
import logging
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pymysql

from agent.assessment.snapshot import Snapshot
from agent.config.settings import CollectorSettings, Config, FitSettings, Target
from agent.demo.load_generator import LoadGenerator
from agent.demo.page_address import Address, choose_address, listen_on
from agent.demo.private_server import PrivateServer, ServerError
from agent.demo.result_rows import result_rows, summary_sentence
from agent.demo.screen import View, choose_output, table
from agent.demo.server_installation import FLAVOUR_NAMES, how_to_install, servers_to_try
from agent.demo.shop_workload import TABLES
from agent.service.daemon import Agent
from agent.support.safe_output import flush_output, write_output
from models.trust import Trust

TARGET, USER = "demo", "headroom"
SAMPLING = CollectorSettings(interval=0.5)
FIT = FitSettings(interval=2.0, window=600.0, stale_after=15.0)
FIRST_FIT_SECONDS = 20
SERVER_OPTIONS = ("--loose-performance-schema-consumer-events-statements-current=ON",)
POLL_SECONDS = 0.25
MIN_FREE_BYTES = 400_000_000


class Demo:
    """One run of the demo."""

    def __init__(self, listen: str | None, seconds: float | None) -> None:
        self._listen = listen
        self._seconds = seconds
        self._title = "mysql-headroom demo"
        self._first_fit: float | None = None
        self._first_trusted: float | None = None

    def play(self) -> None:
        """Run the whole demo, until the time is over or an exception ends it."""
        _set_up_output()
        address = choose_address(self._listen, say)
        with ExitStack() as stack:
            server = _start_server(stack)
            self._title += f": a private {server.name} under a generated load"
            say("loading tables …")
            password = _create_shop_and_account(server)
            agent, url = stack.enter_context(_running_agent(server, password, address))
            load = stack.enter_context(LoadGenerator(server.socket))
            say(f"page     {url}/")
            say(f"metrics  {url}/metrics")
            say(
                f"starting the load; first fit in about {FIRST_FIT_SECONDS} s, as intervals are of"
                f" {FIT.interval:g} s here, and of 15 s by default …"
            )
            try:
                self._show_results(agent, load, url)
            finally:
                self._print_result(next(iter(agent.snapshots())))

    def _show_results(self, agent: Agent, load: LoadGenerator, url: str) -> None:
        """Show results until the time is over; raises ServerError if the load ends before."""
        with choose_output(sys.stdout) as out:
            next_show = out.every
            while self._seconds is None or load.seconds < self._seconds:
                time.sleep(POLL_SECONDS)
                if (failure := load.failure()) is not None:
                    raise ServerError(f"the load has ended: {failure}")
                (snapshot,) = agent.snapshots()
                self._record_milestones(snapshot, load.seconds)
                if load.seconds >= next_show:
                    next_show += out.every
                    out.show(self._view(snapshot, load, url))

    def _view(self, snapshot: Snapshot, load: LoadGenerator, url: str) -> View:
        return View(
            title=self._title,
            snapshot=snapshot,
            now=time.time(),
            seconds=load.seconds,
            load=load.description(),
            milestones=self._milestones(),
            url=url,
        )

    def _record_milestones(self, snapshot: Snapshot, seconds: float) -> None:
        """Record the times of the first fit and of the first trusted capacity."""
        capacity = snapshot.assessed.capacity
        if capacity is None:
            return
        if capacity.usl is not None and self._first_fit is None:
            self._first_fit = seconds
        if capacity.trust is Trust.TRUSTED and self._first_trusted is None:
            self._first_trusted = seconds

    def _milestones(self) -> str:
        if self._first_fit is None:
            return "no fit yet"
        trusted = (
            ""
            if self._first_trusted is None
            else f", first trusted after {self._first_trusted:.0f} s"
        )
        return f"first fit after {self._first_fit:.0f} s{trusted}"

    def _print_result(self, snapshot: Snapshot) -> None:
        """Print the final table."""
        now = time.time()
        say(
            "",
            summary_sentence(snapshot, now),
            *table([*result_rows(snapshot, now), ("timing", self._milestones())]),
        )


def say(*lines: str) -> None:
    """Print lines and flush them; raises OutputError."""
    write_output(f"{line}\n" for line in lines)
    flush_output()


def _set_up_output() -> None:
    """Suppress log lines, and replace characters that the terminal cannot show."""
    logging.getLogger().addHandler(logging.NullHandler())
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _start_server(stack: ExitStack) -> PrivateServer:
    """Start the first server that can be started; raises the last failure if there is none.

    Each earlier failure is printed as the next server is tried.
    """
    _require_disk_space()
    failure: ServerError | None = None
    for get_program in servers_to_try(say):
        if failure is not None:
            say(f"{failure}; trying another …")
        try:
            program = get_program()
            say(f"starting a private {FLAVOUR_NAMES[program.flavour]} {program.version} …")
            server = PrivateServer(
                program, network=False, unprivileged=True, options=SERVER_OPTIONS
            )
            return stack.enter_context(server)
        except ServerError as error:
            failure = error
    raise failure or ServerError(f"no MySQL or MariaDB server on this machine; {how_to_install()}")


def _require_disk_space() -> None:
    """Raise ServerError if the temporary folder is nearly full."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if free < MIN_FREE_BYTES:
        raise ServerError(
            f"{folder} has {free / 1e6:.0f} MB free, but a private server needs about "
            f"{MIN_FREE_BYTES / 1e6:.0f}: free some space, or set TMPDIR to another folder"
        )


def _create_shop_and_account(server: PrivateServer) -> str:
    """Create the shop and the agent's read-only account; return the account's password."""
    password = secrets.token_urlsafe(16)
    try:
        with server.connect_as_root() as connection, connection.cursor() as cursor:
            for statement in TABLES:
                cursor.execute(statement)
            cursor.execute("CREATE USER %s@'localhost' IDENTIFIED BY %s", (USER, password))
            cursor.execute("GRANT SELECT ON performance_schema.* TO %s@'localhost'", (USER,))
    except pymysql.MySQLError as error:
        raise ServerError(f"cannot load the tables: {error}") from error
    return password


@contextmanager
def _running_agent(
    server: PrivateServer, password: str, address: Address
) -> Iterator[tuple[Agent, str]]:
    """Run the real agent on that server; yields the agent and the URL of its page."""
    file = server.folder / "password"
    file.touch(mode=0o600)
    file.write_text(password, encoding="utf-8")
    agent = Agent(_config(server.socket, file))
    web = listen_on(address, agent.listen, say)
    agent.start()
    try:
        yield agent, address.url(web.server_port)
    finally:
        web.shutdown()
        web.server_close()
        agent.stop()


def _config(socket: str, password_file: Path) -> Config:
    """Return the default settings, but with shorter intervals and a shorter window."""
    target = Target(name=TARGET, socket=socket, user=USER, password_file=password_file)
    collectors = dict.fromkeys(("status", "statements", "host"), SAMPLING)
    return Config(collectors=collectors, fit=FIT, targets=(target,))
