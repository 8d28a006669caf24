"""The programs of the live tests: MySQL, MariaDB and others, or why a test is skipped."""

import os
import shutil
from functools import cache
from pathlib import Path
from typing import Literal, NoReturn

import pytest

from agent.demo.private_server import Flavour, Program, find_server

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"

Release = Literal["mysql", "mariadb", "mariadb-11.8"]
RELEASES: tuple[Release, ...] = ("mysql", "mariadb", "mariadb-11.8")
"""The servers that the tests run on: MySQL, this machine's own MariaDB, Debian 13's MariaDB."""


def missing(what: str, remedy: str = "scripts/test installs it") -> NoReturn:
    """Skip for lack of a program, a file or a right; fail if all must be there."""
    reason = f"no {what} here ({remedy})"
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@cache
def server_program(release: Release) -> Program | None:
    """Return that server: unpacked in the checkout, or an installed one if any release will do."""
    flavour: Flavour = "mysql" if release == "mysql" else "mariadb"
    unpacked = find_server(flavour, CACHE / release)
    return unpacked or (find_server(flavour) if release == flavour else None)


def program(name: str, *, first: Path | None = None, last: Path | None = None) -> str:
    """Return the path of an installed program, or of one unpacked in one of those folders."""
    places = [first, os.environ.get("PATH", os.defpath), last]
    path = os.pathsep.join(str(place) for place in places if place)
    return shutil.which(name, path=path) or missing(name)
