"""Errors in a file to import, line by line."""

from agent.csv_input.table_file import TableFileError
from agent.history.text.cell_conversion import CellError
from agent.support.counted import counted

MAX_MISTAKES = 20  # listed individually
MAX_KEPT = 1000  # kept in memory


class Mistakes:
    """Errors found in the file `name`: all are counted, the first `MAX_KEPT` are kept."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._found: list[tuple[int, CellError]] = []
        self._count = 0

    def add(self, line: int, mistake: CellError) -> None:
        """Record an error in a line."""
        self._count += 1
        if len(self._found) < MAX_KEPT:
            self._found.append((line, mistake))

    @property
    def problems(self) -> list[str]:
        """The errors as text, one line each, in the order of the file."""
        mistakes = sorted(self._found, key=lambda found: found[0])
        lines = [
            str(TableFileError(self._name, line, mistake.problem, mistake.remedy))
            for line, mistake in mistakes[:MAX_MISTAKES]
        ]
        if more := self._count - len(lines):
            lines.append(f"{self._name}: and {counted(more, 'more invalid line')}")
        return lines
