"""The Debian package on a booted Debian: the README's order, an upgrade, a removal, a purge."""

import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from debian_package import RELEASES, UNIT, Host, Release, build, copied, next_version, paragraphs
from lock_files import pinned
from systemd_machine import Machine, why_not

from agent import __version__
from agent.demo.private_server import free_port
from testbed.real.daemon import wait_until
from testbed.real.server_programs import CACHE, ROOT, missing

STRICT = "umask 077\n"  # of root on hosts that were hardened
PATIENCE = 90.0  # seconds for what takes a few on a machine at rest
SYSTEMDS_OWN = {"/var/lib/private", "/var/lib/systemd/linger"}
OURS, THEIRS = (f"10.212.{os.getpid() % 256}.{end}" for end in (1, 2))

pytestmark = [pytest.mark.live, pytest.mark.patient, pytest.mark.timeout(600)]
OLDER, LATEST = RELEASES
latest_in_every_run = pytest.mark.parametrize(
    "host",
    [pytest.param(OLDER, marks=pytest.mark.long), LATEST],
    indirect=True,
    ids=lambda release: release.name,
)


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout of the next version."""
    return next_version(tmp_path_factory.mktemp("later"))


@pytest.fixture(scope="module", params=RELEASES, ids=lambda release: release.name)
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    """A booted Debian with a server; skip where there can be none."""
    release: Release = request.param
    if reason := why_not():
        missing("systemd that can be booted", reason)
    if not release.root.exists():
        missing(f"{release.name} with systemd")
    with Machine(release.root) as machine:
        host = Host(machine, release)
        host.start_server()
        machine.connect(OURS, THEIRS)
        yield host


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Release], Path]:
    """The package of this checkout for a release, built when it is first asked for."""

    @cache
    def built(release: Release) -> Path:
        return build(ROOT, release, tmp_path_factory.mktemp("package"))

    return built


@pytest.fixture(scope="module")
def package(host: Host, packages: Callable[[Release], Path]) -> Path:
    """The package of this checkout for that host."""
    return packages(host.release)


@pytest.fixture(scope="module")
def bare(host: Host) -> set[str]:
    """Every path of the host before the package came."""
    return host.files()


@pytest.fixture(scope="module")
def fresh(host: Host, package: Path, bare: set[str]) -> str:
    """The first paragraph of the README's order: the package is installed; what that printed."""
    assert bare
    install, *_ = paragraphs("install")
    host.machine.put(package, f"/root/{package.name}")
    return host.shell(f"cd /root\n{install}")


@pytest.fixture(scope="module")
def running(host: Host, fresh: str) -> str:
    """The other paragraphs, each as it stands; what all of them printed."""
    assert fresh
    return "".join(host.shell(STRICT + commands) for commands in paragraphs("install")[1:])


def test_a_new_package_waits_for_its_configuration(host: Host, fresh: str) -> None:
    """It is enabled but not started, without a failure; one line says what to do next."""
    assert host.show("UnitFileState") == "enabled"
    assert (host.show("ActiveState"), host.show("Result")) == ("inactive", "success")
    assert host.show("ConditionResult") == "no"
    messages = [line for line in fresh.splitlines() if line.startswith("mysql-headroom: ")]
    assert len(messages) == 1
    assert "/etc/mysql-headroom/password" in messages[0]


def test_the_readmes_commands_end_with_a_running_service(host: Host, running: str) -> None:
    """Checked before the first start, then up and enabled."""
    before, connected, _ = running.partition("ok       connected to MariaDB")
    assert connected, before
    assert "FAILED" not in running
    wait_until("the server is up", host.is_up, PATIENCE)
    assert (host.show("ActiveState"), host.show("UnitFileState")) == ("active", "enabled")
    assert host.show("FragmentPath").endswith(f"/lib/systemd/system/{UNIT}")
    shown = host.shell("stat -c '%U %a' /etc/mysql-headroom/password")
    assert shown.strip() == "root 600"


@latest_in_every_run
@pytest.mark.usefixtures("running")
def test_an_upgrade_keeps_configuration_and_history(
    host: Host, later: Path, tmp_path: Path
) -> None:
    """The next version runs in its place, with the edited file and the stored rows."""
    edit = "sed -i 's/^listen:/fit: {interval: 2s}\\nlisten:/' /etc/mysql-headroom/config.yaml"
    host.shell(f"{edit}; systemctl reload {UNIT}")
    wait_until("rows", lambda: host.intervals() >= 3, PATIENCE)
    edited = host.shell("cat /etc/mysql-headroom/config.yaml")
    before = host.intervals()
    assert f'version="{__version__}"' in host.metrics()
    host.install(build(later, host.release, tmp_path))
    wait_until("the server is up", host.is_up, PATIENCE)
    assert f'version="{__version__}.1"' in host.metrics()
    assert host.shell("cat /etc/mysql-headroom/config.yaml") == edited
    assert host.intervals() >= before
    assert "read back from the history" in host.journal()


@latest_in_every_run
@pytest.mark.usefixtures("running")
def test_after_an_upgrade_that_fails_the_former_version_runs(host: Host, package: Path) -> None:
    """A full disk or another package's file stops dpkg while it unpacks, with the agent stopped."""
    wait_until("the server is up", host.is_up, PATIENCE)
    host.machine.put(package, "/tmp/ours.deb")
    host.shell(
        "dpkg-deb --raw-extract /tmp/ours.deb /tmp/next\n"
        "sed -i 's/^Version: .*/Version: 9.0-1/' /tmp/next/DEBIAN/control\n"
        "touch /tmp/next/usr/bin/openssl\n"
        "dpkg-deb -Znone --build /tmp/next /tmp/next.deb"
    )
    assert "also in package openssl" in host.shell("dpkg --install /tmp/next.deb", check=False)
    assert host.show("ActiveState") == "active"
    wait_until("the server is up", host.is_up, PATIENCE)


@latest_in_every_run
@pytest.mark.usefixtures("running")
def test_a_prometheus_on_another_host_scrapes_it(
    host: Host, prometheus: str, tmp_path: Path
) -> None:
    """The README's second example: over TLS, with a user, and no other user is admitted."""
    for commands in paragraphs("remote"):
        host.shell(STRICT + commands)
    for name in ("web.crt", "prometheus.password"):
        (tmp_path / name).write_text(host.shell(f"cat /etc/mysql-headroom/{name}"))
    name = host.shell("hostname").strip()
    (tmp_path / "prometheus.yml").write_text(scrape_config(tmp_path, name))
    port = free_port()
    server = subprocess.Popen(
        [
            *(prometheus, f"--config.file={tmp_path}/prometheus.yml"),
            *(f"--storage.tsdb.path={tmp_path}/data", f"--web.listen-address=127.0.0.1:{port}"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until("a scrape", lambda: scraped(port) == "1", PATIENCE)
    finally:
        server.terminate()
        server.wait(30)
    assert "401" in host.shell(curl_status(f"https://{THEIRS}:10104/metrics"))


def scrape_config(folder: Path, name: str) -> str:
    """deploy/prometheus/scrape.example.yml, with the lines for another host."""
    text = (ROOT / "deploy/prometheus/scrape.example.yml").read_text()
    changed = re.sub(r"(?m)^    # (?=scheme|tls_config|basic_auth)", "    ", text)
    assert changed.count("\n    # ") < text.count("\n    # ")
    changed = changed.replace("server_name: db1", f"server_name: {name}")
    changed = changed.replace("scrape_interval: 15s", "scrape_interval: 1s")
    changed = changed.replace("mysql-headroom.rules.yml", f"{ROOT}/deploy/prometheus/*.rules.yml")
    assert str(folder) not in changed  # paths are relative to the file
    return changed.replace("127.0.0.1:10104", f"{THEIRS}:10104")


def scraped(port: int) -> str | None:
    """The value of `up` in Prometheus; None while there is none."""
    url = f"http://127.0.0.1:{port}/api/v1/query?query=mysql_headroom_up"
    try:
        found = json.load(urllib.request.urlopen(url, timeout=5))["data"]["result"]
    except (OSError, ValueError):
        return None
    return str(found[0]["value"][1]) if found else None


def curl_status(url: str) -> str:
    """A command that prints the status of an answer to a client without a user."""
    return (
        'python3 -c "import ssl, urllib.request as u, urllib.error as e\n'
        "try: print(u.urlopen('"
        + url
        + "', timeout=5, context=ssl._create_unverified_context()).status)\n"
        'except e.HTTPError as error: print(error.code)"'
    )


@pytest.mark.usefixtures("running")
def test_a_removal_stops_it_and_a_purge_leaves_nothing(host: Host, bare: set[str]) -> None:
    """After a removal configuration and history stay; after a purge no new path is left."""
    host.shell("dpkg --remove mysql-headroom")
    assert host.show("ActiveState") == "inactive"
    assert "mysql-headroom run" not in host.shell("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    kept = host.files() - bare
    assert "/etc/mysql-headroom/config.yaml" in kept
    assert not {path for path in kept if path.startswith(("/opt", "/usr"))}
    host.shell("dpkg --purge mysql-headroom")
    assert host.files() - bare <= SYSTEMDS_OWN
    assert host.show("LoadState") == "not-found"


@latest_in_every_run
def test_a_unit_that_is_masked_beforehand_is_not_started(host: Host, package: Path) -> None:
    """A mask is how an operator keeps an installation from starting; it is no unit of its own."""
    host.shell(f"systemctl mask {UNIT}")
    host.machine.write("/etc/mysql-headroom/password", "x", mode="600")
    try:
        host.install(package)
        assert (host.show("UnitFileState"), host.show("ActiveState")) == ("masked", "inactive")
    finally:
        host.shell(f"systemctl unmask {UNIT}; dpkg --purge mysql-headroom")


def test_two_builds_are_identical(
    tmp_path: Path, packages: Callable[[Release], Path], *, is_long: bool
) -> None:
    """Also in another folder, at another time; with `--long` also with libraries fetched again."""
    release = RELEASES[0]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if not is_long:
        (elsewhere / ".cache").symlink_to(CACHE)
    one = packages(release)
    two = build(copied(elsewhere), release, tmp_path / "two")
    assert one.name == two.name
    assert one.read_bytes() == two.read_bytes()
    listed = subprocess.run(["dpkg-deb", "--contents", one], capture_output=True, check=True).stdout
    assert b".pyc" not in listed
    assert b"/tests/" not in listed
    bill = json.loads(file_in(one, "./usr/share/doc/mysql-headroom/sbom.cdx.json"))
    named = {(found["name"], found["version"]) for found in bill["components"]}
    assert named == set(pinned(ROOT / "requirements.lock").items())


def file_in(package: Path, name: str) -> bytes:
    """One file of a package, as it would be installed."""
    tar = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=True)
    command = ("tar", "--extract", "--to-stdout", name)
    return subprocess.run(command, input=tar.stdout, capture_output=True, check=True).stdout
