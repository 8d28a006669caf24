"""The demo's output: a screen redrawn in place on a terminal, plain lines elsewhere."""

import os
import shutil
from textwrap import wrap
from types import TracebackType
from typing import NamedTuple, Protocol, Self, TextIO

from agent.assessment.assessed_intervals import Disposition
from agent.assessment.snapshot import Snapshot
from agent.config.durations import format_duration
from agent.demo.result_rows import LabelledValue, result_line, result_rows, summary_sentence
from agent.demo.text_chart import text_chart
from models.trust import Trust

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # the alternate screen, no cursor
HOME, REST_OF_LINE, REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
BOLD, PLAIN = "\x1b[1m", "\x1b[0m"
COLOURS = {Trust.TRUSTED: "\x1b[32m", Trust.INDICATIVE: "\x1b[33m", Trust.NOT_IDENTIFIABLE: ""}
LABEL_COLUMNS = 16  # columns for the rows' names
CHART_LINES = range(5, 16)
REDRAW_SECONDS, LINE_SECONDS = 0.5, 5.0


class View(NamedTuple):
    """The contents of one drawing of the output."""

    title: str
    snapshot: Snapshot
    now: float  # Unix seconds
    seconds: float  # since the load began
    load: str
    milestones: str  # when there was a first fit, and a trusted one
    url: str


class Output(Protocol):
    """An output that shows one view after the other, from entry to exit."""

    every: float
    """Seconds from one view to the next."""

    def __enter__(self) -> Self:
        """Prepare the stream."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Restore the stream."""

    def show(self, view: View) -> None:
        """Show a view."""


def choose_output(stream: TextIO) -> Output:
    """Return a screen if the stream is a terminal that can draw one, else plain lines."""
    can_draw = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return Screen(stream) if can_draw else Lines(stream)


class Lines:
    """An output of a plain line every few seconds."""

    every = LINE_SECONDS

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._said: list[LabelledValue] = []
        """The rows of the line before."""

    def __enter__(self) -> Self:
        """Nothing to prepare."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing to restore."""

    def show(self, view: View) -> None:
        """Print the view as one line."""
        rows = result_rows(view.snapshot, view.now)
        text = result_line(rows, self._said) or summary_sentence(view.snapshot, view.now)
        self._said = rows
        text = text.removesuffix(".")
        print(f"{view.seconds:4.0f} s  {text} | load {view.load}", file=self._stream, flush=True)


class Screen:
    """An output on the terminal's alternate screen; the normal screen is restored at the end."""

    every = REDRAW_SECONDS

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __enter__(self) -> Self:
        """Switch to the alternate screen."""
        self._write(ENTER)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Switch back to the normal screen."""
        self._write(LEAVE)

    def show(self, view: View) -> None:
        """Draw over the previous screen."""
        size = shutil.get_terminal_size()
        lines = [_cut(text, size.columns) for text in draw(view, size.columns, size.lines)]
        lines[0] = f"{BOLD}{lines[0]}{PLAIN}"
        capacity = view.snapshot.capacity(view.now)
        if capacity is not None:
            colour = "" if os.environ.get("NO_COLOR") else COLOURS[capacity.trust]
            lines[2] = f"{BOLD}{colour}{lines[2]}{PLAIN}"
        body = f"{REST_OF_LINE}\n".join(lines)
        self._write(f"{HOME}{body}{REST_OF_LINE}{REST_OF_SCREEN}")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def draw(view: View, columns: int, lines: int) -> list[str]:
    """Return the screen as lines of text, `lines` at most."""
    elapsed = format_duration(view.seconds)
    results = [
        *result_rows(view.snapshot, view.now),
        ("load", view.load),
        ("so far", view.milestones),
    ]
    top = [
        f"{view.title}{elapsed:>{max(1, columns - len(view.title))}}",
        "",
        *wrap(summary_sentence(view.snapshot, view.now), columns),
        "",
        *table(results, columns),
    ]
    bottom = [
        "",
        f"page     {view.url}/",
        f"metrics  {view.url}/metrics",
        "Ctrl-C ends it and leaves nothing behind",
    ]
    chart = _chart(view, columns, lines - len(top) - len(bottom) - 1)
    return [*top, *chart, *bottom][:lines]


def table(rows: list[LabelledValue], columns: int = 80) -> list[str]:
    """Return the rows as lines: names on the left, and the values, wrapped where they are long."""
    lines = []
    for name, value in rows:
        for part in wrap(value, max(20, columns - LABEL_COLUMNS)):
            lines.append(f"{name:<{LABEL_COLUMNS}}{part}")
            name = ""
    return lines


def _chart(view: View, columns: int, lines: int) -> list[str]:
    points, fit = view.snapshot.assessed.intervals, view.snapshot.current_law(view.now)
    if fit is None or points is None or lines < CHART_LINES.start:
        return []
    n, x = points.concurrency_and_throughput(Disposition.USED)
    present = view.snapshot.operating_point(view.now)
    return ["", *text_chart(n, x, fit.law, present, columns, min(lines, CHART_LINES.stop))]


def _cut(text: str, columns: int) -> str:
    return text if len(text) <= columns else f"{text[: columns - 1]}…"
