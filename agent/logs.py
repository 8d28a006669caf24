"""One line per event, as logfmt or JSON: `log.info("connected", extra=fields(target="db1"))`."""

import json
import logging
import sys
import time
from typing import Any, TextIO

FORMATS = ("logfmt", "json")
LEVELS = ("debug", "info", "warning", "error")


def fields(**values: object) -> dict[str, Any]:
    """The named facts of an event, for the `extra` of a logging call."""
    return {"fields": values}


def set_up(level: str, style: str, stream: TextIO | None = None) -> None:
    """Send every event of the agent to standard error (or `stream`), one line each."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonLines() if style == "json" else _Logfmt())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


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
        return json.dumps(self.facts(record), default=str, ensure_ascii=False)


def _quoted(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    if text and not any(sign in text for sign in ' "=\\') and text.isprintable():
        return text
    return json.dumps(text, ensure_ascii=False)
