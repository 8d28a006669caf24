"""The wheel, installed into an environment of its own outside the checkout."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent import __version__
from agent.demo.private_server import PrivateServer, free_port
from agent.support.shipped_files import HOST_FILES
from testbed.real.daemon import fetch, wait_until
from testbed.real.server_account import least_account
from testbed.real.server_programs import ROOT

INSTALL_SECONDS = 300.0  # numpy and scipy, on a busy machine
RUN_SECONDS = 60.0


def pip(*words: str | Path) -> None:
    """Run the pip of our own environment; fails with what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words],
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
    )
    assert done.returncode == 0, done.stderr


class Installed:
    """The program of a clean environment, run from a folder that is no checkout."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.command = folder / "venv/bin/mysql-headroom"
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        self.environment = {**kept, "PYTHONSAFEPATH": "1"}

    def run(self, *words: str | Path) -> "subprocess.CompletedProcess[str]":
        """One command, to its end."""
        return subprocess.run(
            [self.command, *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel of this checkout with the libraries that it requires, and nothing more."""
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder / "dist", ROOT)
    (wheel,) = (folder / "dist").iterdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    inside = ("--python", folder / "venv/bin/python")
    install = (*inside, "install", "--no-compile", "--no-deps")
    pip(*install, "--require-hashes", "-r", ROOT / "requirements.lock")
    pip(*install, wheel)
    pip(*inside, "check")  # nothing that the wheel requires is missing
    return Installed(folder)


@pytest.fixture
def config(installed: Installed, mariadb_server: PrivateServer, tmp_path: Path) -> Path:
    """A configuration for a real server, with a history of its own."""
    user, password = least_account(mariadb_server)
    secret = tmp_path / "password"
    secret.write_text(password)
    file = tmp_path / "config.yaml"
    file.write_text(
        f"listen: 127.0.0.1:{free_port()}\nhistory: {{path: {tmp_path}/history.db}}\n"
        f"targets: [{{name: db, port: {mariadb_server.port}, user: {user},"
        f" password_file: {secret}}}]\n"
    )
    return file


def test_the_wheel_is_imported_and_not_the_checkout(installed: Installed) -> None:
    """The modules come from the environment, and the version is the checkout's."""
    assert installed.run("--version").stdout == f"mysql-headroom {__version__}\n"
    where = subprocess.run(
        [installed.command.with_name("python"), "-c", "import agent; print(agent.__file__)"],
        env=installed.environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert where.startswith(str(installed.folder))


def test_it_writes_the_host_files(installed: Installed, tmp_path: Path) -> None:
    """Unit, grants, alerts and examples are in the wheel, byte for byte."""
    done = installed.run("files", "--write", tmp_path / "host")
    assert (done.returncode, done.stderr) == (0, "")
    for file in HOST_FILES:
        assert (tmp_path / "host" / file.name).read_bytes() == (ROOT / file.source).read_bytes()


def test_it_fits_a_curve(installed: Installed) -> None:
    """The models and their libraries are complete."""
    done = installed.run("fit", ROOT / "docs/examples/white-paper.csv")
    assert (done.returncode, done.stderr) == (0, "")
    assert "peak throughput  11,723 queries/s" in done.stdout


def test_a_plot_without_matplotlib_says_how_to_install_it(
    installed: Installed, tmp_path: Path
) -> None:
    """One line with the command, before a file is read; with the extra's version."""
    for words in (
        ("fit", tmp_path / "none.csv", "--plot", tmp_path / "x.png"),
        ("profile", "--config.file", tmp_path / "none.yaml", "--plot", tmp_path / "x.png"),
    ):
        done = installed.run(*words)
        assert (done.returncode, done.stdout) == (2, "")
        python = installed.command.with_name("python")
        assert done.stderr == (
            "mysql-headroom: --plot needs matplotlib, which is not installed here;"
            f" {python} -m pip install 'matplotlib>=3.8' adds it\n"
        )
    assert 'plot = ["matplotlib>=3.8"]' in (ROOT / "pyproject.toml").read_text()


def test_it_checks_a_real_server(installed: Installed, config: Path) -> None:
    """The drivers are complete."""
    done = installed.run("check", "--config.file", config)
    assert (done.returncode, done.stderr) == (0, "")
    assert "ok       connected to MariaDB" in done.stdout
    assert "ok       digests" in done.stdout


def test_it_watches_a_real_server(installed: Installed, config: Path) -> None:
    """`run` samples the server, serves the page, and ends in order."""
    port = int(config.read_text().split("127.0.0.1:")[1].split()[0])
    process = subprocess.Popen(
        [installed.command, "run", "--config.file", config],
        cwd=installed.folder,
        env=installed.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until("the page", lambda: is_up(port), RUN_SECONDS)
        process.terminate()
        assert process.wait(RUN_SECONDS) == 0
    finally:
        process.kill()
        process.wait()


def is_up(port: int) -> bool:
    """Return whether the page is there and says that the server is up."""
    try:
        return fetch(port).get("up", target="db") == 1
    except OSError:
        return False
