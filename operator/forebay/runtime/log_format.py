"""Logs of the operator process: one JSON object a line, or plain text for people.

Whatever a call passes in `extra` becomes a key (`service`, `rule`, …), so a log line can be filtered by the words that
`status.decision` uses. Libraries are noisy in their own ways; their levels are set here, in one place.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TextIO

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}

QUIET_LOGGERS = {
    "kopf": logging.WARNING,
    "kopf.objects": logging.WARNING,
    "kopf._core.reactor.running": logging.ERROR,
    "kopf._cogs.clients": logging.CRITICAL,
    "aiohttp.access": logging.WARNING,
    "asyncio": logging.WARNING,
    "kubernetes": logging.WARNING,
    "urllib3": logging.WARNING,
}
"""kopf reports every handler of every event at INFO, which buries decisions; warns that it gets no signals, which are
ours; and reports every attempt of an outage as an ERROR, which the loop tells once."""


class LogFormat(StrEnum):
    JSON = "json"
    PLAIN = "plain"


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in record.__dict__.items() if key not in _STANDARD and not key.startswith("_")}


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class JsonFormatter(logging.Formatter):
    """`time`, `level`, `logger`, `message`, then the extras in the order they were given."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= _extras(record)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class PlainFormatter(logging.Formatter):
    """The same facts for a terminal: message first, extras as `key=value`."""

    def format(self, record: logging.LogRecord) -> str:
        extras = "".join(f" {key}={value}" for key, value in _extras(record).items())
        line = f"{_time(record)} {record.levelname:<7} {record.getMessage()}{extras}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def configure(level: LogLevel, style: LogFormat, stream: TextIO | None = None) -> None:
    """Replace the process's log handlers by one, and quieten libraries unless everything is asked for."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if style is LogFormat.JSON else PlainFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.value.upper())
    for name, quiet in QUIET_LOGGERS.items():
        logging.getLogger(name).setLevel(max(quiet, root.level))
