"""A file to import, read twice: once to find its mistakes, once to take its rows."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO

from agent.csv_input.table_file import (
    CHUNK_BYTES,
    TableFileError,
    opened,
    shown_name,
    text_lines,
    unreadable,
)
from agent.history.failures import StoreError, as_store_error
from agent.history.record_types import TEXT_KINDS, Kind, Row
from agent.history.text.csv_text import read_csv
from agent.history.text.history_as_openmetrics import (
    is_openmetrics,
    read_openmetrics,
    refuse_too_many,
)
from agent.history.text.line_errors import Mistakes

MAX_TEXT_BYTES = 2**32  # bytes, unpacked: ten times what a history holds by default, as text
ROWS_PER_TRANSACTION = 5000  # rows in memory


@dataclass(frozen=True, slots=True)
class ImportFile:
    """The rows to import; the file can be read again from its beginning."""

    name: str
    file: BinaryIO

    def rows(self, mistakes: Mistakes) -> Iterator[tuple[Kind, Row]]:
        """Row by row; raises `TableFileError` where it is no exported history."""
        if not is_openmetrics(self._lines()):
            return read_csv(self.name, self._lines(), mistakes)
        refuse_too_many(self.name, self._lines())
        return read_openmetrics(self._lines(), mistakes)

    def batches(self, mistakes: Mistakes) -> Iterator[tuple[Kind, list[Row]]]:
        """The same, some rows of a kind at once, by label and time."""
        rows = self.rows(mistakes)
        while some := list(islice(rows, ROWS_PER_TRANSACTION)):
            for kind in TEXT_KINDS.values():
                if of_one := [row for its_kind, row in some if its_kind is kind]:
                    yield kind, sorted(of_one, key=lambda row: (row.labels, row.at))

    def _lines(self) -> Iterator[str]:
        self.file.seek(0)
        return text_lines(self.name, self.file, MAX_TEXT_BYTES)


@contextmanager
def rereadable(path: str) -> Iterator[ImportFile]:
    """The file, or a private copy on the disk of what cannot be read twice."""
    name = shown_name(path)
    with opened(path) as file:
        if file.seekable():
            yield ImportFile(name, file)
            return
        with _copied(name, file) as copy:
            yield ImportFile(name, copy)


def _copied(name: str, file: BinaryIO) -> BinaryIO:
    """A copy in the temporary directory; raises `StoreError` where it cannot be made there."""
    pieces = _pieces(name, file)
    try:
        copy = tempfile.TemporaryFile()  # noqa: SIM115  (the caller closes it)
        try:
            copy.writelines(pieces)
            copy.flush()
        except BaseException:
            with suppress(OSError):
                copy.close()  # what could not be written is written once more
            raise
    except OSError as error:
        folder = tempfile.tempdir or "no temporary directory"
        problem = f"{folder}: no room for a copy of {name} ({error.strerror})"
        remedy = "free some space there, or set TMPDIR to another directory"
        raise StoreError(as_store_error(folder, error).kind, f"{problem}; {remedy}") from None
    return copy


def _pieces(name: str, file: BinaryIO) -> Iterator[bytes]:
    size = 0
    while piece := _read(name, file):
        size += len(piece)
        if size > MAX_TEXT_BYTES:
            problem = f"it holds more than {MAX_TEXT_BYTES // 2**20} MiB"
            raise TableFileError(name, None, problem, "give it in parts")
        yield piece


def _read(name: str, file: BinaryIO) -> bytes:
    try:
        return file.read(CHUNK_BYTES)
    except OSError as error:
        raise unreadable(name, error) from None
