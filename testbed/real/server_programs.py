"""What the live tests share: which programs there are, and the account that the product uses."""

import os
import re
import secrets
import shutil
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn

import pytest
from pymysql.constants import CLIENT

from agent.demo.server import Flavour, PrivateServer, Program, find_server

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
GRANTS = ROOT / "deploy" / "grants.sql"
PASSWORD_PLACEHOLDER = "CHANGE-ME"

Release = Literal["mysql", "mariadb", "mariadb-11.8"]
RELEASES: tuple[Release, ...] = ("mysql", "mariadb", "mariadb-11.8")
"""The servers that the tests run on: MySQL, this machine's own MariaDB, Debian 13's MariaDB."""


class Account(NamedTuple):
    """A user of the server."""

    user: str
    password: str


def missing(what: str, remedy: str = "scripts/test installs it") -> NoReturn:
    """Skip for want of a program, a file or a right; where all must be there, fail."""
    reason = f"no {what} here ({remedy})"
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@cache
def server_program(release: Release) -> Program | None:
    """That server: unpacked in the checkout, or the installed one where any release will do."""
    flavour: Flavour = "mysql" if release == "mysql" else "mariadb"
    unpacked = find_server(flavour, CACHE / release)
    return unpacked or (find_server(flavour) if release == flavour else None)


def program(name: str, *, first: Path | None = None, last: Path | None = None) -> str:
    """The path of an installed program, or of one unpacked in one of those folders."""
    places = [first, os.environ.get("PATH", os.defpath), last]
    path = os.pathsep.join(str(place) for place in places if place)
    return shutil.which(name, path=path) or missing(name)


def least_account(server: PrivateServer) -> Account:
    """Make the account of deploy/grants.sql, with no right that is not in there."""
    password = secrets.token_urlsafe(16)
    script = GRANTS.read_text()
    statements = re.sub(r"^\s*--.*$", "", script, flags=re.MULTILINE)
    user = re.search(r"'(\w+)'@", statements)
    assert user, GRANTS
    drops = "; ".join(f"DROP USER IF EXISTS {name}" for name in _account_names(statements))
    if PASSWORD_PLACEHOLDER in statements:
        script = script.replace(PASSWORD_PLACEHOLDER, password)
    else:
        creations = (
            f"CREATE USER {n} IDENTIFIED BY '{password}'" for n in _account_names(statements)
        )
        script = f"{'; '.join(creations)};\n{script}"
    run_script(server, f"{drops};\n{script}")
    return Account(user[1], password)


def _account_names(statements: str) -> list[str]:
    return sorted(set(re.findall(r"'\w+'@'[^']+'", statements)))


def run_script(server: PrivateServer, script: str) -> None:
    """Have the server run a file of statements just as it is."""
    connection = server.connect_as_root()
    connection.client_flag |= CLIENT.MULTI_STATEMENTS
    connection.close()
    connection.connect()
    try:
        with connection.cursor() as cursor:
            cursor.execute(script)
            while cursor.nextset():
                pass
    finally:
        connection.close()
