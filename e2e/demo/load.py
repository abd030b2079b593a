"""The demo's clients: real clients of the Service, or simulated ones if pods have no network."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from typing import Any, Protocol

from e2e.traffic import Arrival, StreamRecord, Traffic, azure_arrivals, percentile

ROOT = Path(__file__).parents[2]
TRACE = ROOT / "examples" / "traces" / "azure-2023-conv-first-15-minutes.csv"
TRACE_FROM_SECONDS = 60.0
"""The first minute of the recording is only starting up itself."""
RECENT_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of the demo's traffic: how fast the recording is played, as a multiple of its own pace."""

    name: str
    seconds: float
    first_pace: float
    last_pace: float
    rise_seconds: float = 0.0
    """How long the pace takes from the first to the last."""

    def recorded_at(self, seconds: float) -> float:
        """The second of the recording that is played after so many seconds of the phase."""
        rising = min(seconds, self.rise_seconds)
        steepness = (self.last_pace - self.first_pace) / self.rise_seconds if self.rise_seconds else 0.0
        return self.first_pace * rising + steepness / 2 * rising**2 + self.last_pace * (seconds - rising)

    def played_at(self, recorded_seconds: float) -> float:
        """The inverse of `recorded_at`."""
        risen = self.recorded_at(self.rise_seconds)
        if recorded_seconds >= risen:
            return self.rise_seconds + (recorded_seconds - risen) / self.last_pace
        steepness = (self.last_pace - self.first_pace) / self.rise_seconds
        if not steepness:
            return recorded_seconds / self.first_pace
        return (sqrt(self.first_pace**2 + 2 * steepness * recorded_seconds) - self.first_pace) / steepness

    def arrivals(self, from_seconds: float) -> list[Arrival]:
        """The recording from this second on, at the pace of the phase."""
        part = azure_arrivals(
            TRACE, from_seconds=from_seconds, to_seconds=from_seconds + self.recorded_at(self.seconds)
        )
        return [Arrival(self.played_at(one.at_seconds), one.prompt_tokens, one.output_tokens) for one in part]


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts and latencies of the clients; a latency without measurements is None."""

    sent: int
    whole: int
    cut: int
    open: int
    tokens: int | None = None
    requests_per_second: float | None = None
    time_to_first_token_p50: float | None = None
    time_to_first_token_p95: float | None = None
    inter_token_latency_p50: float | None = None


class Load(Protocol):
    """The demo's traffic, phase by phase."""

    @property
    def source(self) -> str:
        """Where the requests come from, in words."""

    def play(self, phase: Phase) -> None:
        """Begin a phase; the running requests of the one before continue."""

    def stop(self) -> None:
        """Stop sending requests; running requests continue."""

    def recent(self) -> Figures:
        """Counts from the start, latencies of the last 15 s."""

    def of(self, phase: Phase) -> Figures:
        """The requests that the phase sent."""

    def total(self) -> Figures: ...

    def faults(self) -> Sequence[str]:
        """Why each broken stream broke."""


@dataclass(slots=True)
class Clients:
    """Streams through the Service, counted token by token."""

    url: str
    model: str
    _waves: dict[str, Traffic] = field(default_factory=dict)
    _recorded_seconds: float = TRACE_FROM_SECONDS
    """How far the recording was played."""

    @property
    def source(self) -> str:
        return "Traffic: Azure's chat trace of 2023, every request a stream whose tokens are counted"

    def play(self, phase: Phase) -> None:
        wave = Traffic(self.url, self.model)
        self._waves[phase.name] = wave
        wave.replay(phase.arrivals(self._recorded_seconds))
        self._recorded_seconds += phase.recorded_at(phase.seconds)

    def stop(self) -> None:
        """Time after which every arrival has been sent."""

    def _records(self) -> list[StreamRecord]:
        return [record for wave in self._waves.values() for record in list(wave.records)]

    def recent(self) -> Figures:
        return figures(self._records(), time.monotonic() - RECENT_SECONDS)

    def of(self, phase: Phase) -> Figures:
        return figures(list(self._waves[phase.name].records))

    def total(self) -> Figures:
        return figures(self._records())

    def faults(self) -> Sequence[str]:
        return [record.fault for record in self._records() if record.ended is not None and not record.whole]


def figures(records: Sequence[StreamRecord], since: float | None = None) -> Figures:
    """The counts of all records; rate and latencies of those since a monotonic time, or of all."""
    begin = float("-inf") if since is None else since
    ended = [record for record in records if record.ended is not None]
    whole = sum(record.whole for record in ended)
    firsts = [
        record.time_to_first_token
        for record in records
        if record.time_to_first_token is not None and record.first_token is not None and record.first_token > begin
    ]
    latencies = [
        record.inter_token_latency
        for record in ended
        if record.inter_token_latency is not None and record.ended is not None and record.ended > begin
    ]
    return Figures(
        sent=len(records),
        whole=whole,
        cut=len(ended) - whole,
        open=len(records) - len(ended),
        tokens=sum(record.tokens for record in records),
        requests_per_second=None if since is None else sum(r.started > since for r in records) / RECENT_SECONDS,
        time_to_first_token_p50=percentile(firsts, 0.5) if firsts else None,
        time_to_first_token_p95=percentile(firsts, 0.95) if firsts else None,
        inter_token_latency_p50=percentile(latencies, 0.5) if latencies else None,
    )


@dataclass(slots=True)
class SimulatedClients:
    """Requests simulated by fleet-sim at the trace's rate and mean lengths, without network streams."""

    fleet_sim: str
    """Its base URL."""
    namespace: str
    service: str

    @property
    def source(self) -> str:
        return "Traffic: simulated requests at the rate and the mean lengths of Azure's chat trace of 2023"

    def play(self, phase: Phase) -> None:
        """fleet-sim knows no ramp: the last pace of the phase applies from its start."""
        self._put(phase)

    def stop(self) -> None:
        self._put(None)

    def recent(self) -> Figures:
        return self.total()

    def of(self, phase: Phase) -> Figures:
        return self.total()

    def total(self) -> Figures:
        with urllib.request.urlopen(f"{self.fleet_sim}/traffic", timeout=10) as answer:
            tally: dict[str, Any] = json.load(answer).get(f"{self.namespace}/{self.service}", {})
        lost = int(tally.get("cut", 0)) + int(tally.get("refused", 0)) + int(tally.get("unserved", 0))
        return Figures(
            sent=int(tally.get("offered", 0)),
            whole=int(tally.get("completed", 0)),
            cut=lost,
            open=int(tally.get("outstanding", 0)),
        )

    def faults(self) -> Sequence[str]:
        lost = self.total().cut
        return [f"{lost} simulated requests were cut, refused or found no replica"] if lost else []

    def _put(self, phase: Phase | None) -> None:
        arrivals = list(azure_arrivals(TRACE, from_seconds=TRACE_FROM_SECONDS))
        recorded_seconds = arrivals[-1].at_seconds
        traffic = {
            "requestsPerSecond": 0.0 if phase is None else phase.last_pace * len(arrivals) / recorded_seconds,
            "promptTokens": round(sum(arrival.prompt_tokens for arrival in arrivals) / len(arrivals)),
            "outputTokens": round(sum(arrival.output_tokens for arrival in arrivals) / len(arrivals)),
        }
        address = f"{self.fleet_sim}/traffic/{self.namespace}/{self.service}"
        request = urllib.request.Request(address, json.dumps(traffic).encode(), method="PUT")
        urllib.request.urlopen(request, timeout=10).close()
