"""A session's readings, prepared on the server: it parses and resolves each of them once.

They are prepared and executed by SQL, whose results are those of the statements themselves. Where
the server refuses that (`max_prepared_stmt_count`), or has forgotten a statement (a proxy in
between), the session sends all as they are.
"""

from collections.abc import Callable

from collectors.base import CollectorError, FailureKind

MAX_STATEMENTS = 12
"""Of a session; a server has room for 16,382 of all sessions by default."""
NAME = "mysql_headroom_{}"
PREPARE, EXECUTE = "PREPARE {name} FROM '{text}'", "EXECUTE {name}"


class PreparedStatements:
    """Those of one session; `send` sends a statement that returns no rows.

    Statements that differ in literals alone have the same words, and one name: the last is there.
    """

    def __init__(self, send: Callable[[str], None]) -> None:
        self._send = send
        self._texts: dict[str, str | None] = {}  # by words; None: not yet prepared
        self._are_allowed = True

    def expect(self, words: str) -> None:
        """Prepare statements of these words when they are sent, unless there are too many."""
        if self._are_allowed and len(self._texts) < MAX_STATEMENTS:
            self._texts.setdefault(words, None)

    def sent_as(self, statement: str, words: str) -> str:
        """Return what to send for the statement, which is prepared if its words are expected."""
        if words not in self._texts:
            return statement
        name = NAME.format(1 + list(self._texts).index(words))
        if self._texts[words] != statement:
            self._prepare(name, statement, words)
        return EXECUTE.format(name=name) if self._are_allowed else statement

    def give_up(self) -> None:
        """Send all statements as they are from now on."""
        self._texts.clear()
        self._are_allowed = False

    def _prepare(self, name: str, statement: str, words: str) -> None:
        self._texts[words] = None
        quoted = statement.replace("\\", "\\\\").replace("'", "''")
        try:
            self._send(PREPARE.format(name=name, text=quoted))
        except CollectorError as error:
            if error.kind.ends_session:
                raise
            self.give_up()
        else:
            self._texts[words] = statement


def may_succeed_unprepared(kind: FailureKind) -> bool:
    """Return whether a statement whose execution fails so is worth sending as it is."""
    return not kind.ends_session and kind is not FailureKind.SLOW


def digested_words(words: str) -> tuple[str, str]:
    """Return the words of a statement's digests when it is prepared and executed, on MySQL.

    MariaDB's have the statement's name instead.
    """
    return f"PREPARE {words}", f"EXECUTE {words}"
