"""The table of digests, read from real servers: the same rows at once and row by row."""

from collections.abc import Iterator

import numpy as np
import pytest
from servers import least_account

from agent.demo.server import PrivateServer
from collectors import digest_table
from collectors.base import CollectorError, FailureKind
from collectors.connection import Connection, Endpoint, Login
from collectors.digest_table import COUNTERS, DigestTable

SIZE = "performance_schema_digests_size"
COLUMNS = {column: name for column, name in COUNTERS.items() if column != "SUM_CPU_TIME"}


@pytest.fixture
def connection(server: PrivateServer) -> Iterator[Connection]:
    """A session of the agent's account."""
    account = Login(*least_account(server))
    found = Connection(Endpoint(socket=server.socket), lambda: account, timeout=5, limit=5)
    found.open()
    yield found
    found.close()


def test_all_rows_at_once_are_the_same_as_row_by_row(connection: Connection) -> None:
    """The keys and every number; the size of the table decides which way is taken."""
    connection.query("DO SLEEP(1.1)")
    assert int(connection.variables[SIZE]) > 0
    at_once = DigestTable(connection, COLUMNS).read("")
    connection.variables[SIZE] = str(digest_table.MOST_AT_ONCE + 1)
    one_by_one = DigestTable(connection, COLUMNS).read("")
    assert len(at_once[0]) > 10
    before, after = (
        dict(zip(keys, numbers, strict=True)) for keys, _, numbers in (at_once, one_by_one)
    )
    assert before.keys() <= after.keys()
    same = [key for key in before if np.array_equal(before[key], after[key])]
    assert len(same) > len(before) - 5  # but for what these very statements did


def test_no_row_is_no_error(connection: Connection) -> None:
    """Nothing was used lately."""
    for size in (1, digest_table.MOST_AT_ONCE + 1):
        connection.variables[SIZE] = str(size)
        keys, age, counters = DigestTable(connection, COLUMNS).read(" WHERE DIGEST = 'none'")
        assert len(keys) == len(age) == 0
        assert counters.shape == (0, len(COLUMNS))


def test_a_text_that_was_cut_is_not_taken_for_the_table(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that sends less than all its rows is not believed."""
    monkeypatch.setattr(digest_table, "LONGER", "SET SESSION group_concat_max_len = 500")
    with pytest.raises(CollectorError) as refused:
        DigestTable(connection, COLUMNS).read("")
    assert refused.value.kind is FailureKind.UNREADABLE
