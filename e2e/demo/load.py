"""The demo's clients: real clients of the Service, or simulated ones if pods have no network."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from e2e.traffic import Arrival, StreamRecord, Traffic, azure_arrivals, percentile

ROOT = Path(__file__).parents[2]
TRACE = ROOT / "examples" / "traces" / "azure-2023-conv-first-15-minutes.csv"
PEAK_FROM_SECONDS, PEAK_SECONDS = 60.0, 150.0
"""Two and a half minutes of the trace at its own pace."""
CALM_SECONDS, CALM_ONE_IN = 100.0, 6
"""Then one request in six of the next minutes, so that replicas are drained while they serve."""
RECENT_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts and latencies of the clients; a latency without measurements is None."""

    sent: int
    whole: int
    cut: int
    open: int
    tokens: int | None = None
    time_to_first_token_p50: float | None = None
    time_to_first_token_p95: float | None = None
    inter_token_latency_p50: float | None = None


class Load(Protocol):
    """The demo's traffic: a peak, then little traffic, then none."""

    @property
    def description(self) -> str: ...

    def peak(self) -> None: ...

    def calm(self) -> None: ...

    def stop(self) -> None:
        """Stop sending requests; running requests continue."""

    def recent(self) -> Figures:
        """Counts from the start, latencies of the last 15 s."""

    def total(self) -> Figures: ...

    def faults(self) -> Sequence[str]:
        """Why each broken stream broke."""


def peak_arrivals() -> list[Arrival]:
    """The arrivals as recorded."""
    return list(azure_arrivals(TRACE, from_seconds=PEAK_FROM_SECONDS, to_seconds=PEAK_FROM_SECONDS + PEAK_SECONDS))


def calm_arrivals() -> list[Arrival]:
    """The following arrivals, thinned out; times count from the start of the low traffic."""
    start = PEAK_FROM_SECONDS + PEAK_SECONDS
    return list(azure_arrivals(TRACE, from_seconds=start, to_seconds=start + CALM_SECONDS))[::CALM_ONE_IN]


@dataclass(slots=True)
class Clients:
    """Streams through the Service, counted token by token."""

    url: str
    model: str
    _traffic: Traffic | None = None
    _waves: list[Traffic] = field(default_factory=list)

    @property
    def description(self) -> str:
        peak, calm = len(peak_arrivals()), len(calm_arrivals())
        return (
            f"{peak + calm} requests of an hour of Azure's chat traffic (2023): {peak} in {PEAK_SECONDS:.0f} s as "
            f"recorded, then one in {CALM_ONE_IN} for {CALM_SECONDS:.0f} s"
        )

    def peak(self) -> None:
        self._send(peak_arrivals())

    def calm(self) -> None:
        self._send(calm_arrivals())

    def stop(self) -> None:
        """Time after which every arrival has been sent."""

    def _send(self, arrivals: list[Arrival]) -> None:
        wave = Traffic(self.url, self.model)
        self._waves.append(wave)
        wave.replay(arrivals)

    @property
    def _records(self) -> list[StreamRecord]:
        return [record for wave in self._waves for record in list(wave.records)]

    def recent(self) -> Figures:
        since = time.monotonic() - RECENT_SECONDS
        return _figures(self._records, since)

    def total(self) -> Figures:
        return _figures(self._records, float("-inf"))

    def faults(self) -> Sequence[str]:
        return [record.fault for record in self._records if record.ended is not None and not record.whole]


def _figures(records: Sequence[StreamRecord], since: float) -> Figures:
    ended = [record for record in records if record.ended is not None]
    whole = sum(record.whole for record in ended)
    firsts = [
        record.time_to_first_token
        for record in records
        if record.time_to_first_token is not None and record.first_token is not None and record.first_token > since
    ]
    latencies = [
        record.inter_token_latency
        for record in ended
        if record.inter_token_latency is not None and record.ended is not None and record.ended > since
    ]
    return Figures(
        sent=len(records),
        whole=whole,
        cut=len(ended) - whole,
        open=len(records) - len(ended),
        tokens=sum(record.tokens for record in records),
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
    def description(self) -> str:
        arrivals = peak_arrivals()
        return (
            f"simulated requests at the rate and the mean lengths of {PEAK_SECONDS:.0f} s of Azure's chat traffic "
            f"(2023): {len(arrivals) / PEAK_SECONDS:.1f} a second, then one in {CALM_ONE_IN} for {CALM_SECONDS:.0f} s"
        )

    def peak(self) -> None:
        self._put(1.0)

    def calm(self) -> None:
        self._put(1.0 / CALM_ONE_IN)

    def stop(self) -> None:
        self._put(0.0)

    def recent(self) -> Figures:
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

    def _put(self, factor: float) -> None:
        arrivals = peak_arrivals()
        traffic = {
            "requestsPerSecond": factor * len(arrivals) / PEAK_SECONDS,
            "promptTokens": round(sum(arrival.prompt_tokens for arrival in arrivals) / len(arrivals)),
            "outputTokens": round(sum(arrival.output_tokens for arrival in arrivals) / len(arrivals)),
        }
        address = f"{self.fleet_sim}/traffic/{self.namespace}/{self.service}"
        request = urllib.request.Request(address, json.dumps(traffic).encode(), method="PUT")
        urllib.request.urlopen(request, timeout=10).close()
