"""The history's part of the configuration: its file, its size and its retention."""

from pathlib import Path
from typing import Annotated

from msgspec.structs import asdict

from agent.config.base_model import Checked, Parsed, Section
from agent.config.durations import duration_in_seconds, within_bounds
from agent.config.existing_file import from_base_folder
from agent.config.sizes import size_in_bytes

DAY = 86400.0
MIB = 2**20
MIN_SIZE = 16 * MIB

RetentionTime = Annotated[float, Parsed(duration_in_seconds), within_bounds(0, 3660 * DAY)]


def _check_size(size: int) -> int:
    if size < MIN_SIZE:
        raise ValueError(f"must be {MIN_SIZE // MIB}MiB or more")
    return size


def _parse_file_path(value: object) -> Path:
    """Return a path that names a file; whether it exists is checked when it is opened."""
    if not isinstance(value, str | Path) or not Path(value).name or "\0" in str(value):
        raise ValueError("must be the path of a file")
    return from_base_folder(value)


Size = Annotated[int, Parsed(size_in_bytes), Checked(_check_size)]
HistoryPath = Annotated[Path, Parsed(_parse_file_path)]


class RetentionSettings(Section, frozen=True):
    """For how long each kind of row is kept in the history, in seconds."""

    samples: RetentionTime = 3600.0
    intervals: RetentionTime = 31 * DAY
    fits: RetentionTime = 90 * DAY
    classes: RetentionTime = 7 * DAY
    business: RetentionTime = 31 * DAY

    @property
    def for_markers(self) -> float:
        """Seconds for which deploy markers are kept: as long as the data to compare."""
        return max(self.intervals, self.fits, DAY)

    @property
    def in_milliseconds(self) -> dict[str, int]:
        """The retention by kind of row, in whole milliseconds."""
        return {name: round(1000 * kept) for name, kept in asdict(self).items()}


class HistorySettings(Section, frozen=True):
    """The file that keeps data over restarts; path None: none, unless systemd names a folder."""

    path: HistoryPath | None = None
    max_size: Size = 512 * MIB
    retention: RetentionSettings = RetentionSettings()
