"""One line per event, as logfmt or JSON: `log.info("connected", extra=fields(target="db1"))`."""

import logging
import sys
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO

from agent.support.safe_output import json_text

FORMATS = ("logfmt", "json")
LEVELS = ("debug", "info", "warning", "error")
AT_ONCE = 5  # lines of one kind that may come close together
PAUSE = 60.0  # seconds after which one more of that kind may come
MAX_KINDS = 1000  # that are remembered
MAX_LENGTH = 200  # characters of a defect's own words


def fields(**values: object) -> dict[str, Any]:
    """The named facts of an event, for the `extra` of a logging call; None is not known."""
    return {"fields": {name: value for name, value in values.items() if value is not None}}


def located(error: BaseException) -> str:
    """A defect on one line: what it is, and where in the program it came up."""
    frames = traceback.extract_tb(error.__traceback__)
    words = " ".join(str(error).split())[:MAX_LENGTH]
    what = f"{type(error).__name__}: {words}" if words else type(error).__name__
    if not frames:
        return what
    last = frames[-1]
    return f"{what} ({last.filename.rpartition('/')[2]}:{last.lineno} in {last.name})"


def set_up(level: str, style: str, stream: TextIO | None = None) -> None:
    """Send every event of the agent to standard error (or `stream`), one line each."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonLines() if style == "json" else _Logfmt())
    handler.addFilter(RepeatedMessages())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


@dataclass(slots=True)
class _Kind:
    """How much one kind of event may still say, since when, and what it did not get to say."""

    left: float
    since: float
    unsaid: int = 0


class RepeatedMessages(logging.Filter):
    """A server that comes and goes does not flood the log: what is alike is summed up.

    Events are of one kind where they say the same of the same target and collector, whatever the
    details. After `AT_ONCE` of a kind there is one line each `PAUSE` seconds, which tells as
    `repeated` how many were left out. Debug is not held back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._kinds: OrderedDict[tuple[object, ...], _Kind] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the event gets its line."""
        if record.levelno <= logging.DEBUG:
            return True
        kind = self._kind(record)
        now = self._clock()
        kind.left = min(AT_ONCE, kind.left + (now - kind.since) / PAUSE)
        kind.since = now
        if kind.left < 1:
            kind.unsaid += 1
            return False
        kind.left -= 1
        if kind.unsaid:
            record.fields = {**getattr(record, "fields", {}), "repeated": kind.unsaid}
            kind.unsaid = 0
        return True

    def _kind(self, record: logging.LogRecord) -> _Kind:
        facts: dict[str, object] = getattr(record, "fields", {})
        named = [facts.get(name) for name in ("target", "collector", "feature", "worker")]
        text = record.msg if any(named) else record.getMessage()
        key = (record.name, record.levelno, text, *named)
        kind = self._kinds.pop(key, None) or _Kind(AT_ONCE, self._clock())
        self._kinds[key] = kind
        if len(self._kinds) > MAX_KINDS:
            self._kinds.popitem(last=False)
        return kind


class _Lines(logging.Formatter):
    """What both styles share: the facts of a record, in a stable order."""

    def facts(self, record: logging.LogRecord) -> dict[str, object]:
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


class _Logfmt(_Lines):
    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={_quoted(value)}" for key, value in self.facts(record).items())


class _JsonLines(_Lines):
    def format(self, record: logging.LogRecord) -> str:
        return json_text(self.facts(record), allow_nan=True, default=str)


def _quoted(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    if text and not any(sign in text for sign in ' "=\\') and text.isprintable():
        return text
    return json_text(text)
