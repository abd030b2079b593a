"""Clients: OpenAI streams that are counted token by token.

A stream is whole only when it brought every token it asked for, a `finish_reason`, a usage that agrees, and `[DONE]`.
Everything else counts as cut, whatever the HTTP status said: a killed engine ends an HTTP 200 stream too.
"""

import asyncio
import csv
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import aiohttp


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request: `at_seconds` after the start of the replay."""

    at_seconds: float
    prompt_tokens: int
    output_tokens: int


@dataclass(slots=True)
class StreamRecord:
    """The record of one stream; times are monotonic seconds."""

    prompt_tokens: int
    asked_tokens: int
    started: float
    first_token: float | None = None
    last_token: float | None = None
    ended: float | None = None
    """When the connection ended, complete or not; None while the stream is open."""
    tokens: int = 0
    usage_tokens: int | None = None
    finish_reason: str | None = None
    done: bool = False
    error: str | None = None

    @property
    def whole(self) -> bool:
        return (
            self.error is None
            and self.done
            and self.finish_reason in ("length", "stop")
            and self.tokens == self.usage_tokens == self.asked_tokens
        )

    @property
    def fault(self) -> str:
        """Why the stream is incomplete."""
        return (
            f"{self.tokens} of {self.asked_tokens} tokens, usage {self.usage_tokens}, "
            f"finish_reason {self.finish_reason}, [DONE] {self.done}, error {self.error}"
        )

    @property
    def time_to_first_token(self) -> float | None:
        return None if self.first_token is None else self.first_token - self.started

    @property
    def inter_token_latency(self) -> float | None:
        if self.first_token is None or self.last_token is None or self.tokens < 2:
            return None
        return (self.last_token - self.first_token) / (self.tokens - 1)


def azure_arrivals(path: Path, *, from_seconds: float = 0.0, to_seconds: float = float("inf")) -> Iterator[Arrival]:
    """Arrivals of an Azure 2023 trace file between two offsets, in seconds after the first row's time."""
    origin: datetime | None = None
    with path.open(newline="") as rows:
        for row in csv.DictReader(rows):
            # Seven digits of a second, one more than fromisoformat takes.
            time_of_arrival = datetime.fromisoformat(row["TIMESTAMP"][:26])
            origin = origin or time_of_arrival
            offset = (time_of_arrival - origin).total_seconds()
            if from_seconds <= offset < to_seconds:
                yield Arrival(offset - from_seconds, int(row["ContextTokens"]), int(row["GeneratedTokens"]))


@dataclass(slots=True)
class Client:
    """Sends completions to one Service, each over a new connection, so that each is load-balanced."""

    url: str
    model: str
    request_timeout_seconds: float = 900.0
    _session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        timeout = aiohttp.ClientTimeout(total=self.request_timeout_seconds, sock_connect=30)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def stream(self, prompt_tokens: int, output_tokens: int, record: StreamRecord) -> None:
        """One streamed completion, filled into `record` as it goes; never raises for what the server does."""
        assert self._session is not None
        body = {
            "model": self.model,
            "prompt": [1] * prompt_tokens,
            "max_tokens": output_tokens,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        try:
            async with self._session.post(f"{self.url}/v1/completions", json=body) as response:
                if response.status != 200:
                    record.error = f"HTTP {response.status}: {(await response.text())[:200]}"
                    return
                async for line in response.content:
                    if line.startswith(b"data: "):
                        _read_chunk(line[6:].strip(), record)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            record.error = f"{type(error).__name__}: {error}"
        finally:
            record.ended = time.monotonic()


def _read_chunk(data: bytes, record: StreamRecord) -> None:
    if data == b"[DONE]":
        record.done = True
        return
    chunk: dict[str, Any] = json.loads(data)
    if "error" in chunk:
        record.error = f"in-band error: {chunk['error']}"
        return
    if usage := chunk.get("usage"):
        record.usage_tokens = usage["completion_tokens"]
    for choice in chunk.get("choices", ()):
        if choice.get("text"):
            now = time.monotonic()
            record.first_token = record.first_token or now
            record.last_token = now
            record.tokens += 1
        if choice.get("finish_reason"):
            record.finish_reason = choice["finish_reason"]


@dataclass(slots=True)
class Traffic:
    """Runs clients on a thread of its own, so that a test can act on the cluster meanwhile.

    `replay` sends arrivals at their times (open loop); `hold` keeps a number of streams open (closed loop).
    """

    url: str
    model: str
    records: list[StreamRecord] = field(default_factory=list)
    on_end: Callable[[StreamRecord], None] | None = None
    _concurrency: int = 0
    _held: int = 0
    _stopping: bool = False
    _thread: threading.Thread | None = None

    def replay(self, arrivals: Sequence[Arrival]) -> None:
        """Start sending `arrivals`; returns at once."""
        self._start(self._replay(arrivals))

    def hold(self, concurrency: int, *, prompt_tokens: int, output_tokens: int, ramp_per_second: float = 20.0) -> None:
        """Start keeping `concurrency` streams open; returns at once. `set_concurrency` changes it."""
        self._concurrency = concurrency
        self._start(self._hold(prompt_tokens, output_tokens, ramp_per_second))

    def set_concurrency(self, concurrency: int) -> None:
        self._concurrency = concurrency

    def finish(self, timeout_seconds: float = 900.0) -> list[StreamRecord]:
        """Open no more streams, wait until every open one ended, and return all records."""
        self._stopping = True
        return self.join(timeout_seconds)

    def join(self, timeout_seconds: float = 900.0) -> list[StreamRecord]:
        """Wait until every arrival was sent and every stream ended."""
        assert self._thread is not None, "no traffic was started"
        self._thread.join(timeout_seconds)
        if self._thread.is_alive():
            raise TimeoutError(f"{self.open} streams are still open after {timeout_seconds:.0f} s")
        return self.records

    @property
    def open(self) -> int:
        return sum(1 for record in list(self.records) if record.ended is None)

    def _start(self, work: Any) -> None:
        self._thread = threading.Thread(target=lambda: asyncio.run(work), name="traffic", daemon=True)
        self._thread.start()

    async def _one(self, client: Client, prompt_tokens: int, output_tokens: int) -> None:
        record = StreamRecord(prompt_tokens, output_tokens, started=time.monotonic())
        self.records.append(record)
        await client.stream(prompt_tokens, output_tokens, record)
        if self.on_end is not None:
            self.on_end(record)

    async def _replay(self, arrivals: Sequence[Arrival]) -> None:
        start = time.monotonic()
        async with Client(self.url, self.model) as client, asyncio.TaskGroup() as streams:
            for arrival in arrivals:
                if self._stopping:
                    break
                await asyncio.sleep(max(0.0, start + arrival.at_seconds - time.monotonic()))
                streams.create_task(self._one(client, arrival.prompt_tokens, max(1, arrival.output_tokens)))

    async def _hold(self, prompt_tokens: int, output_tokens: int, ramp_per_second: float) -> None:
        async def keep_one(client: Client) -> None:
            try:
                await self._one(client, prompt_tokens, output_tokens)
            finally:
                self._held -= 1

        async with Client(self.url, self.model) as client, asyncio.TaskGroup() as streams:
            while not self._stopping:
                if self._held < self._concurrency:
                    self._held += 1
                    streams.create_task(keep_one(client))
                await asyncio.sleep(1 / ramp_per_second)


def faults(records: Sequence[StreamRecord]) -> list[str]:
    """Why each incomplete stream is incomplete."""
    return [record.fault for record in records if not record.whole]


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the values lie, by nearest rank; raises ValueError on none."""
    if not values:
        raise ValueError("no values to take a percentile of")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(share * len(ordered) + 0.5) - 1))]
