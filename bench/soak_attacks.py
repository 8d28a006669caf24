"""A soak under attack: lying servers beside honest ones, and attackers of the pages.

    python bench/soak_attacks.py [--minutes 30] [--good 10] [--every 30]

One agent watches ten targets on a real MariaDB and one of each kind of liar that the tests know
(testbed/attacks/false_answers.py), some of whom change between lies; testbed/attacks/web_attacks.py
attacks the pages at the same time, which have a user and can be made to reload. Prints how long the
scrapes of the good targets took, the longest time between two of their samples, memory and threads,
and ends with 1 where a scrape took a second, a sample is missing, memory or threads rise in the
second half, or threads stay after the attacks.
"""

import argparse
import base64
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import bcrypt
import yaml

from agent.demo.private_server import PrivateServer
from collectors.host import process_clock
from testbed.attacks.false_answers import GREETINGS, LIES, LOGINS
from testbed.attacks.lying_server import LyingServer
from testbed.attacks.web_attacks import Tally, attacking
from testbed.real.clients import Clients
from testbed.real.daemon import COMMAND, Page, fetch, target, wait_until, write_config
from testbed.real.server_account import least_account
from testbed.real.server_programs import server_program

SCRAPE_EVERY = 2.0  # seconds
SLOWEST = 1.0  # seconds that a scrape may take
GAP = 5.0  # seconds between two samples, of which there is one a second
RISE = 1.1  # of the medians of memory and threads, from the first half to the second
MAX_MEMORY = 150.0  # MiB
STAYING = 2  # threads more than before the attacks that are no sign of a leak
OVER_WITHIN = 20.0  # seconds in which the last attackers' threads end
SCRAPER, PASSWORD = "prometheus", "right"
LOGIN = "Basic " + base64.b64encode(f"{SCRAPER}:{PASSWORD}".encode()).decode()
TURNS = 5.0  # seconds that a fickle server lies before it is honest for as long
SETTINGS: dict[str, Any] = {
    "collectors": {},
    "fit": {"interval": "5s", "window": "10m"},
    "classes": {"interval": "15s", "window": "5m"},
}


@dataclass
class Seen:
    """Measurements of the agent."""

    scrapes: list[float] = field(default_factory=list)
    sampled: dict[str, float] = field(default_factory=dict)
    gaps: dict[str, float] = field(default_factory=dict)
    """As scrapes show them, so with the time from one scrape to the next, and the answer's age."""
    turns: Counter[str] = field(default_factory=Counter)
    """Turns of each good target's status that were missed or failed, by the agent's own counts."""
    missed: int = 0
    missed_at_once: int = 0
    """Of one target, between two scrapes."""
    memory: list[float] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    cores: float = 0.0
    """The agent's share of one core, on average."""
    failures: list[str] = field(default_factory=list)
    """Scrapes that were not answered."""
    threads_before: int = 0
    threads_after: int = 0

    def add(self, page: Page, process: int) -> None:
        """One more look."""
        self.scrapes.append(page.seconds)
        for (name, labels), at in page.samples.items():
            which = dict(labels).get("target", "")
            if name.endswith("last_sample_timestamp_seconds") and which.startswith("good"):
                before = self.sampled.get(which, at)
                self.gaps[which] = max(self.gaps.get(which, 0.0), at - before)
                self.sampled[which] = at
        for which, count in missed_turns(page).items():
            more = count - self.turns[which] if which in self.turns else 0
            self.missed += more
            self.missed_at_once = max(self.missed_at_once, more)
            self.turns[which] = count
        status = Path(f"/proc/{process}/status").read_text()
        self.memory.append(int(status.split("VmRSS:")[1].split()[0]) / 1024)
        self.threads.append(thread_count(process))


def missed_turns(page: Page) -> Counter[str]:
    """Turns of each good target's status in which it was not read."""
    missed: Counter[str] = Counter()
    for (name, labels), count in page.samples.items():
        of = dict(labels)
        is_status = of.get("collector") == "status" and of["target"].startswith("good")
        if is_status and name.endswith(("collector_skipped_total", "collector_failures_total")):
            missed[of["target"]] += int(count)
    return missed


def thread_count(process: int) -> int:
    """Count its threads."""
    return len(list(Path(f"/proc/{process}/task").iterdir()))


def main() -> None:
    """Print a line now and then, and a table at the end."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--good", type=int, default=10)
    parser.add_argument("--every", type=float, default=30.0, help="seconds between two lines")
    args = parser.parse_args()
    program = server_program("mariadb") or sys.exit("no MariaDB here")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(PrivateServer(program, performance_schema=True))
        stack.enter_context(Clients(server, "SELECT SLEEP(0.05)", 3))
        targets = [*good(folder, server, args.good), *stack.enter_context(liars(folder))]
        file, port = write_config(folder, *targets, **settings(folder))
        log = stack.enter_context((folder / "agent.log").open("wb"))
        command = [str(COMMAND), "run", "--config.file", str(file), "--web.enable-lifecycle"]
        command += ["--web.config.file", str(web_config(folder))]
        agent = stack.enter_context(ended(subprocess.Popen(command, stderr=log)))
        wait_until("the agent answers", lambda: answers(port), 60)
        wait_until("the good targets are up", lambda: up(port) == args.good, 60)
        before = thread_count(agent.pid)
        with attacking(port, LOGIN) as tally:
            seen = watch(agent.pid, port, 60 * args.minutes, args.every)
        seen.threads_before = before
        seen.threads_after = threads_left(agent.pid, before)
        size = (folder / "agent.log").stat().st_size
    print(f"\nanswers to the attacks on the pages: {shown(tally)}")
    sys.exit(report(seen, size, len(targets) - args.good))


def web_config(folder: Path) -> Path:
    """A user, whose password takes as long to check as one in production."""
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(10)).decode()
    file = folder / "web.yml"
    file.write_text(yaml.safe_dump({"basic_auth_users": {SCRAPER: hashed}}))
    return file


def scrape(port: int) -> Page:
    """Ask for the metrics as that user."""
    return fetch(port, Authorization=LOGIN)


def threads_left(process: int, before: int) -> int:
    """Wait until the attackers' threads are gone, or for so long; return how many there are."""
    deadline = time.monotonic() + OVER_WITHIN
    while (count := thread_count(process)) > before and time.monotonic() < deadline:
        time.sleep(0.2)
    return count


def shown(tally: Tally) -> str:
    """Words of a tally."""
    return ", ".join(f"{name}: {count}" for name, count in sorted(tally.items()))


def settings(folder: Path) -> dict[str, Any]:
    """Small windows, so that a soak of half an hour sees them full; and a history."""
    return {**SETTINGS, "history": {"path": str(folder / "history" / "history.db")}}


def good(folder: Path, server: PrivateServer, count: int) -> list[dict[str, Any]]:
    """Honest targets: one server under many names."""
    account = least_account(server)
    script = f"ALTER USER '{account.user}'@'%' WITH MAX_USER_CONNECTIONS {2 * count + 5}"
    with server.connect_as_root() as root, root.cursor() as cursor:
        cursor.execute(script)
    return [target(folder, server, account, name=f"good{n}") for n in range(count)]


@contextmanager
def liars(folder: Path) -> Iterator[list[dict[str, Any]]]:
    """One of each kind, and a fickle one, in a process of their own that gives way to others."""
    ours, theirs = Pipe()
    process = Process(target=lie, args=[theirs], daemon=True)
    process.start()
    password = folder / "liar.password"
    password.write_text("secret")
    login = {"user": "headroom", "password_file": str(password), "timeout": "1s"}
    try:
        yield [
            {"name": f"liar{n}", "host": "127.0.0.1", "port": port, **login}
            for n, port in enumerate(ours.recv())
        ]
    finally:
        ours.send("the end")
        process.join(10)
        process.kill()


def lie(way: "Connection[Any, Any]") -> None:
    """Send the ports, and lie until the end is received."""
    os.nice(10)
    kinds: list[dict[str, Any]] = [
        *({"lies": lies} for lies, _ in LIES.values()),
        *({"greeting": said} for said in GREETINGS.values()),
        *({"login": said} for said in LOGINS.values()),
        *({"variables": {"pid_file": path}} for path in ("/dev/zero", "/proc/kmsg", "/")),
    ]
    stop = threading.Event()
    with ExitStack() as stack:
        servers = [stack.enter_context(LyingServer(**kind)) for kind in kinds]
        fickle = stack.enter_context(LyingServer())
        teller = threading.Thread(target=take_turns, args=[fickle, stop])
        teller.start()
        stack.callback(teller.join)
        stack.callback(stop.set)
        way.send([server.port for server in (*servers, fickle)])
        way.recv()


def take_turns(server: LyingServer, stop: threading.Event) -> None:
    """Another lie and another identity every few seconds, the truth between."""
    dice, turn = random.Random(1), 0
    while not stop.wait(TURNS):
        turn += 1
        server.variables["server_uuid"] = f"{turn:036}"
        server.lies.clear()
        if turn % 2:
            server.lies.update(dice.choice(list(LIES.values()))[0])


@contextmanager
def ended(process: "subprocess.Popen[bytes]") -> Iterator["subprocess.Popen[bytes]"]:
    """The agent; at the end it is asked to stop and has to within 15 s."""
    try:
        yield process
        process.terminate()
        process.wait(15)
    finally:
        process.kill()
        process.wait()


def answers(port: int) -> bool:
    """Return whether there is a page."""
    try:
        return bool(scrape(port).samples)
    except OSError:
        return False


def up(port: int) -> int:
    """Count the good targets that are up."""
    samples = scrape(port).samples.items()
    return sum(
        value == 1.0
        for (name, labels), value in samples
        if name.endswith("headroom_up") and dict(labels)["target"].startswith("good")
    )


def watch(process: int, port: int, seconds: float, every: float) -> Seen:
    """Scrape until the time is over."""
    seen, begun = Seen(), time.monotonic()
    used = process_clock(process) or 0.0
    said = begun
    print("| minute | scrape, at most | RSS, MiB | threads | longest gap |\n|---|---|---|---|---|")
    while (now := time.monotonic()) < begun + seconds:
        try:
            seen.add(scrape(port), process)
        except OSError as error:
            seen.failures.append(f"{error} at minute {(now - begun) / 60:.1f}")
        if now >= said + every:
            said = now
            latest = seen.scrapes[-max(1, int(every / SCRAPE_EVERY)) :]
            print(
                f"| {(now - begun) / 60:.1f} | {max(latest):.2f} s | {seen.memory[-1]:.0f}"
                f" | {seen.threads[-1]} | {max(seen.gaps.values(), default=0.0):.1f} s |",
                flush=True,
            )
        time.sleep(max(0.0, now + SCRAPE_EVERY - time.monotonic()))
    seen.cores = ((process_clock(process) or 0.0) - used) / (time.monotonic() - begun)
    return seen


def rise(values: Sequence[float]) -> float:
    """Median of the second half over that of the first."""
    half = len(values) // 2
    return median(values[half:]) / median(values[:half])


def report(seen: Seen, log_bytes: int, count: int) -> int:
    """Print the results; 1 where one of them is not as it must be."""
    p99 = quantiles(seen.scrapes, n=100, method="inclusive")[98]
    gap = max(seen.gaps.values())
    bound = seen.missed_at_once + 2  # one that is late by less than a turn is not counted
    rows = (
        ("lying servers", f"{count}", True),
        ("scrapes", f"{len(seen.scrapes)}", len(seen.scrapes) > 0),
        ("scrapes that failed", ", ".join(seen.failures) or "none", not seen.failures),
        ("slowest scrape", f"{max(seen.scrapes):.2f} s", max(seen.scrapes) < SLOWEST),
        ("99 % of the scrapes within", f"{p99:.2f} s", p99 < SLOWEST),
        ("samples of good targets that are missing", f"{seen.missed}", len(seen.turns) > 0),
        ("longest gap in a good target's samples, less than", f"{bound} s", bound < GAP),
        ("the same by scrapes, with their distance and age", f"{gap:.1f} s", True),
        ("RSS at most", f"{max(seen.memory):.0f} MiB", max(seen.memory) < MAX_MEMORY),
        ("RSS, second half over the first", f"{rise(seen.memory):.2f}", rise(seen.memory) < RISE),
        ("threads", f"{min(seen.threads)} to {max(seen.threads)}", True),
        (
            "threads, second half over the first",
            f"{rise(seen.threads):.2f}",
            rise(seen.threads) < RISE,
        ),
        (
            "threads before the attacks, and after them",
            f"{seen.threads_before}, {seen.threads_after}",
            seen.threads_after <= seen.threads_before + STAYING,
        ),
        ("the agent's share of one core", f"{100 * seen.cores:.0f} %", True),
        ("log", f"{log_bytes / 1024:.0f} KiB", True),
    )
    print("\n| | | as it must be |\n|---|---|---|")
    for name, value, is_right in rows:
        print(f"| {name} | {value} | {'yes' if is_right else 'NO'} |")
    return 0 if all(is_right for _, _, is_right in rows) else 1


if __name__ == "__main__":
    main()
