"""One line per event, as logfmt or JSON: `log.info("connected", extra=fields(target="db1"))`."""

import logging
import sys
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO

from agent.support.safe_output import json_text

FORMATS = ("logfmt", "json")
LEVELS = ("debug", "info", "warning", "error")
BURST = 5  # lines of one kind that may be logged without a pause
PAUSE = 60.0  # seconds after which one more of that kind may be logged
MAX_KINDS = 1000  # number of kinds that are remembered
MAX_LENGTH = 200  # characters of an exception's message


def fields(**values: object) -> dict[str, Any]:
    """Return an event's fields for the `extra` of a logging call, without those that are None."""
    return {"fields": {name: value for name, value in values.items() if value is not None}}


def describe_error(error: BaseException) -> str:
    """Describe an exception on one line: its type, its message and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    words = " ".join(str(error).split())[:MAX_LENGTH]
    what = f"{type(error).__name__}: {words}" if words else type(error).__name__
    if not frames:
        return what
    last = frames[-1]
    return f"{what} ({last.filename.rpartition('/')[2]}:{last.lineno} in {last.name})"


def set_up_logging(level: str, style: str, stream: TextIO | None = None) -> None:
    """Log every event of the agent to standard error (or `stream`), one line each.

    When called again, as by a reload, what was logged before still counts as repeated.
    """
    root = logging.getLogger()
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonLines() if style == "json" else _Logfmt())
    filters = [each for former in root.handlers for each in former.filters]
    repeated = (each for each in filters if isinstance(each, RepeatedMessages))
    handler.addFilter(next(repeated, None) or RepeatedMessages())
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


@dataclass(slots=True)
class _Kind:
    """The token bucket of one kind of event: lines still allowed, since when, lines suppressed."""

    tokens: float
    updated_at: float
    suppressed: int = 0


class RepeatedMessages(logging.Filter):
    """Limits repeated events, so that a server that comes and goes does not flood the log.

    Events are alike if they have the same message, target, collector and kind of failure, whatever
    the details. After `BURST` of them there is one line every `PAUSE` seconds, whose field
    `repeated` is the number of events left out. Debug events are not limited.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.RLock()  # as of handlers: a finalizer may log meanwhile
        self._kinds: OrderedDict[tuple[object, ...], _Kind] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the event is logged."""
        if record.levelno <= logging.DEBUG:
            return True
        with self._lock:  # a handler calls its filters without its own
            return self._is_allowed(record)

    def _is_allowed(self, record: logging.LogRecord) -> bool:
        """Use up a token of the event's kind, or count the event as left out."""
        kind = self._kind_of(record)
        now = self._clock()
        kind.tokens = min(BURST, kind.tokens + (now - kind.updated_at) / PAUSE)
        kind.updated_at = now
        if kind.tokens < 1:
            kind.suppressed += 1
            return False
        kind.tokens -= 1
        if kind.suppressed:
            record.fields = {**getattr(record, "fields", {}), "repeated": kind.suppressed}
            kind.suppressed = 0
        return True

    def _kind_of(self, record: logging.LogRecord) -> _Kind:
        facts: dict[str, object] = getattr(record, "fields", {})
        named = [facts.get(name) for name in ("target", "collector", "feature", "worker", "kind")]
        text = record.msg if any(named) else record.getMessage()
        key = (record.name, record.levelno, text, *named)
        kind = self._kinds.pop(key, None) or _Kind(BURST, self._clock())
        self._kinds[key] = kind
        if len(self._kinds) > MAX_KINDS:
            self._kinds.popitem(last=False)
        return kind


class _LineFormatter(logging.Formatter):
    """Base of both formats: the fields of a record, in a stable order."""

    def facts(self, record: logging.LogRecord) -> dict[str, object]:
        """Return the fields of a record by name: time, level, message, extra fields, exception."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        facts: dict[str, object] = {
            "ts": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "msg": record.getMessage(),
        }
        facts.update(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[1] is not None:
            facts["error"] = repr(record.exc_info[1])
            facts["trace"] = self.formatException(record.exc_info)
        return facts


class _Logfmt(_LineFormatter):
    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={_quoted(value)}" for key, value in self.facts(record).items())


class _JsonLines(_LineFormatter):
    def format(self, record: logging.LogRecord) -> str:
        return json_text(self.facts(record), allow_nan=True, default=str)


def _quoted(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    if text and not any(sign in text for sign in ' "=\\') and text.isprintable():
        return text
    return json_text(text)
