"""Find a server's program on this machine, or install one from the distribution's packages."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Flavour = Literal["mysql", "mariadb"]

FLAVOUR_NAMES: dict[Flavour, str] = {"mysql": "MySQL", "mariadb": "MariaDB"}
EXECUTABLES = ("mysqld", "mariadbd")
SERVER_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/local/mysql/bin")
PACKAGES = (  # the first that the distribution has
    ("mysql-server-core",),
    ("mysql-server-core-8.4",),
    ("mysql-server-core-8.0",),
    ("mariadb-server-core", "mariadb-client-core"),
    ("mariadb-server-core-10.6", "mariadb-client-core-10.6"),
)
ADVICE = "install mysql-server-core or mariadb-server-core (no service is needed)"


class ServerError(Exception):
    """A private server cannot be had, started or stopped; the message says why."""


@dataclass(frozen=True)
class Program:
    """An installed server: how to run it, and what it is."""

    flavour: Flavour
    version: str
    path: Path
    tree: Path | None = None
    """The root of packages that were unpacked there rather than installed."""

    def command(self) -> list[str]:
        """Return what to put before the server's options."""
        return _command(self.path, self.tree)


def find_server(flavour: Flavour | None = None, tree: Path | None = None) -> Program | None:
    """Look for a server of that flavour, or of any, in the tree or else on this machine."""
    found = (_identify(path, tree) for path in _candidates(tree))
    return next((p for p in found if p and flavour in (None, p.flavour)), None)


def install_server() -> Program:
    """Install a server from the distribution's packages, starting no service and asking nothing."""
    apt = shutil.which("apt-get")
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if apt is None or (root and not _succeeds([*root, "true"])):
        raise ServerError(f"no MySQL or MariaDB server on this machine: {ADVICE}")
    names = _available_packages() or (_run([*root, apt, "-q", "update"]), _available_packages())[1]
    if not names:
        raise ServerError(f"this distribution's packages have no server by a known name: {ADVICE}")
    environment = ["env", "DEBIAN_FRONTEND=noninteractive"]
    options = ["-q", "-y", "--no-install-recommends", "--no-remove"]
    done = _run([*root, *environment, apt, *options, "install", *names])
    program = find_server()
    if program is None:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise ServerError(f"cannot install {' '.join(names)}: {lines[-1]}; {ADVICE}")
    return program


def _candidates(tree: Path | None) -> list[Path]:
    if tree is not None:
        return [tree / "usr/sbin" / name for name in EXECUTABLES]
    search = os.pathsep.join([os.environ.get("PATH", os.defpath), *SERVER_FOLDERS])
    return [
        Path(path).resolve() for name in EXECUTABLES if (path := shutil.which(name, path=search))
    ]


def _identify(path: Path, tree: Path | None) -> Program | None:
    if not path.exists():
        return None
    try:
        answer = _run([*_command(path, tree), "--no-defaults", "--version"]).stdout
    except OSError:  # not for this machine
        return None
    version = re.search(r"Ver (\d+\.\d+\.\d+)", answer)
    if version is None:
        return None
    return Program("mariadb" if "MariaDB" in answer else "mysql", version[1], path, tree)


def _command(path: Path, tree: Path | None) -> list[str]:
    """Run a server out of a tree through the loader and the libraries that came with it."""
    if tree is None:
        return [str(path)]
    loader = next(iter(sorted(tree.glob("usr/lib/*/ld-linux-*.so.*"))), None)
    if loader is None:
        raise ServerError(f"{tree} has a server but not the loader that runs it")
    return [str(loader), "--library-path", str(loader.parent), str(path)]


def _available_packages() -> tuple[str, ...]:
    known = (names for names in PACKAGES if _succeeds(["apt-cache", "show", names[0]]))
    return next(known, ())


def _succeeds(command: list[str]) -> bool:
    try:
        return _run(command).returncode == 0
    except OSError:
        return False


def _run(command: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # noqa: S603 - our own words only
        command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
