"""The normalised texts of digests, and which of them are the agent's own statements."""

import sys
from collections.abc import Collection, Mapping, Sequence

from collectors.business_query import session_settings
from collectors.connection import Connection, sent_words, statement_words
from collectors.digest_table import TABLE
from collectors.result_cells import ResultLimits, text

MAX_DIGEST_LENGTH = 64  # characters
MAX_TEXTS_PER_QUERY = 1000  # rows; for each statement the server passes over the whole table
MAX_TEXT_LENGTH = 1024  # characters; the server's default is as many bytes
TEXTS = f"""
SELECT DIGEST, LEFT(DIGEST_TEXT, {MAX_TEXT_LENGTH}) FROM {TABLE}
 WHERE DIGEST IN ({{digests}}) LIMIT {{limit}}"""  # noqa: S608
"""A digest has a row in each schema where it is used. Those that the limit omits are still unknown
at the next reading: grouping the rows would cost the server as much again, on MariaDB four times as
much."""
MAX_TEXTS = 30_000  # digests that are remembered as those whose text was fetched
MAX_CHARACTERS = 8 * 2**20  # total length of their texts
TEXT_LIMITS = ResultLimits(
    2, rows=MAX_TEXTS_PER_QUERY, bytes=MAX_TEXTS_PER_QUERY * (4 * MAX_TEXT_LENGTH + 64)
)
MIN_IDENTIFYING_WORDS = 5  # words of a truncated text that identify its statement


def texts_of(
    connection: Connection, digests: Sequence[str], limit: int = MAX_TEXTS_PER_QUERY
) -> dict[str, str]:
    """Fetch the texts of these digests, of up to `limit` rows, as the server normalises them.

    The list has two values at least: the statement has one digest then, however many there are.
    """
    requested = [d for d in digests if d.isascii() and d.isalnum()][:MAX_TEXTS_PER_QUERY]
    listed = ", ".join(f"'{digest}'" for digest in ("", "", *requested))
    rows = connection.query(TEXTS.format(digests=listed, limit=limit), TEXT_LIMITS)
    found = {
        text(digest, MAX_DIGEST_LENGTH): sys.intern(text(words, MAX_TEXT_LENGTH))
        for digest, words in rows
    }
    return {digest: found[digest] for digest in requested if digest in found}


def own_digests(connection: Connection, texts: Mapping[str, str]) -> frozenset[str]:
    """Return those of the digests whose texts are statements that this connection has sent.

    The settings of a session that reads business metrics, which is another one, are own too.
    """
    if not texts:
        return frozenset()
    settings = map(sent_words, session_settings(connection, timeout=1.0))
    statements = {*connection.sent_statements, *settings}
    return frozenset(
        digest for digest, text in texts.items() if matches_any_statement(text, statements)
    )


def matches_any_statement(text: str, statements: Collection[str]) -> bool:
    """Return whether a normalised text, perhaps truncated, is that of one of these statements.

    The statements are given by their words (`statement_words`).
    A truncated text of fewer than `MIN_IDENTIFYING_WORDS` words could be any client's: False.
    """
    words = statement_words(text)
    if not text.rstrip().endswith("...") and len(text) < MAX_TEXT_LENGTH:
        return words in statements
    if len(words.split()) < MIN_IDENTIFYING_WORDS:
        return False
    return any(own.startswith(words) for own in statements)
