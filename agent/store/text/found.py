"""What was found in a file to import: rows by kind, and mistakes by line."""

from collections.abc import Iterator

from agent.store.kinds import KINDS, Kind, Row
from agent.store.text.cells import CellError
from agent.tables.table_file import TableFileError

MOST_MISTAKES = 20  # that are told one by one


class Found:
    """Rows and mistakes of the file `name`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._rows: dict[str, list[Row]] = {}
        self._mistakes: list[tuple[int, CellError]] = []

    def add(self, kind: Kind, row: Row) -> None:
        """A row that is in order."""
        self._rows.setdefault(kind.name, []).append(row)

    def mistake(self, line: int, mistake: CellError) -> None:
        """A line that is not."""
        self._mistakes.append((line, mistake))

    @property
    def rows(self) -> Iterator[tuple[Kind, list[Row]]]:
        """Each kind's rows, by label and time."""
        for name, rows in self._rows.items():
            yield KINDS[name], sorted(rows, key=lambda row: (row.labels, row.at))

    @property
    def problems(self) -> list[str]:
        """The mistakes for people, a line each, in the order of the file."""
        told = sorted(self._mistakes, key=lambda found: found[0])
        lines = [
            str(TableFileError(self._name, line, mistake.problem, mistake.remedy))
            for line, mistake in told[:MOST_MISTAKES]
        ]
        more = len(told) - len(lines)
        return [*lines, f"{self._name}: and {more} more lines like these"] if more else lines
