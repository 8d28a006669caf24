"""The normalised texts of digests, and which of them are the agent's own statements."""

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence

from collectors.business_query import session_settings
from collectors.connection import Connection, sent_words, statement_words
from collectors.digest_table import MAX_KEY_LENGTH, TABLE, DigestTable, TableRows
from collectors.result_cells import ResultCell, ResultLimits, text

MAX_DIGEST_LENGTH = 64  # characters
MAX_TEXTS_PER_QUERY = 1000  # rows; for each statement the server passes over the whole table
MAX_TEXT_LENGTH = 1024  # characters; the server's default is as many bytes
TEXT = f"LEFT(DIGEST_TEXT, {MAX_TEXT_LENGTH})"
TEXTS = f"""
SELECT DIGEST, {TEXT} FROM {TABLE}
 WHERE DIGEST IN ({{digests}}) LIMIT {{limit}}"""  # noqa: S608
"""A digest has a row in each schema where it is used. Those that the limit omits are still unknown
at the next reading: grouping the rows would cost the server as much again, on MariaDB four times as
much."""
MAX_TEXTS = 30_000  # digests that are remembered as those whose text was fetched
MAX_CHARACTERS = 8 * 2**20  # total length of their texts
TEXT_LIMITS = ResultLimits(
    2, rows=MAX_TEXTS_PER_QUERY, bytes=MAX_TEXTS_PER_QUERY * (4 * MAX_TEXT_LENGTH + 64)
)
ROWS_LIMITS = ResultLimits(
    3, rows=TEXT_LIMITS.rows, bytes=TEXT_LIMITS.bytes + TEXT_LIMITS.rows * (MAX_KEY_LENGTH + 400)
)
"""Of rows of the table with their texts: the numbers of each take 400 bytes at most."""
MIN_IDENTIFYING_WORDS = 5  # words of a truncated text that identify its statement


def texts_of(
    connection: Connection, digests: Sequence[str], limit: int = MAX_TEXTS_PER_QUERY
) -> dict[str, str]:
    """Fetch the texts of these digests, of up to `limit` rows, as the server normalises them.

    The list has two values at least: the statement has one digest then, however many there are.
    """
    requested = [digest for digest in digests if is_hash(digest)][:MAX_TEXTS_PER_QUERY]
    listed = ", ".join(f"'{digest}'" for digest in ("", "", *requested))
    rows = connection.query(TEXTS.format(digests=listed, limit=limit), TEXT_LIMITS)
    found = _shared_texts((text(digest, MAX_DIGEST_LENGTH), words) for digest, words in rows)
    return {digest: found[digest] for digest in requested if digest in found}


def rows_with_texts(
    table: DigestTable, where: str, limit: int = MAX_TEXTS_PER_QUERY
) -> tuple[TableRows, dict[str, str]] | None:
    """Read rows of the table, and the texts of their digests; None if `limit` or more match.

    A pass of the server over its table costs more than the texts do.
    """
    found = table.read_with(TEXT, where, ROWS_LIMITS, limit)
    if found is None:
        return None
    rows, texts = found
    digests = (key.split("|", 2)[1] for key in rows[0])
    known = zip(digests, texts, strict=True)
    return rows, _shared_texts((digest, words) for digest, words in known if is_hash(digest))


def is_hash(digest: str) -> bool:
    """Return whether this may be a digest: the overflow row has none, and a server may lie."""
    return digest.isascii() and digest.isalnum() and len(digest) <= MAX_DIGEST_LENGTH


def _shared_texts(texts: Iterable[tuple[str, ResultCell]]) -> dict[str, str]:
    """Decode the texts by digest, each of which all targets share."""
    return {digest: sys.intern(text(words, MAX_TEXT_LENGTH)) for digest, words in texts}


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
