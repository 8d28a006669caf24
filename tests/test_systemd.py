"""The unit under a systemd that is really booted, and what it is allowed to do."""

import json
import re
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from systemd_machine import INSTALLED, Machine, why_not

from agent.demo.private_server import free_port
from collectors import COLLECTORS
from testbed.real.daemon import Page, fetch, wait_until
from testbed.real.server_programs import ROOT, missing, server_program

UNIT = ROOT / "deploy/systemd/mysql-headroom.service"
PROCESS_IO = ROOT / "deploy/systemd/host-process-io.conf"
NAME = UNIT.name
CONFIG = "/etc/mysql-headroom/config.yaml"
PASSWORD = "/etc/mysql-headroom/password"
DROP_INS = f"/etc/systemd/system/{NAME}.d"
DROP_IN = f"{DROP_INS}/test.conf"
PROGRAM = INSTALLED / "bin/mysql-headroom"
SILENT = "127.53.53.53"  # where nothing answers
DATA, SOCKET = "/var/lib/db", "/run/db/s"
WATCHDOG = 3  # seconds, instead of the unit's
HANGS_WITHIN = 60.0  # seconds: ten time-outs of one second, 30 for a resolver, a busy machine
SINCE = {"RestartSteps": 254, "RestartMaxDelaySec": 254}  # keys that older systemds leave out
EXPOSURE, EXPOSURE_PROCESS_IO = "1.3", "1.5"  # of 10, as docs/systemd.md says
OFTEN = {spec.name: {"interval": "500ms"} for spec in COLLECTORS}
pytestmark = pytest.mark.live  # it measures in real time


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a program that is there; skip without systemd's own checks."""
    if not shutil.which("systemd-analyze"):
        missing("systemd-analyze", "it is in the package systemd")
    copy = tmp_path / NAME
    copy.write_text(re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", UNIT.read_text()))
    return copy


def analyze(*arguments: str | Path) -> tuple[int, str]:
    """The exit code of systemd-analyze, and its complaints."""
    done = subprocess.run(
        ["systemd-analyze", *arguments, "--no-pager"], capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stderr


def unknown_keys(unit: Path) -> list[str]:
    """The keys that systemd leaves out; it has no other complaint, and none is an error."""
    code, said = analyze("verify", unit)
    found = [
        re.search(r"Unknown key (?:name )?'(\w+)' .*ignoring", line) for line in said.splitlines()
    ]
    assert (code, all(found)) == (0, True), said
    return sorted(match[1] for match in found if match)


def test_systemd_accepts_every_line_of_the_unit(unit: Path) -> None:
    """Only keys of later systemd versions may cause a warning."""
    said = subprocess.run(["systemd-analyze", "--version"], capture_output=True, check=True).stdout
    version = int(said.split()[1])
    later = sorted(key for key, since in SINCE.items() if version < since)
    assert unknown_keys(unit) == later
    unit.write_text(unit.read_text().replace("WatchdogSec", "WachdogSec"))
    assert unknown_keys(unit) == sorted([*later, "WachdogSec"])


def test_the_units_exposure_score_is_as_documented(unit: Path) -> None:
    """Also with the drop-in that loosens it."""
    assert exposure(unit) == EXPOSURE
    unit.write_text(unit.read_text() + PROCESS_IO.read_text())
    assert exposure(unit) == EXPOSURE_PROCESS_IO
    page = (ROOT / "docs/systemd.md").read_text()
    assert f"`systemd-analyze security mysql-headroom` says {EXPOSURE} of 10" in page
    assert f"{EXPOSURE_PROCESS_IO} of 10" in page
    assert f"says {EXPOSURE_PROCESS_IO} instead of {EXPOSURE}" in PROCESS_IO.read_text()


def exposure(unit: Path) -> str:
    """The score of systemd's own judgement: 0 for a service that may do nothing, 10 for any."""
    options = ("security", "--offline=true", "--no-pager")
    done = subprocess.run(
        ["systemd-analyze", *options, unit], capture_output=True, text=True, check=True
    )
    score = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert score, done.stdout
    return score[1]


def test_every_open_hardening_key_is_explained(unit: Path) -> None:
    """What systemd counts against the unit is listed at its end, with a reason."""
    options = ("security", "--offline=true", "--json=short", "--no-pager")
    done = subprocess.run(["systemd-analyze", *options, unit], capture_output=True, check=True)
    counted = [found["name"] for found in json.loads(done.stdout) if float(found["exposure"] or 0)]
    reasons = unit.read_text().partition("# What is left open, and why:")[2]
    for name in counted:
        key, _, values = name.split("/")[0].partition("=")
        for word in [key, *re.findall(r"AF_\w+", values)]:
            assert re.search(rf"(?m)^#.*\b{word}\b", reasons), name
    assert len(counted) >= 5


class Service:
    """The agent as a unit on a machine of its own, with a server that another user runs."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.port = free_port()
        self.db_port = free_port()
        self.password = secrets.token_urlsafe(8)

    @property
    def page(self) -> Page:
        """What /metrics says now."""
        return fetch(self.port)

    @property
    def journal(self) -> str:
        """All that the unit has logged."""
        return self.machine.run("journalctl", "--unit", NAME, "--output", "cat", "--no-pager")

    def systemctl(self, verb: str, unit: str = NAME, *more: str, check: bool = True) -> str:
        """Ask the service manager."""
        return self.machine.run("systemctl", verb, unit, *more, check=check)

    def show(self, key: str) -> str:
        """One property of the unit."""
        return self.systemctl("show", NAME, "--value", "--property", key).strip()

    def install(self) -> None:
        """The unit as it is, its password, and what makes the test quick."""
        self.machine.write(f"/etc/systemd/system/{NAME}", UNIT.read_text())
        self.machine.write(PASSWORD, self.password, mode="600")
        self.machine.write(DROP_IN, f"[Service]\nWatchdogSec={WATCHDOG}\nRestartSec=100ms\n")
        self.machine.run("systemctl", "daemon-reload")

    def configure(self, *more: dict[str, Any], **options: Any) -> None:
        """Watch the server, and others."""
        login = {"user": "headroom", "password_file": PASSWORD, "timeout": "1s"}
        db = {"name": "db", "port": self.db_port, **login}
        targets = [db, *({**login, **target} for target in more)]
        listen = f"127.0.0.1:{self.port}"
        settings = {"listen": listen, "collectors": OFTEN, "fit": {"interval": "1s"}}
        self.machine.write(CONFIG, json.dumps({**settings, "targets": targets, **options}))

    def start_db(self) -> None:
        """A MariaDB of the user mysql, as a unit."""
        account = f"'headroom'@'%' IDENTIFIED BY '{self.password}'"
        script = (
            f"CREATE USER {account};\nGRANT SELECT ON performance_schema.* TO 'headroom'@'%';\n"
        )
        self.machine.write("/etc/db.sql", script)
        self.machine.run("sh", "-c", "getent passwd mysql || useradd --system mysql")
        self.machine.run(
            *("mariadb-install-db", "--no-defaults", "--user=mysql", f"--datadir={DATA}"),
            *("--auth-root-authentication-method=normal", "--skip-test-db"),
        )
        self.machine.run(
            *("systemd-run", "--unit=db", "--property=User=mysql", "--property=Type=notify"),
            *("--property=RuntimeDirectory=db", "mariadbd", "--no-defaults", f"--datadir={DATA}"),
            *("--bind-address=127.0.0.1", f"--port={self.db_port}", f"--socket={SOCKET}"),
            *("--performance-schema=ON", "--innodb-log-file-size=8M", "--init-file=/etc/db.sql"),
        )

    def start(self) -> None:
        """Start it; when that returns, it says that it is ready."""
        self.systemctl("start", check=False)
        assert self.show("ActiveState") == "active", self.journal

    def stop(self) -> float:
        """Stop it; answers how long that took."""
        started = time.monotonic()
        self.systemctl("stop")
        return time.monotonic() - started


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    """A booted machine; skip where there can be none."""
    if reason := why_not():
        missing("systemd that can be booted", reason)
    try:
        booted = Machine().__enter__()
    except OSError as error:
        missing("systemd that can be booted", str(error))
    try:
        yield booted
    finally:
        booted.__exit__(None, None, None)


@pytest.fixture(scope="module")
def installed(machine: Machine) -> Service:
    """The unit installed beside a running server."""
    if not server_program("mariadb"):
        missing("mariadb server")
    service = Service(machine)
    service.install()
    service.start_db()
    return service


@pytest.fixture
def service(installed: Service) -> Iterator[Service]:
    """The unit, configured and not started; stopped at the end."""
    installed.configure()
    yield installed
    installed.systemctl("kill", "db", "--signal=CONT")
    installed.systemctl("stop")
    installed.systemctl("reset-failed", NAME, check=False)


def test_the_service_is_active_once_it_has_read_the_server(service: Service) -> None:
    """The page has a first sample, read with the password from the credential."""
    service.start()
    assert service.page.get("up", target="db") == 1
    assert service.show("ActiveState") == "active"
    status = "watching 1 server: 1 up; no trusted predictions"
    wait_until(status, lambda: service.show("StatusText") == status)


def test_the_journal_is_readable(service: Service) -> None:
    """One event a line, in printable characters, with its level, whatever happens."""
    service.configure({"name": "gone", "port": free_port()}, log={"level": "debug"})
    service.start()
    service.configure(fit={"interval": "soon\x1b[1m\n"})
    service.systemctl("reload")
    wait_until("it is refused", lambda: service.page.get("config_last_reload_successful") == 0)
    life = f"_SYSTEMD_INVOCATION_ID={service.show('InvocationID')}"
    service.systemctl("stop")
    said = service.machine.run("journalctl", life, "--output", "json", "--no-pager")
    lines = [json.loads(line)["MESSAGE"] for line in said.splitlines()]
    assert [line for line in lines if not is_readable(line)] == []
    for event in ("msg=started", "is the server up", "the changed configuration", "msg=stopped"):
        assert any(event in line for line in lines), lines


def is_readable(line: object) -> bool:
    """Whether journald took it for text, and it is one event in logfmt."""
    value = r'("([^"\\]|\\.)*"|[^\s"=]+)'
    event = rf"ts=\S+ level=\w+ msg={value}( \w+={value})*"
    return isinstance(line, str) and line.isprintable() and bool(re.fullmatch(event, line))


def test_root_can_run_check_on_the_same_file(service: Service) -> None:
    """Before the service has run and while it does; no password is written."""
    before = service.machine.run(str(PROGRAM), "check", "--config.file", CONFIG)
    service.start()
    report = service.machine.run(str(PROGRAM), "check", "--config.file", CONFIG)
    assert "connected to MariaDB" in before
    assert "connected to MariaDB" in report
    assert service.password not in before + report + service.journal


def test_without_a_password_the_start_is_skipped(service: Service) -> None:
    """It is no failure, and is not retried."""
    service.machine.run("mv", PASSWORD, f"{PASSWORD}.away")
    try:
        service.systemctl("start")
        assert service.show("ActiveState") == "inactive"
        assert (service.show("ConditionResult"), service.show("NRestarts")) == ("no", "0")
    finally:
        service.machine.run("mv", f"{PASSWORD}.away", PASSWORD)


def test_a_drop_in_enables_process_io(service: Service) -> None:
    """Without it `host_process_io` is absent for a server of another user."""
    feature = {"feature": "host_process_io", "target": "db"}
    service.start()
    wait_until("the host is read", lambda: service.page.get("feature_enabled", **feature) == 0)
    service.stop()
    file = f"{DROP_INS}/{PROCESS_IO.name}"
    service.machine.write(file, PROCESS_IO.read_text())
    service.machine.run("systemctl", "daemon-reload")
    try:
        service.start()
        wait_until("its reads", lambda: service.page.get("feature_enabled", **feature) == 1)
        read = {"collector": "host", "target": "db"}
        wait_until("the host is read", lambda: service.page.get("collector_success", **read) == 1)
    finally:
        service.machine.run("rm", file)
        service.machine.run("systemctl", "daemon-reload")


def test_the_cpu_of_another_users_server_is_read(service: Service) -> None:
    """Hardened as it is, the service reads it and divides it over classes; not the process's IO."""
    service.configure({"name": "socket", "socket": SOCKET}, classes={"interval": "5s"})
    service.start()
    for target in ("db", "socket"):
        enabled = {"feature": "host", "target": target}
        wait_until("the host is read", lambda: service.page.get("feature_enabled", **enabled) == 1)  # noqa: B023
        read = {"collector": "host", "target": target}
        wait_until("the host is read", lambda: service.page.get("collector_success", **read) == 1)  # noqa: B023
        used = {"target": target}
        wait_until("CPU", lambda: sum(service.page.all("query_cpu_seconds_total", **used)) > 0)  # noqa: B023
    denied = [line for line in service.journal.splitlines() if "Permission denied" in line]
    assert all(
        "feature=host_process_io" in line and "host-process-io.conf" in line for line in denied
    )


def test_the_service_starts_while_the_server_is_down(service: Service) -> None:
    """The start is not delayed, and the status names the server and the reason."""
    service.configure({"name": "gone", "port": free_port()})
    service.start()
    assert service.page.get("up", target="gone") == 0
    down = r"watching 2 servers: 1 up, 1 down \(gone: .*is the server up.*\); no trusted"
    wait_until(down, lambda: re.match(down, service.show("StatusText")))


def test_the_status_is_short_enough_with_many_servers_down(service: Service) -> None:
    """Systemd drops a longer message, and would go on showing the former one."""
    gone = [{"name": f"server-{k:02d}-of-the-shop", "port": free_port()} for k in range(60)]
    service.configure(*gone)
    service.start()
    down = r"watching 61 servers: 1 up, 60 down \(server-00-of-the-shop: .*; and 55 more\); no"
    wait_until(down, lambda: re.match(down, service.show("StatusText")))


def test_a_reload_keeps_session_and_window(service: Service) -> None:
    """An added target does not disturb the others; a removed one disappears."""
    service.start()
    load = "throughput_queries_per_second"
    wait_until("an interval", lambda: service.page.get(load, target="db") is not None)
    pid = service.show("MainPID")
    service.configure({"name": "gone", "port": free_port()})
    service.systemctl("reload")
    wait_until("the new target", lambda: service.page.get("up", target="gone") == 0)
    assert service.page.get("connects_total", target="db") == 1
    assert service.page.get(load, target="db") is not None
    service.configure()
    service.systemctl("reload")
    wait_until("it vanishes", lambda: not service.page.all("up", target="gone"))
    assert (service.show("ActiveState"), service.show("MainPID")) == ("active", pid)


def test_a_restart_loses_no_history(service: Service) -> None:
    """Private, in its StateDirectory by default; root may read it at any time."""
    service.start()
    written = {"kind": "intervals"}
    wait_until("a row", lambda: (service.page.get("history_rows", **written) or 0) >= 3)
    service.systemctl("restart")
    file = "/var/lib/mysql-headroom/history.db"
    assert service.machine.run("stat", "-L", "-c", "%a", file).strip() == "600"
    shown = service.machine.run(str(PROGRAM), "history", "show", "--file", file)
    [line] = [line for line in shown.splitlines() if re.match(r"db .* intervals ", line)]
    before = int(line.split()[3].replace(",", ""))
    assert before >= 3
    wait_until("more", lambda: (service.page.get("history_rows", **written) or 0) > before)
    assert service.page.get("history_write_success") == 1
    assert "read back from the history" in service.journal


def test_the_documented_commands_change_the_history(service: Service) -> None:
    """As its own user, also where root may not; the service can use the result."""
    service.start()
    rows = {"kind": "intervals"}
    wait_until("a row", lambda: (service.page.get("history_rows", **rows) or 0) >= 3)
    file = "/var/lib/mysql-headroom/history.db"
    prune = ("history", "prune", "--before", "60d", "--file", file)
    assert "systemd.md" in service.machine.run(str(PROGRAM), *prune, check=False)
    assert "intervals: 0 deleted" in service.machine.run("sh", "-euc", prune_command())
    assert service.machine.run(
        "stat", "-L", "-c", "%a", file, "/var/lib/mysql-headroom/"
    ).split() == ["600", "700"]
    before = service.page.get("history_rows", **rows) or 0
    wait_until("more", lambda: (service.page.get("history_rows", **rows) or 0) > before)
    service.systemctl("restart")
    wait_until("more", lambda: (service.page.get("history_rows", **rows) or 0) > before)
    assert service.page.get("history_write_success") == 1


def prune_command() -> str:
    """The documented command that changes the history of the service."""
    page = (ROOT / "docs/systemd.md").read_text()
    [shown] = re.findall(r"<!-- example: history -->\n```sh\n(.*?)```", page, flags=re.DOTALL)
    return str(shown)


def test_the_documented_command_leaves_the_history_to_the_servers_user(service: Service) -> None:
    """With the drop-in the agent runs as that user, and goes on to write."""
    file = f"{DROP_INS}/{PROCESS_IO.name}"
    service.machine.write(file, PROCESS_IO.read_text())
    service.machine.run("systemctl", "daemon-reload")
    rows = {"kind": "intervals"}
    try:
        service.start()
        wait_until("a row", lambda: (service.page.get("history_rows", **rows) or 0) >= 3)
        assert "intervals: 0 deleted" in service.machine.run("sh", "-euc", prune_command())
        before = service.page.get("history_rows", **rows) or 0
        wait_until("more", lambda: (service.page.get("history_rows", **rows) or 0) > before)
        assert service.page.get("history_write_success") == 1
    finally:
        service.machine.run("rm", file)
        service.machine.run("systemctl", "daemon-reload")


def test_an_invalid_file_is_refused_at_a_reload(service: Service) -> None:
    """The journal has every mistake, the status a word, and the old configuration is in force."""
    service.start()
    service.configure(fit={"interval": "soon", "windows": "1h"})
    service.systemctl("reload")
    wait_until("it is refused", lambda: service.page.get("config_last_reload_successful") == 0)
    for mistake in ("fit.interval", "fit.windows: unknown key"):
        assert re.search(f'level=error msg="the changed configuration .*{mistake}', service.journal)
    wait_until("the status", lambda: "refused" in service.show("StatusText"))
    assert service.page.get("up", target="db") == 1


def test_the_service_stops_in_time_while_the_server_is_frozen(service: Service) -> None:
    """A read in progress is interrupted, and the shutdown is orderly."""
    service.configure({"name": "patient", "port": service.db_port, "timeout": "60s"})
    service.start()
    service.systemctl("kill", "db", "--signal=STOP")
    time.sleep(1.5)
    assert service.stop() < 5
    assert service.show("Result") == "success"
    assert "msg=stopped" in service.journal


def test_the_watchdog_restarts_a_hanging_agent(service: Service) -> None:
    """A frozen server is no hang, a frozen agent is; the journal has where it hung."""
    service.start()
    pid = service.show("MainPID")
    service.systemctl("kill", "db", "--signal=STOP")
    time.sleep(WATCHDOG + 1)
    assert service.show("MainPID") == pid
    service.systemctl("kill", "db", "--signal=CONT")
    service.systemctl("kill", NAME, "--signal=STOP")
    wait_until("another start", lambda: service.show("NRestarts") == "1")
    wait_until("it is active again", lambda: service.show("ActiveState") == "active")
    wait_until("the reason is told", lambda: "Watchdog timeout" in service.journal)
    wait_until("where it hung is told", lambda: "agent/service/main_loop.py" in service.journal)


def test_one_hanging_thread_triggers_the_watchdog(service: Service) -> None:
    """One that waits for a name server; the log names it, and the others run on."""
    service.machine.write(
        "/etc/resolv.conf", f"nameserver {SILENT}\noptions timeout:30 attempts:5\n"
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind((SILENT, 53))
        service.configure({"name": "late", "host": "late.example"})
        service.systemctl("start", NAME, "--no-block")
        status = "hangs: server late;"
        wait_until("it is reported", lambda: status in service.show("StatusText"), HANGS_WITHIN)
        assert service.page.get("up", target="db") == 1
        service.configure()
        wait_until("another start", lambda: service.show("NRestarts") == "1")
        wait_until("it is active again", lambda: service.show("ActiveState") == "active")
    assert 'level=error msg="a worker hangs" worker="server late"' in service.journal
    assert "Watchdog timeout" in service.journal
    wait_until("the place of the hang is logged", lambda: "getaddrinfo" in service.journal)


def test_a_crash_loop_is_limited(service: Service) -> None:
    """A service that cannot start is retried a few times only."""
    with socket.create_server(("127.0.0.1", service.port)):
        service.systemctl("start", check=False)
        wait_until("it has failed", lambda: service.show("ActiveState") == "failed", HANGS_WITHIN)
        assert service.show("NRestarts") == "5"
    assert f"cannot listen on 127.0.0.1:{service.port}" in service.journal


def test_an_invalid_file_at_the_start_is_not_retried(service: Service) -> None:
    """It would be as invalid the next time."""
    service.configure(targets=[])
    service.systemctl("start", check=False)
    assert (service.show("ActiveState"), service.show("NRestarts")) == ("failed", "0")
    assert "targets: must name at least one server" in service.journal
