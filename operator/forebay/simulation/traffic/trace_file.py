"""Reader of recorded traffic: arrival time, prompt and answer length, and tenant of each request.

It reads the formats of published traces:

- CSV with the header `TIMESTAMP,ContextTokens,GeneratedTokens` (Azure; 2023 without a time zone, 2024 with one);
- CSV with the header `Timestamp,…,Request tokens,Response tokens,…`, times in seconds (BurstGPT);
- CSV with the header `time,prompt,output` and optionally `tenant` and `class` (interactive or batch; empty means
  interactive);
- JSON lines with `timestamp` in milliseconds, `input_length`, `output_length` and `hash_ids` (Mooncake).

A time without a zone is UTC.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

ARRIVALS = ("timestamp", "arrival", "arrival_seconds", "time")
PROMPTS = ("contexttokens", "prompt", "prompt_tokens", "input_length", "input_tokens", "request tokens")
OUTPUTS = ("generatedtokens", "output", "output_tokens", "output_length", "response tokens")
TENANTS = ("tenant", "client")
CLASSES = ("class",)
LONGEST = 10_000_000
"""Longest plausible prompt or answer in tokens; longer entries, and NaN, do not count as requests."""
_MILLISECONDS = "timestamp"
"""The field of JSON lines that holds milliseconds; the other time fields hold seconds."""
_DATE = re.compile(r"(.{10}[ T][0-9:]+)(\.\d+)?(Z|[+-]\d{2}:?\d{2})?")


class TraceError(ValueError):
    """A recording cannot be read; the message names the line."""


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request of a recording."""

    time: float
    """Arrival in seconds, from any origin."""
    prompt_tokens: float
    output_tokens: float
    tenant: str = ""
    prefix_blocks: tuple[int, ...] = ()
    """Hashes of the leading blocks of the prompt, if the recording has them."""
    batch: bool = False
    """Whether the request is batch work; otherwise it is interactive."""

    @property
    def answered(self) -> bool:
        return 0 < self.prompt_tokens < LONGEST and 0 < self.output_tokens < LONGEST


@dataclass(frozen=True, slots=True)
class Recording:
    requests: tuple[RecordedRequest, ...]

    @property
    def times(self) -> tuple[float, ...]:
        """Arrival times of all requests, answered or not."""
        return tuple(request.time for request in self.requests)

    @property
    def lengths(self) -> tuple[tuple[float, float], ...]:
        """(prompt, answer) tokens of the requests that were answered."""
        return tuple((r.prompt_tokens, r.output_tokens) for r in self.requests if r.answered)


def read_trace(text: str) -> Recording:
    """Read a recording in any of the formats. Raises TraceError."""
    lines = text.splitlines()
    rows = _json_rows(lines) if lines and lines[0].lstrip().startswith("{") else _csv_rows(lines)
    recording = Recording(tuple(rows))
    if not any(request.answered for request in recording.requests):
        raise TraceError("no request with a prompt and an answer is in it")
    return recording


def _csv_rows(lines: Iterable[str]) -> Iterator[RecordedRequest]:
    reader = csv.reader(lines)
    header = [name.strip().casefold() for name in next(reader, [])]
    columns = [_column(header, names) for names in (ARRIVALS, PROMPTS, OUTPUTS)]
    tenant_column = next((header.index(name) for name in TENANTS if name in header), None)
    class_column = next((header.index(name) for name in CLASSES if name in header), None)
    for number, row in enumerate(reader, start=2):
        if not row:
            continue
        try:
            arrival, prompt, output = (row[column].strip() for column in columns)
            tenant = "" if tenant_column is None else row[tenant_column].strip()
            batch = _is_batch("" if class_column is None else row[class_column])
            yield RecordedRequest(_seconds(arrival), float(prompt), float(output), tenant, batch=batch)
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


def _json_rows(lines: Iterable[str]) -> Iterator[RecordedRequest]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            key = next(name for name in ARRIVALS if name in record)
            scale = 1e-3 if key == _MILLISECONDS else 1.0
            prompt = next(record[name] for name in PROMPTS if name in record)
            output = next(record[name] for name in OUTPUTS if name in record)
            tenant = next((str(record[name]) for name in TENANTS if name in record), "")
            blocks = tuple(int(block) for block in record.get("hash_ids", ()))
            batch = _is_batch(str(record.get(CLASSES[0], "")))
            yield RecordedRequest(float(record[key]) * scale, float(prompt), float(output), tenant, blocks, batch)
        except (ValueError, TypeError, StopIteration) as error:
            raise TraceError(f"line {number}: {line[:60]!r} is not a request with time, prompt and answer") from error


def _is_batch(text: str) -> bool:
    name = text.strip().casefold()
    if name not in ("", "interactive", "batch"):
        raise ValueError(f"class {text.strip()!r} is neither interactive nor batch")
    return name == "batch"


def _seconds(text: str) -> float:
    """Parse a number of seconds, or a date and time; digits beyond microseconds are cut."""
    try:
        return float(text)
    except ValueError:
        date = _DATE.fullmatch(text)
        if date is None:
            raise
        whole, fraction, zone = date.groups()
        moment = datetime.fromisoformat(f"{whole}{(fraction or '')[:7]}{zone or ''}")
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
