"""The agent's account on a server, with the privileges of deploy/grants.sql alone."""

import re
import secrets
from typing import NamedTuple

from pymysql.constants import CLIENT

from agent.demo.private_server import PrivateServer
from testbed.real.server_programs import ROOT

GRANTS = ROOT / "deploy" / "grants.sql"
PASSWORD_PLACEHOLDER = "CHANGE-ME"


class Account(NamedTuple):
    """A user of the server."""

    user: str
    password: str


def least_account(server: PrivateServer) -> Account:
    """Create the account of deploy/grants.sql, without any other privilege."""
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
    """Run a file of statements on the server unchanged."""
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
