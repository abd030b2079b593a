"""The log format of a process: one JSON object per line, or plain text for a terminal.

Every key that a call passes in `extra` becomes a key of the line (`service`, `rule`, …), so logs can be filtered by the
words that `status.decision` uses. The log levels of libraries are set here as well.
"""

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TextIO

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}

LIBRARY_LEVELS: Mapping[str, int] = {
    "aiohttp.access": logging.WARNING,
    "asyncio": logging.WARNING,
    "kubernetes": logging.WARNING,
    "urllib3": logging.WARNING,
}
"""The least level that is logged of each library that every process uses."""


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
    """Writes `time`, `level`, `logger` and `message`, then the extras in the order of the call."""

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
    """Writes the same fields for a terminal: the message first, then the extras as `key=value`."""

    def format(self, record: logging.LogRecord) -> str:
        extras = "".join(f" {key}={value}" for key, value in _extras(record).items())
        line = f"{_time(record)} {record.levelname:<7} {record.getMessage()}{extras}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def configure(
    level: LogLevel,
    log_format: LogFormat,
    stream: TextIO | None = None,
    *,
    library_levels: Mapping[str, int] | None = None,
) -> None:
    """Replace the log handlers of the process by one, and raise the levels of noisy libraries.

    `library_levels` adds the libraries that only this process uses. They are never more verbose than `level`.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format is LogFormat.JSON else PlainFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.value.upper())
    for name, least_level in {**LIBRARY_LEVELS, **(library_levels or {})}.items():
        logging.getLogger(name).setLevel(max(least_level, root.level))
