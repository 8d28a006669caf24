"""The Debian package built for a test, and a booted Debian with a server to install it on."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from systemd_machine import Machine

from testbed.real.server_programs import CACHE, ROOT

BUILD_SECONDS = 280.0
BUILT_AT = "1700000000"
NAME = "mysql-headroom"
UNIT = f"{NAME}.service"
CONFIG = "/etc/mysql-headroom/config.yaml"
README = ROOT / "README.md"
SOURCES = (
    *("agent", "collectors", "models", "deploy", "docs", "scripts", "pyproject.toml"),
    *("README.md", "CHANGELOG.md", "config.example.yaml", "requirements.lock"),
)
DATABASE = "/var/lib/db"


class Release(NamedTuple):
    """A release of Debian that the package is tested on, and its Python."""

    name: str
    python: str

    @property
    def root(self) -> Path:
        """The root that `scripts/make-host-root` has made."""
        return CACHE / f"{self.name}-host"


RELEASES = (Release("bookworm", "3.11"), Release("trixie", "3.13"))


def build(checkout: Path, release: Release, folder: Path) -> Path:
    """The package of that checkout, in that folder."""
    done = subprocess.run(
        [checkout / "scripts/build-deb", "--python", release.python, "--output", folder],
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        env=os.environ | {"SOURCE_DATE_EPOCH": BUILT_AT, "BUILD_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def copied(folder: Path) -> Path:
    """The sources alone, in another folder."""
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    return folder


def next_version(folder: Path) -> Path:
    """A checkout like this one, of the next version; it has our libraries."""
    copied(folder)
    (folder / ".cache").symlink_to(CACHE)
    file = folder / "agent/__init__.py"
    file.write_text(re.sub(r'__version__ = "[\d.]+', r"\g<0>.1", file.read_text()))
    return folder


def paragraphs(example: str) -> list[str]:
    """The commands of an example in the README, a paragraph each."""
    shown = re.search(
        rf"<!-- example: {example} -->\n```sh\n(.*?)```", README.read_text(), flags=re.DOTALL
    )
    assert shown, example
    return shown[1].strip().split("\n\n")


class Host:
    """A booted Debian with a MariaDB of its own, where an operator is root."""

    def __init__(self, machine: Machine, release: Release) -> None:
        self.machine = machine
        self.release = release

    def shell(self, commands: str, *, check: bool = True) -> str:
        """Run an operator's commands up to the first that fails; their output."""
        return self.machine.run("bash", "-euo", "pipefail", "-c", commands, check=check)

    def install(self, package: Path) -> str:
        """Hand the package over and install it; what that printed."""
        self.machine.put(package, f"/tmp/{package.name}")
        return self.shell(f"dpkg --install /tmp/{package.name}")

    def show(self, key: str) -> str:
        """One property of the unit."""
        return self.machine.run("systemctl", "show", UNIT, "--value", "--property", key).strip()

    def metrics(self, url: str = "http://127.0.0.1:10104/metrics") -> str:
        """The page as Python inside fetches it; empty where there is none."""
        program = (
            f"import urllib.request as u; print(u.urlopen('{url}', timeout=5).read().decode())"
        )
        return self.machine.run("sh", "-c", f'python3 -c "{program}" 2>/dev/null || true')

    def is_up(self) -> bool:
        """Return whether the page says that the server is up."""
        return 'mysql_headroom_up{target="primary"} 1.0' in self.metrics()

    def intervals(self) -> int:
        """Count the rows of the history, as root reads it by the configuration."""
        shown = self.machine.run(NAME, "history", "show", "--config.file", CONFIG)
        rows = [line.split() for line in shown.splitlines() if line.startswith("primary ")]
        return sum(int(row[3].replace(",", "")) for row in rows)

    def journal(self) -> str:
        """All that the unit has logged."""
        return self.machine.run("journalctl", "--unit", UNIT, "--output", "cat", "--no-pager")

    def files(self) -> set[str]:
        """Every path but those that say only that something was installed once or is running."""
        listed = self.shell(
            "find / -xdev -path /proc -prune -o -path /tmp -prune -o -path /run -prune"
            f" -o -path {DATABASE} -prune -o -path /var/log -prune -o -path /var/lib/dpkg -prune"
            " -o -path /var/lib/apt -prune -o -path /var/cache/apt -prune"
            " -o -path /root -prune -o -path /var/tmp -prune -o -print"
        )
        return set(listed.splitlines())

    def start_server(self) -> None:
        """A MariaDB as the distribution has it: on port 3306, root by its socket file."""
        self.shell(
            'printf "127.0.0.1 localhost\\n127.0.1.1 $(hostname)\\n" >/etc/hosts\n'
            "getent passwd mysql || useradd --system mysql\n"
            f"mariadb-install-db --no-defaults --user=mysql --datadir={DATABASE} --skip-test-db\n"
            "systemd-run --unit=mariadb --property=User=mysql --property=Type=notify"
            " --property=RuntimeDirectory=mysqld mariadbd --no-defaults"
            f" --datadir={DATABASE} --bind-address=127.0.0.1 --socket=/run/mysqld/mysqld.sock"
            " --performance-schema=ON --innodb-log-file-size=8M"
        )
