"""A file to import, read twice: first to find its errors, then to take its rows."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO

from agent.csv_input.table_file import (
    TableFileError,
    display_name,
    open_input,
    text_lines,
    unreadable_error,
)
from agent.history.failures import StoreError, as_store_error
from agent.history.row_kinds import TEXT_KINDS, Row, RowKind
from agent.history.text.csv_format import read_csv
from agent.history.text.line_errors import Mistakes
from agent.history.text.openmetrics_format import (
    is_openmetrics,
    read_openmetrics,
    refuse_too_many,
)
from agent.support.gzip_stream import CHUNK_BYTES

MAX_TEXT_BYTES = 2**32  # bytes, unpacked: ten times a history of the default size, as text
ROWS_PER_TRANSACTION = 5000  # rows in memory


@dataclass(frozen=True, slots=True)
class ImportFile:
    """A file with rows to import, which can be read repeatedly from its beginning."""

    name: str
    file: BinaryIO

    def rows(self, mistakes: Mistakes) -> Iterator[tuple[RowKind, Row]]:
        """Yield the valid rows; raises `TableFileError` if the file is not an exported history."""
        if not is_openmetrics(self._lines()):
            return read_csv(self.name, self._lines(), mistakes)
        refuse_too_many(self.name, self._lines())
        return read_openmetrics(self._lines(), mistakes)

    def batches(self, mistakes: Mistakes) -> Iterator[tuple[RowKind, list[Row]]]:
        """Yield the same rows in batches of one kind, sorted by labels and time."""
        rows = self.rows(mistakes)
        while batch := list(islice(rows, ROWS_PER_TRANSACTION)):
            for kind in TEXT_KINDS.values():
                if rows_of_kind := [row for its_kind, row in batch if its_kind is kind]:
                    yield kind, sorted(rows_of_kind, key=lambda row: (row.labels, row.at))

    def _lines(self) -> Iterator[str]:
        self.file.seek(0)
        return text_lines(self.name, self.file, MAX_TEXT_BYTES)


@contextmanager
def open_rereadable(path: str) -> Iterator[ImportFile]:
    """Open the file, or a private copy on the disk if it cannot be read twice (a pipe)."""
    name = display_name(path)
    with open_input(path) as file:
        if file.seekable():
            yield ImportFile(name, file)
            return
        with _copy_to_disk(name, file) as copy:
            yield ImportFile(name, copy)


def _copy_to_disk(name: str, file: BinaryIO) -> BinaryIO:
    """Copy the file to the temporary directory; raises `StoreError` if that is not possible."""
    pieces = _pieces(name, file)
    try:
        copy = tempfile.TemporaryFile()  # noqa: SIM115  (the caller closes it)
        try:
            copy.writelines(pieces)
            copy.flush()
        except BaseException:
            with suppress(OSError):
                copy.close()  # closing writes the rest again, which fails again
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
            raise TableFileError(name, None, problem, "split it into smaller files")
        yield piece


def _read(name: str, file: BinaryIO) -> bytes:
    try:
        return file.read(CHUNK_BYTES)
    except OSError as error:
        raise unreadable_error(name, error) from None
