"""Recorded traffic: when requests came, and how long prompts and answers were.

Three forms are read: CSV with a header (`TIMESTAMP,ContextTokens,GeneratedTokens` as Azure publishes, or
`arrival,prompt,output` with seconds), and JSON lines (`timestamp` in milliseconds, `input_length`, `output_length` as
Mooncake publishes).
"""

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

ARRIVALS = ("timestamp", "arrival", "arrival_seconds", "time")
PROMPTS = ("contexttokens", "prompt", "prompt_tokens", "input_length", "input_tokens")
OUTPUTS = ("generatedtokens", "output", "output_tokens", "output_length")
LONGEST = 10_000_000
"""Tokens; what is longer, or no number at all, is no request."""
_MILLISECONDS = "timestamp"
"""JSON lines count milliseconds under this name."""


class TraceError(ValueError):
    """What is wrong with a recording, with the line."""


@dataclass(frozen=True, slots=True)
class Recording:
    times: tuple[float, ...]
    """Seconds, from any origin."""
    lengths: tuple[tuple[float, float], ...]
    """(prompt, answer) tokens of requests that were answered."""


def read_trace(text: str) -> Recording:
    """Raises TraceError."""
    lines = text.splitlines()
    rows = list(_json_rows(lines) if lines and lines[0].lstrip().startswith("{") else _csv_rows(lines))
    lengths = tuple((prompt, output) for _, prompt, output in rows if 0 < prompt < LONGEST and 0 < output < LONGEST)
    if not lengths:
        raise TraceError("no request with a prompt and an answer is in it")
    return Recording(tuple(time for time, _, _ in rows), lengths)


def _csv_rows(lines: Iterable[str]) -> Iterator[tuple[float, float, float]]:
    reader = csv.reader(lines)
    header = [name.strip().casefold() for name in next(reader, [])]
    columns = [_column(header, names) for names in (ARRIVALS, PROMPTS, OUTPUTS)]
    for number, row in enumerate(reader, start=2):
        if not row:
            continue
        try:
            arrival, prompt, output = (row[column].strip() for column in columns)
            yield _seconds(arrival), float(prompt), float(output)
        except (ValueError, IndexError) as error:
            raise TraceError(
                f"line {number}: {','.join(row)[:60]!r} is not time, prompt and answer ({error})"
            ) from error


def _column(header: list[str], names: tuple[str, ...]) -> int:
    for name in names:
        if name in header:
            return header.index(name)
    raise TraceError(
        f"line 1: no column {names[0]} in {','.join(header)[:80]!r}; other names for it: {', '.join(names[1:])}"
    )


def _json_rows(lines: Iterable[str]) -> Iterator[tuple[float, float, float]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            key = next(name for name in ARRIVALS if name in record)
            scale = 1e-3 if key == _MILLISECONDS else 1.0
            prompt = next(record[name] for name in PROMPTS if name in record)
            output = next(record[name] for name in OUTPUTS if name in record)
            yield float(record[key]) * scale, float(prompt), float(output)
        except (ValueError, TypeError, StopIteration) as error:
            raise TraceError(f"line {number}: {line[:60]!r} is not a request with time, prompt and answer") from error


def _seconds(text: str) -> float:
    """A number of seconds, or a date and time; digits beyond microseconds are cut."""
    try:
        return float(text)
    except ValueError:
        whole, separator, fraction = text.partition(".")
        return datetime.fromisoformat(whole + separator + fraction[:6]).timestamp()
