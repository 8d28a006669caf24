"""Words that must not leave the server, and the statements that send them to it."""

import base64
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import NamedTuple

import pymysql

from agent.demo.private_server import PrivateServer
from testbed.real.clients import root, run_as_root


class Planted(NamedTuple):
    """What must come out nowhere, each by where it was put."""

    literal: str = "LiteralQz7"
    comment: str = "CommentQz7"
    user: str = "UserQz7"
    first_password: str = "FirstPasswordQz7"
    second_password: str = "SecondPasswordQz7"
    error: str = "ErrorQz7"
    duplicate: str = "DuplicateQz7"
    prepared: str = "PreparedQz7"
    called: str = "CalledQz7"
    hexadecimal: str = "HexQz7"
    slow: str = "SlowQz7"
    header: str = "HeaderQz7"
    address: str = "AddressQz7"
    wrong_password: str = "WrongPasswordQz7"


PLANTED = Planted()
SCHEMA = "planted"  # of the session that says it all: its classes are known by it
NAME = "NameQz7"  # a name, which the server's own digest text has
TAIL = "TailQz7"  # a name that comes too late in its text for any metric
PIECES = ", ".join(f"'{PLANTED.literal}' AS piece_{k:02}" for k in range(20))
PREPARATION = (
    "UPDATE performance_schema.setup_consumers SET ENABLED = 'YES'"
    " WHERE NAME = 'events_statements_current'",
    f"DROP DATABASE IF EXISTS {SCHEMA}",
    f"CREATE DATABASE {SCHEMA}",
    f"CREATE TABLE {SCHEMA}.{NAME} (a VARCHAR(64) PRIMARY KEY)",
    f"CREATE PROCEDURE {SCHEMA}.p(word TEXT) SELECT '{PLANTED.called}', word",
)
STATEMENTS = (
    f"DROP USER IF EXISTS '{PLANTED.user}'@'%'",
    f"CREATE USER '{PLANTED.user}'@'%' IDENTIFIED BY '{PLANTED.first_password}'",
    f"SELECT '{PLANTED.literal}', '{PLANTED.literal}' = 'a'",
    f"SELECT /* {PLANTED.comment} */ 1 -- {PLANTED.comment}",
    f"SELECT x'{PLANTED.hexadecimal.encode().hex()}' AS hexadecimal",
    f"PREPARE s FROM 'SELECT ''{PLANTED.prepared}'''",
    "EXECUTE s",
    f"CALL p('{PLANTED.called}')",
    "CREATE OR REPLACE VIEW v AS SELECT 1",
    f"REPLACE INTO {NAME} VALUES ('{PLANTED.duplicate}')",
    f"SELECT {PIECES}, '{PLANTED.literal}' AS {TAIL}",
)
FAILING = (
    f"SELECT '{PLANTED.error}' FROM nowhere.at_all",
    f"SELEC '{PLANTED.error}'",
    f"INSERT INTO {NAME} VALUES ('{PLANTED.duplicate}')",
    f"SELECT JSON_EXTRACT('{PLANTED.error}', '$.a')",
)
SET_PASSWORD = {
    "mysql": f"SET PASSWORD FOR '{PLANTED.user}'@'%' = '{PLANTED.second_password}'",
    "mariadb": f"SET PASSWORD FOR '{PLANTED.user}'@'%' = PASSWORD('{PLANTED.second_password}')",
}
NAP = f"SELECT SLEEP(0.2), '{PLANTED.slow}' /* {PLANTED.slow} */"
CLASSES = (
    "SELECT DIGEST, DIGEST_TEXT FROM performance_schema.events_statements_summary_by_digest"
    f" WHERE SCHEMA_NAME = '{SCHEMA}'"
)
PAUSE = 0.3  # seconds between two rounds
MIN_CLASSES = 12  # digests that the statements have, at the least


def plant(server: PrivateServer) -> None:
    """Send all of them to the server, in statements that succeed and that fail."""
    with root(server) as ask:
        ask(f"USE {SCHEMA}")
        for statement in (*STATEMENTS, SET_PASSWORD[server.flavour]):
            ask(statement)
        for statement in FAILING:
            with suppress(pymysql.MySQLError):
                ask(statement)
    with suppress(pymysql.MySQLError):
        pymysql.connect(
            unix_socket=server.socket, user=PLANTED.user, password=PLANTED.wrong_password
        )


@contextmanager
def planting(server: PrivateServer) -> Iterator[dict[str, str]]:
    """Say it again and again; yields the digests that this has on the server, with their texts."""
    stop = threading.Event()

    def repeat() -> None:
        while not stop.wait(PAUSE):
            plant(server)

    run_as_root(server, *PREPARATION)
    plant(server)
    found = {digest: text for digest, text in run_as_root(server, CLASSES) if digest}
    assert len(found) >= MIN_CLASSES, found
    with ThreadPoolExecutor(1) as pool:
        said = pool.submit(repeat)
        try:
            yield found
        finally:
            stop.set()
            said.result()
            run_as_root(server, f"DROP USER '{PLANTED.user}'@'%'", f"DROP DATABASE {SCHEMA}")


def leaks(outputs: Mapping[str, bytes], words: Mapping[str, str]) -> list[str]:
    """Return which word was found where, whatever its case and encoding."""
    return [
        f"{kind} in {place}"
        for place, said in outputs.items()
        for kind, word in words.items()
        for way in (word, base64.b64encode(word.encode()).decode(), word.encode().hex())
        if way.lower().encode() in said.lower()
    ]
