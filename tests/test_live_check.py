"""`mysql-headroom check` on real servers: what works, what is missing, and what mends it."""

import io
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import yaml
from conftest import ServerFactory

from agent.cli import main
from agent.demo.private_server import Flavour, PrivateServer
from collectors.endpoint import Endpoint
from testbed.real.clients import run_as_root
from testbed.real.daemon import COLLECTORS, COMMAND, target, write_config
from testbed.real.server_account import Account, least_account
from testbed.real.server_faults import freeze_server, thaw_server
from testbed.real.server_programs import Release

SWITCH = "UPDATE performance_schema.setup_consumers SET ENABLED = '{}' WHERE NAME = '{}'"
CONSUMERS = ("global_instrumentation", "events_statements_current")
GRANT = "GRANT SELECT ON performance_schema.* TO 'headroom'@'%'"

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.live


@dataclass(frozen=True)
class Packets:
    """What the command printed, and how it ended."""

    code: int
    text: str

    @property
    def remedies(self) -> list[str]:
        """Every remedy, once."""
        return list(dict.fromkeys(re.findall(r"remedy: (.*)", self.text)))

    def says(self, word: str, feature: str) -> bool:
        """Whether the feature is `ok` or `missing`."""
        return re.search(rf"^  {word} +{feature}\b", self.text, re.MULTILINE) is not None


def check(
    folder: Path, server: PrivateServer, account: Account | None = None, **options: object
) -> Packets:
    """Run it on one server, over its socket file, in this process: most of its CPU is the start."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(command(folder, server, account, **options))
    assert not err.getvalue()
    return Packets(code, out.getvalue())


def checked_by_the_program(
    folder: Path, server: PrivateServer, account: Account | None = None
) -> Packets:
    """The same in a process of its own, with which a socket that PyMySQL left open ends."""
    words = [str(COMMAND), *command(folder, server, account)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert not done.stderr
    return Packets(done.returncode, done.stdout)


def command(
    folder: Path, server: PrivateServer, account: Account | None = None, **options: object
) -> list[str]:
    """The words after `mysql-headroom`, of a configuration with that server alone."""
    way = Endpoint(socket=server.socket)
    file, _ = write_config(folder, target(folder, server, account, over=way), **options)
    return ["check", "--config.file", str(file)]


@pytest.fixture(scope="module")
def servers(start_server: Callable[..., PrivateServer]) -> Iterator[Callable[..., PrivateServer]]:
    """A server of each release for all tests of this file, started when it is first asked for."""
    with ExitStack() as stack:
        on = ["--performance-schema-consumer-events-statements-current=ON"]
        yield cache(lambda release: stack.enter_context(start_server(release, options=on)))


@pytest.fixture
def complete(servers: Callable[..., PrivateServer], release: Release) -> PrivateServer:
    """One that offers all that can be read, whatever the test before did to it."""
    server = servers(release)
    thaw_server(server)
    server.start()
    run_as_root(server, *(SWITCH.format("YES", consumer) for consumer in CONSUMERS))
    return server


def test_with_everything_enabled_every_feature_is_ok(
    complete: PrivateServer, tmp_path: Path
) -> None:
    """With the least account and every consumer on nothing is missing."""
    answer = checked_by_the_program(tmp_path, complete)
    assert answer.code == 0
    assert "missing" not in answer.text
    for feature in ("connected to", "status", "statements", "threads", "host"):
        assert answer.says("ok", feature), answer.text


def test_the_readme_shows_the_output_for_mysql(mysql_server: PrivateServer, tmp_path: Path) -> None:
    """Every feature, in its order, with a history as in the packaged configuration."""
    features = re.compile(r"^  (?:ok|missing) +(\w+)(?=:|$)", re.MULTILINE)
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    answer = check(tmp_path, mysql_server, history={"path": str(tmp_path / "history.db")})
    assert features.findall(answer.text) == features.findall(readme)


@pytest.mark.parametrize("consumer", CONSUMERS)
def test_the_printed_update_enables_a_consumer(
    complete: PrivateServer, consumer: str, tmp_path: Path
) -> None:
    """The UPDATE, run as printed, restores the feature."""
    account = least_account(complete)
    run_as_root(complete, SWITCH.format("NO", consumer))
    answer = check(tmp_path, complete, account)
    assert answer.says("missing", "statements_in_flight"), answer.text
    [remedy] = answer.remedies
    assert consumer in answer.text
    mends_both = consumer == "events_statements_current"
    assert answer.says("missing", "digests_in_flight") == mends_both, answer.text
    run_as_root(complete, remedy)
    assert "missing" not in check(tmp_path, complete, account).text


def test_the_printed_grant_enables_a_source(complete: PrivateServer, tmp_path: Path) -> None:
    """Without the grant less can be read; the printed GRANT restores it."""
    account = ungranted(complete)
    answer = check(tmp_path, complete, account)
    assert answer.code == 0
    assert answer.says("missing", "statements"), answer.text
    assert answer.says("missing", "threads"), answer.text
    assert answer.remedies == [GRANT]
    run_as_root(complete, GRANT)
    assert "missing" not in check(tmp_path, complete, account).text


def ungranted(server: PrivateServer) -> Account:
    """The account, as it is before it is granted anything."""
    account = least_account(server)
    run_as_root(server, "REVOKE SELECT ON performance_schema.* FROM 'headroom'@'%'")
    return account


@pytest.mark.parametrize("user", ["o'brien", 'a"b', "back\\slash", "it's `all` of \\'\"", "a@b"])
def test_the_printed_grant_is_for_an_account_of_any_name(
    complete: PrivateServer, user: str, tmp_path: Path
) -> None:
    """It is run as printed, in sessions that read a backslash as itself, too."""
    for mode in ("", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES"):
        account = Account(user, "secret-1")
        with closing(complete.connect_as_root()) as root, root.cursor() as cursor:
            cursor.execute("DROP USER IF EXISTS %s", (user,))
            cursor.execute("CREATE USER %s IDENTIFIED BY %s", account)
            [remedy] = check(tmp_path, complete, account).remedies
            cursor.execute("SET SESSION sql_mode = %s", (mode,))
            cursor.execute(remedy)
        answer = check(tmp_path, complete, account)
        assert (answer.code, answer.remedies) == (0, []), answer.text
    run_as_root(complete, f"DROP USER {remedy.partition(' TO ')[2]}")


def test_performance_schema_off_is_reported_with_the_remedy(
    mariadb_without_schema: PrivateServer, private_server: ServerFactory, tmp_path: Path
) -> None:
    """The options for the my.cnf, after which nothing is missing; it is no failure."""
    answer = check(tmp_path, mariadb_without_schema)
    assert answer.code == 0
    assert answer.says("missing", "statements")
    assert answer.says("ok", "status")
    [remedy] = {text for text in answer.remedies if "performance_schema = ON" in text}
    assert remedy.endswith(" under [mysqld] in the server's my.cnf and restart it")
    given = re.findall(r"(performance_\w+) = ('.*?'|ON)", remedy)
    options = [f"--{name}={value.strip(chr(39))}" for name, value in given]
    server = private_server("mariadb", performance_schema=False, options=options)
    for name in ("statements", "statements_in_flight", "digests"):
        assert check(tmp_path, server).says("ok", name), name


def test_a_named_device_that_does_not_exist_is_reported(
    server: PrivateServer, tmp_path: Path
) -> None:
    """The host is read without it; a virtual one is read like others."""
    made_up = {"lo": {"bandwidth": "1Gbit"}}
    answer = check(tmp_path, server, resources={"interfaces": made_up})
    assert answer.says("ok", "host_named_devices"), answer.text
    named = {"interfaces": {**made_up, "none0": {}}, "disks": {"none1": {"operations": 9}}}
    answer = check(tmp_path, server, resources=named)
    assert (answer.code, answer.says("ok", "host")) == (0, True)
    assert answer.says("missing", "host_named_devices")
    assert "not on this host: disk 'none1', interface 'none0'\n" in answer.text


def stop(server: PrivateServer) -> None:
    """Nobody listens."""
    server.kill()


def lock_out(server: PrivateServer) -> None:
    """The account has another password."""
    run_as_root(server, "ALTER USER 'headroom'@'%' IDENTIFIED BY 'another-1'")


@pytest.mark.parametrize(
    ("harm", "said"),
    [(stop, "is the server up"), (freeze_server, "timed out"), (lock_out, "grants.sql")],
    ids=["down", "frozen", "locked out"],
)
def test_an_unusable_server_fails_the_check(
    complete: PrivateServer,
    harm: Callable[[PrivateServer], None],
    said: str,
    tmp_path: Path,
) -> None:
    """Down, frozen or locked out: one line without the password, and exit code 1."""
    account = least_account(complete)
    harm(complete)
    answer = checked_by_the_program(tmp_path, complete, account)
    assert answer.code == 1
    assert "FAILED" in answer.text
    assert said in answer.text
    assert account.password not in answer.text


def test_the_source_of_the_cpu_is_printed(mysql_server: PrivateServer, tmp_path: Path) -> None:
    """Without a host: the statements with vcpus, and the remedy without."""
    no_host = {**COLLECTORS, "host": {"enabled": False}}
    without = check(tmp_path, mysql_server, collectors=no_host)
    assert without.says("missing", "cpu"), without.text
    assert any("vcpus" in remedy for remedy in without.remedies)
    answer = check(tmp_path, mysql_server, resources={"vcpus": 4}, collectors=no_host)
    assert "  ok       cpu: the CPU time of statements, of 4 processors\n" in answer.text, (
        answer.text
    )


def test_the_compose_files_servers_offer_every_feature(
    private_server: ServerFactory, flavour: Flavour, tmp_path: Path
) -> None:
    """MySQL and MariaDB, whichever are off by default."""
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    server = private_server(
        flavour, performance_schema=False, options=compose["services"]["mysql"]["command"]
    )
    answer = check(tmp_path, server)
    assert answer.code == 0
    lacking = re.findall(r"^  missing +(\w+)", answer.text, re.MULTILINE)
    assert set(lacking) <= {"host_quota", "host_process_io"}, answer.text
