"""SignalSource: how the loop gets the signals of engines, whether they are scraped or queried from Prometheus."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from forebay.scaling.load.signals import PodSignals
from forebay.telemetry.scrape_statistics import ScrapeStatistics

SHORTEST_INTERVAL_SECONDS = 5.0
"""vLLM answers scrapes in the process that serves requests, so they are never more frequent."""


@dataclass(frozen=True, slots=True)
class ScrapeTarget:
    """One engine server to scrape: the pod of rank 0 of a replica."""

    uid: str
    namespace: str
    pod: str
    ip: str
    port: int
    engine_version: str | None = None
    """The vLLM version in the pod's revision; None reads the metrics by the newest names."""
    created_at: float = 0.0
    """Unix seconds. Samples from before it belong to an earlier pod of the same name."""
    service: str = ""
    """Name of the InferenceService. One process scrapes all pods of a service, so that their news come together."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The clocks of a signal source; tests bring their own."""

    now: Callable[[], float] = time.time
    """Unix seconds, for `taken_at`. The operator gives the API server's time, which `plan` compares it with."""
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep

    async def wait(self, seconds: float, *events: asyncio.Future[Any]) -> None:
        """Wait for the first of the events, or for `seconds`. The events go on."""
        timer = asyncio.ensure_future(self.sleep(seconds))
        try:
            await asyncio.wait((timer, *events), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()

    async def pause(self, seconds: float, stopping: asyncio.Event) -> None:
        """Wait that long, or until `stopping` is set."""
        stopped = asyncio.ensure_future(stopping.wait())
        try:
            await self.wait(seconds, stopped)
        finally:
            stopped.cancel()


class SignalSource(Protocol):
    """Implemented by `Scraper` (scrapes the engines) and `PrometheusSource` (queries a Prometheus that does)."""

    def signals(self) -> Mapping[str, PodSignals]:
        """The signals of the pods of the last round, by pod uid; a pod without any result yet is absent."""
        ...

    def statistics(self) -> ScrapeStatistics: ...

    def forget(self) -> None:
        """Drop all signals, when their times can no longer be compared with the present."""
        ...

    async def run(self, targets: Callable[[], Sequence[ScrapeTarget]], on_news: Callable[[], None]) -> None:
        """Run rounds until `stop`. `targets` is called at the start of each; `on_news` when signals have changed."""
        ...

    def stop(self) -> None:
        """Make `run` return soon."""
        ...
