"""Times in RFC 3339, the format of the Kubernetes API, from and to Unix seconds."""

import re
from datetime import UTC, datetime
from typing import Final

LONGEST_TEXT: Final = 64
_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")


def rfc3339(at: float) -> str:
    """Writes Unix seconds as Kubernetes writes a Time, to the second."""
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time(at: float) -> str:
    """Unix seconds as Kubernetes writes a MicroTime, always with six digits."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def unix_seconds(text: str) -> float | None:
    """Unix seconds of an RFC 3339 time with its zone; None for any other text."""
    if len(text) > LONGEST_TEXT or not _RFC3339.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text.upper()).timestamp()
    except (ValueError, OverflowError):
        return None
