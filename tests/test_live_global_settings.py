"""Settings that an operator makes for all sessions, and limits of the account, on real servers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from conftest import ServerFactory
from reached import connected

from agent.demo.server import PrivateServer
from collectors import COLLECTORS, business_query
from collectors.base import Values
from collectors.connection import Connection
from collectors.digests import DigestValues
from testbed.real.clients import run_as_root
from testbed.real.server_programs import Release

HIDE_ROWS = ("sql_select_limit = 1", "max_join_size = 1")
MODES = {
    "mysql": "ANSI,NO_BACKSLASH_ESCAPES,HIGH_NOT_PRECEDENCE,PAD_CHAR_TO_FULL_LENGTH",
    "mariadb": "ORACLE,EMPTY_STRING_IS_NULL,PAD_CHAR_TO_FULL_LENGTH",
}
SHAPES = (
    "group_concat_max_len = 4",
    "div_precision_increment = 0",
    "time_zone = '+13:00'",
    "character_set_results = utf16",
    "collation_connection = utf16_bin",
    "lc_messages = 'ja_JP'",
    "tmp_table_size = 1024",
    "autocommit = 0",
)


def settings(release: Release) -> list[str]:
    """What is set: fewer rows, another language, other texts and times."""
    return [*HIDE_ROWS, f"sql_mode = '{MODES[release.partition('-')[0]]}'", *SHAPES]


@contextmanager
def set_globally(server: PrivateServer, assignments: Sequence[str]) -> Iterator[None]:
    """Root sets that for all sessions to come."""
    run_as_root(server, *(f"SET GLOBAL {one}" for one in assignments))
    yield
    names = [one.partition(" ")[0] for one in assignments]
    run_as_root(server, *(f"SET GLOBAL {name} = DEFAULT" for name in names))


def readings(connection: Connection) -> dict[str, Values]:
    """What each collector reads of a server."""
    found = {}
    for spec in COLLECTORS:
        read = spec.prepare(connection).read
        if read is not None:
            read()
            found[spec.name] = read()
    return found


def test_what_is_set_for_all_sessions_hides_nothing(
    private_server: ServerFactory, release: Release
) -> None:
    """Each collector reads as much as before, and a query class keeps its key."""
    server = private_server(release)
    run_as_root(server, "SELECT 'known' AS a_class")
    with connected(server, "socket") as connection:
        before = readings(connection)
    with set_globally(server, settings(release)), connected(server, "socket") as connection:
        after = readings(connection)
    assert {name: set(values) for name, values in after.items()} == {
        name: set(values) for name, values in before.items()
    }
    assert known_class(before) == known_class(after)


def test_an_operators_own_query_means_what_it_means_to_the_operator(
    private_server: ServerFactory, release: Release
) -> None:
    """The server's sql_mode counts there: `||` joins texts."""
    server = private_server(release)
    with set_globally(server, settings(release)), connected(server, "socket") as connection:
        read = business_query.prepare(connection, "SELECT 4 || 2", timeout=1.0).read
        assert read
        assert read() == {business_query.VALUE: 42.0}


def known_class(found: dict[str, Values]) -> list[str]:
    """The keys of root's statement, which has no schema."""
    rows = found["digests"]
    assert isinstance(rows, DigestValues)
    [digest] = [d for d, text in rows.rows.texts.items() if "`a_class`" in text]
    return [key for key in rows.rows.keys if key.split("|")[1] == digest]
