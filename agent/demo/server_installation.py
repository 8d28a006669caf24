"""Find a server's program on this machine, or install one from the distribution's packages."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, NoReturn

from agent.demo import apt_installer
from agent.demo.apt_installer import PackageError
from agent.support.errors import HeadroomError

Flavour = Literal["mysql", "mariadb"]

FLAVOUR_NAMES: dict[Flavour, str] = {"mysql": "MySQL", "mariadb": "MariaDB"}
EXECUTABLES = ("mysqld", "mariadbd")
SERVER_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/local/mysql/bin")
PACKAGES: tuple[tuple[Flavour, tuple[str, ...]], ...] = (  # all packages of each, best first
    ("mysql", ("mysql-server-core",)),
    ("mysql", ("mysql-server-core-8.4",)),
    ("mysql", ("mysql-server-core-8.0",)),
    ("mariadb", ("mariadb-server-core", "mariadb-client-core")),
    ("mariadb", ("mariadb-server-core-10.6", "mariadb-client-core-10.6")),
)
DEFAULT_PACKAGES = ("mariadb-server-core", "mariadb-client-core")


class ServerError(HeadroomError):
    """A private server cannot be found, installed, started or stopped; the message says why."""


@dataclass(frozen=True)
class Program:
    """A server program on this machine: its flavour, its version and its path."""

    flavour: Flavour
    version: str
    path: Path
    tree: Path | None = None
    """The root folder of unpacked packages; None: the program is installed."""

    def command(self) -> list[str]:
        """Return the command that runs the server, without its options."""
        return _command(self.path, self.tree)


def find_servers(flavour: Flavour | None = None, tree: Path | None = None) -> Iterator[Program]:
    """Find servers of that flavour, or of any, in the tree if given, else on this machine."""
    found = (_identify(path, tree) for path in _executable_paths(tree))
    return (program for program in found if program and flavour in (None, program.flavour))


def find_server(flavour: Flavour | None = None, tree: Path | None = None) -> Program | None:
    """Return the first server that `find_servers` finds, or None."""
    return next(find_servers(flavour, tree), None)


def servers_to_try(say: Callable[[str], None]) -> Iterator[Callable[[], Program]]:
    """Yield functions that return a server or raise `ServerError`, the best first.

    Installed servers come first, then the distribution's packages, which the function installs when
    it is called. Those also complete a server of which some packages are missing.
    """
    for program in find_servers():
        yield partial(_installed, program)
    if not apt_installer.can_install():
        return
    if not any(apt_installer.has_candidate(names[0]) for _, names in PACKAGES):
        say("reading the package lists …")
        try:
            apt_installer.update_package_lists()
        except PackageError as error:
            yield partial(_fail, str(error))
    for flavour, names in PACKAGES:
        if apt_installer.has_candidate(names[0]):
            yield partial(_install, say, flavour, names)


def how_to_install() -> str:
    """Return in one line how to install a server on this machine."""
    if shutil.which("apt-get") is None:
        return "install a MySQL or MariaDB server with the distribution's package manager"
    known = (names for _, names in PACKAGES if apt_installer.has_candidate(names[0]))
    return f"as root: {apt_installer.install_command(next(known, DEFAULT_PACKAGES))}"


def _installed(program: Program) -> Program:
    return program


def _install(say: Callable[[str], None], flavour: Flavour, names: tuple[str, ...]) -> Program:
    say(f"installing {' '.join(names)} from the distribution's packages …")
    try:
        apt_installer.install(names)
    except PackageError as error:
        _fail(str(error))
    program = find_server(flavour)
    if program is None:
        raise ServerError(
            f"{' '.join(names)} is installed, but contains no server that runs on this machine"
        )
    return program


def _fail(why: str) -> NoReturn:
    raise ServerError(why)


def _executable_paths(tree: Path | None) -> list[Path]:
    if tree is not None:
        return [tree / "usr/sbin" / name for name in EXECUTABLES]
    search = os.pathsep.join([os.environ.get("PATH", os.defpath), *SERVER_FOLDERS])
    found = (shutil.which(name, path=search) for name in EXECUTABLES)
    return list(dict.fromkeys(Path(path).resolve() for path in found if path))


def _identify(path: Path, tree: Path | None) -> Program | None:
    if not path.exists():
        return None
    try:
        answer = _run([*_command(path, tree), "--no-defaults", "--version"]).stdout
    except OSError:  # built for another machine
        return None
    version = re.search(r"Ver (\d+\.\d+\.\d+)", answer)
    if version is None:
        return None
    return Program("mariadb" if "MariaDB" in answer else "mysql", version[1], path, tree)


def _command(path: Path, tree: Path | None) -> list[str]:
    """Return the command of a program; in a tree, with the tree's own loader and libraries."""
    if tree is None:
        return [str(path)]
    loader = next(iter(sorted(tree.glob("usr/lib/*/ld-linux-*.so.*"))), None)
    if loader is None:
        raise ServerError(f"{tree} has a server but not the loader that runs it")
    return [str(loader), "--library-path", str(loader.parent), str(path)]


def _run(command: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # noqa: S603 - no outside input
        command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
