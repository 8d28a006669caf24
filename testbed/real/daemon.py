"""The real daemon for live tests: its metrics as numbers, waits for a state, a bounded load."""

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import psutil
import yaml
from prometheus_client.parser import text_string_to_metric_families

from agent.demo.private_server import PrivateServer, free_port
from collectors.endpoint import Endpoint
from testbed.real.server_account import Account, least_account

PREFIX = "mysql_headroom_"
COMMAND = Path(sys.executable).with_name("mysql-headroom")
SCRAPE_EVERY = 1.0  # seconds, as the shortest interval of a fit here
SCRAPE_TIMEOUT = 10.0  # seconds, as Prometheus has it by default
POLL_EVERY, POLL_SELDOM = 0.25, 2.0  # seconds
PAUSE = 9.0
"""The pause after a check, in multiples of its duration: most checks are scrapes, which a busy
machine takes longer for."""
PATIENCE = 20.0  # seconds, for what takes one or two on a machine at rest
ENDS_WITH_PARENT = ("setpriv", "--pdeathsig", "TERM", "--")
"""Runs a program that is asked to end when the thread that started it dies, even by SIGKILL."""
FIT = {"interval": "1s"}
COLLECTORS = {name: {"interval": "500ms"} for name in ("status", "statements", "threads")}

SeriesName = tuple[str, frozenset[tuple[str, str]]]
"""A name and its labels."""
T = TypeVar("T")
ConfigData = Mapping[str, Any]


def wait_until(what: str, predicate: Callable[[], T], deadline: float = PATIENCE) -> T:
    """Return the first true answer; fail with `what` if there is none within `deadline` seconds."""
    end = time.monotonic() + deadline
    while True:
        begun = time.monotonic()
        answer = predicate()
        if answer:
            return answer
        now = time.monotonic()
        assert now < end, f"not within {deadline:g} s: {what} (last: {answer!r})"
        time.sleep(min(max(POLL_EVERY, PAUSE * (now - begun)), POLL_SELDOM))


@dataclass(frozen=True)
class Page:
    """One response of /metrics: its time, its duration, its text and its samples."""

    at: float
    seconds: float
    text: str
    samples: Mapping[SeriesName, float]

    @property
    def requested_at(self) -> float:
        """The time of the request: what happened before is on the page."""
        return self.at - self.seconds

    def all(self, name: str, **labels: str) -> list[float]:
        """Return every sample of a metric, named without its prefix, that has these labels."""
        metric, wanted = PREFIX + name, labels.items()
        return [
            value
            for (found, has), value in self.samples.items()
            if found == metric and wanted <= has
        ]

    def get(self, name: str, **labels: str) -> float | None:
        """Return the one sample that has these labels; None if there is none."""
        values = self.all(name, **labels)
        assert len(values) < 2, f"{name}{labels} is not one sample"
        return values[0] if values else None


def fetch(port: int, **headers: str) -> Page:
    """Request the metrics from the agent's web server and parse them."""
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers=headers)
    started = time.monotonic()
    with urllib.request.urlopen(asked, timeout=SCRAPE_TIMEOUT) as answer:
        text = answer.read().decode()
    at = time.monotonic()
    return Page(at, at - started, text, parse_page(text))


def parse_page(text: str) -> dict[SeriesName, float]:
    """Parse a page; each series by prometheus_client once, since pages are read repeatedly."""
    lines = (line.rpartition(" ") for line in text.splitlines() if line and line[0] != "#")
    return {series_of(series): float(value) for series, _, value in lines}


@cache
def series_of(text: str) -> SeriesName:
    """Return the name and labels before a value."""
    ((sample,),) = (family.samples for family in text_string_to_metric_families(f"{text} 0\n"))
    return sample.name, frozenset(sample.labels.items())


@dataclass(frozen=True)
class PlausiblePage:
    """The most that a plausible page can show; nothing is ever negative."""

    queries: float = 1000.0
    threads: float = 20.0

    def complaints(self, page: Page) -> list[str]:
        """Return what is impossible on the page, one text each."""
        bounds = {"throughput_queries_per_second": self.queries, "concurrency": self.threads}
        return [
            f"{name} {value}"
            for name, bound in bounds.items()
            for value in page.all(name)
            if not 0 <= value <= bound
        ]


class Daemon:
    """The agent as its users run it; every page read from it is kept."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", port: int, log: Path, targets: int
    ) -> None:
        self.process = process
        self.port = port
        self._targets = targets
        self.pages: list[Page] = []
        self.unanswered: list[str] = []  # scrapes that failed
        self._log = log
        self._stop = threading.Event()
        self._recorder = threading.Thread(target=self._record)

    @property
    def log(self) -> str:
        """Return all that it has logged."""
        return self._log.read_text()

    @property
    def page(self) -> Page:
        """Read /metrics now."""
        return fetch(self.port)

    def get(self, name: str, **labels: str) -> float | None:
        """Return one sample of the present page."""
        return self.page.get(name, **labels)

    def seen(self, name: str, *, since: float = 0.0, **labels: str) -> list[float]:
        """Return one sample on every page since then, without pages that lack it."""
        values = (page.get(name, **labels) for page in self.pages if page.at >= since)
        return [value for value in values if value is not None]

    def start_recording(self) -> None:
        """Read the page repeatedly, until `stop`."""
        wait_until("the agent is ready", self.is_ready)
        self._recorder.start()

    def stop(self) -> None:
        """Ask it to end, and wait; kill it if it does not."""
        self._stop.set()
        if self._recorder.ident is not None:
            self._recorder.join()
        try:
            with suppress(psutil.NoSuchProcess):
                self._itself().terminate()
            self.process.wait(10)
        finally:
            self.process.kill()
            self.process.wait()

    def _itself(self) -> psutil.Process:
        """Return the agent's own process, if another program runs it."""
        outer = psutil.Process(self.process.pid)
        return next(iter(outer.children()), outer)

    def is_ready(self) -> bool:
        """Return whether every target is on its page; fail if it has ended."""
        assert self.process.poll() is None, f"the agent has ended:\n{self.log}"
        try:
            return len(self.page.all("up")) == self._targets
        except OSError:
            return False

    def _record(self) -> None:
        while True:
            try:
                self.pages.append(self.page)
            except OSError as error:
                self.unanswered.append(repr(error))
            if self._stop.wait(SCRAPE_EVERY):
                return


def target(
    folder: Path,
    server: PrivateServer,
    account: Account | None = None,
    *,
    name: str = "db",
    over: Endpoint | None = None,
) -> dict[str, Any]:
    """Return a target's part of the configuration, by default with the least account over TCP."""
    user, password = account or least_account(server)
    (folder / f"{name}.password").write_text(password)
    way = over or Endpoint(port=server.port)
    where = {"socket": way.socket} if way.socket else {"host": way.host, "port": way.port}
    login = {"user": user, "password_file": str(folder / f"{name}.password")}
    return {"name": name, "timeout": "1s", **where, **login}


def write_config(folder: Path, *targets: ConfigData, **options: object) -> tuple[Path, int]:
    """Write a configuration with frequent sampling and fits; return it and the free port."""
    port = free_port()
    settings: dict[str, Any] = {"listen": f"127.0.0.1:{port}", "fit": FIT}
    settings |= {"collectors": COLLECTORS, "targets": list(targets), **options}
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(settings))
    return file, port


@contextmanager
def watching(
    folder: Path,
    *targets: ConfigData,
    sane: PlausiblePage | None = None,
    prefix: Sequence[str] = (),
    **options: object,
) -> Iterator[Daemon]:
    """Run the daemon; at the end it has stopped orderly and no page was implausible."""
    file, port = write_config(folder, *targets, **options)
    log = folder / "agent.log"
    with log.open("wb") as stderr:
        command = [*ENDS_WITH_PARENT, *prefix, str(COMMAND), "run", "--config.file", str(file)]
        agent = Daemon(subprocess.Popen(command, stderr=stderr), port, log, len(targets))
    try:
        agent.start_recording()
        yield agent
    finally:
        agent.stop()
    nonsense = [text for page in agent.pages for text in (sane or PlausiblePage()).complaints(page)]
    assert agent.pages
    assert agent.unanswered == []
    assert not nonsense, nonsense
    assert "a scheduled run failed" not in agent.log, agent.log
    assert agent.process.returncode == 0, agent.log


@contextmanager
def running(
    *command: str | Path, stdout: Any = subprocess.DEVNULL, **environment: str
) -> Iterator[int]:
    """Run a program in the background while the block lasts; yield its PID."""
    words, variables = [*ENDS_WITH_PARENT, *command], {**os.environ, **environment}
    process = subprocess.Popen(words, stdout=stdout, stderr=subprocess.STDOUT, env=variables)
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def is_root() -> bool:
    """Return whether this user may mount and create namespaces; fail if it must be able to."""
    return os.geteuid() == 0 or os.environ.get("CI") == "true"
