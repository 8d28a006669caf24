"""A prepared statement of the binary protocol, which most connectors use; PyMySQL does not."""

import struct
from typing import Any

from pymysql.constants.COMMAND import COM_STMT_EXECUTE, COM_STMT_PREPARE

NO_CURSOR, ONCE = 0, 1


class Prepared:
    """A statement without parameters that returns rows, in a session of PyMySQL."""

    def __init__(self, session: Any, statement: str) -> None:
        self._session = session
        session._execute_command(COM_STMT_PREPARE, statement)
        answer = session._read_packet().get_all_data()
        self._number, columns, parameters = struct.unpack_from("<IHH", answer, 1)
        assert parameters == 0
        self._skip(ends=1 if columns else 0)

    def execute(self) -> None:
        """Execute it and read its rows."""
        sent = struct.pack("<IBI", self._number, NO_CURSOR, ONCE)
        self._session._execute_command(COM_STMT_EXECUTE, sent)
        self._session._read_packet()
        self._skip(ends=2)  # of the columns, of the rows

    def _skip(self, ends: int) -> None:
        while ends:
            ends -= self._session._read_packet().is_eof_packet()
