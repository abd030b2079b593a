"""Recorded traffic: when requests came, how long prompts and answers were, and whose they were.

CSV with a header: `TIMESTAMP,ContextTokens,GeneratedTokens` as Azure publishes (2023 without a time zone, 2024 with
one), `Timestamp,…,Request tokens,Response tokens,…` in seconds as BurstGPT publishes, or `time,prompt,output` and, if
wanted, `tenant` and `class` (interactive or batch; nothing means interactive). JSON lines: `timestamp` in milliseconds,
`input_length`, `output_length` and `hash_ids` as Mooncake publishes. A time without a zone is UTC.
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
"""Tokens; what is longer, or no number at all, is no request."""
_MILLISECONDS = "timestamp"
"""JSON lines count milliseconds under this name."""
_DATE = re.compile(r"(.{10}[ T][0-9:]+)(\.\d+)?(Z|[+-]\d{2}:?\d{2})?")


class TraceError(ValueError):
    """What is wrong with a recording, with the line."""


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request."""

    time: float
    """Seconds, from any origin."""
    prompt_tokens: float
    output_tokens: float
    tenant: str = ""
    prefix_blocks: tuple[int, ...] = ()
    """Hashes of the leading blocks of its prompt, where the recording has them."""
    batch: bool = False
    """Batch work, which nobody waits for; all else is interactive."""

    @property
    def answered(self) -> bool:
        return 0 < self.prompt_tokens < LONGEST and 0 < self.output_tokens < LONGEST


@dataclass(frozen=True, slots=True)
class Recording:
    requests: tuple[RecordedRequest, ...]

    @property
    def times(self) -> tuple[float, ...]:
        """Of all requests, answered or not."""
        return tuple(request.time for request in self.requests)

    @property
    def lengths(self) -> tuple[tuple[float, float], ...]:
        """(prompt, answer) tokens of requests that were answered."""
        return tuple((r.prompt_tokens, r.output_tokens) for r in self.requests if r.answered)


def read_trace(text: str) -> Recording:
    """Raises TraceError."""
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
    tenant = next((header.index(name) for name in TENANTS if name in header), None)
    work = next((header.index(name) for name in CLASSES if name in header), None)
    for number, row in enumerate(reader, start=2):
        if not row:
            continue
        try:
            arrival, prompt, output = (row[column].strip() for column in columns)
            whose = "" if tenant is None else row[tenant].strip()
            batch = _is_batch("" if work is None else row[work])
            yield RecordedRequest(_seconds(arrival), float(prompt), float(output), whose, batch=batch)
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
            whose = next((str(record[name]) for name in TENANTS if name in record), "")
            blocks = tuple(int(block) for block in record.get("hash_ids", ()))
            batch = _is_batch(str(record.get(CLASSES[0], "")))
            yield RecordedRequest(float(record[key]) * scale, float(prompt), float(output), whose, blocks, batch)
        except (ValueError, TypeError, StopIteration) as error:
            raise TraceError(f"line {number}: {line[:60]!r} is not a request with time, prompt and answer") from error


def _is_batch(text: str) -> bool:
    found = text.strip().casefold()
    if found not in ("", "interactive", "batch"):
        raise ValueError(f"class {text.strip()!r} is neither interactive nor batch")
    return found == "batch"


def _seconds(text: str) -> float:
    """A number of seconds, or a date and time; digits beyond microseconds are cut."""
    try:
        return float(text)
    except ValueError:
        found = _DATE.fullmatch(text)
        if found is None:
            raise
        whole, fraction, zone = found.groups()
        moment = datetime.fromisoformat(f"{whole}{(fraction or '')[:7]}{zone or ''}")
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
