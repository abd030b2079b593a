"""ScrapeLane and Lanes: a limited number of engines are scraped at a time; the others wait in the order asked for."""

import asyncio
from collections.abc import Awaitable, Callable, Container
from dataclasses import dataclass

from forebay.telemetry.signal_source import ScrapeTarget


class ScrapeLane:
    """Whoever waits is a target and not yet a task: a task costs 5 KB, and a round asks for thousands."""

    def __init__(self, slots: int, scrape: Callable[[ScrapeTarget], Awaitable[None]]) -> None:
        """`scrape` raises nothing but its own cancellation."""
        self._slots = slots
        self._scrape = scrape
        self._waiting: dict[str, ScrapeTarget] = {}
        self._in_flight: dict[str, asyncio.Task[None]] = {}
        self._empty = asyncio.Event()
        self._empty.set()

    def __contains__(self, uid: str) -> bool:
        return uid in self._waiting or uid in self._in_flight

    @property
    def busy(self) -> bool:
        return not self._empty.is_set()

    def add(self, target: ScrapeTarget) -> None:
        """Scrape the engine once, as soon as a slot is free. Not for one that waits or is being scraped."""
        self._waiting[target.uid] = target
        self._empty.clear()
        self._go_on()

    async def empty(self) -> None:
        """Wait until nobody waits and nothing is in flight."""
        await self._empty.wait()

    async def keep(self, uids: Container[str]) -> None:
        """Drop all other engines; a scrape of one that is in flight is cancelled."""
        self._waiting = {uid: target for uid, target in self._waiting.items() if uid in uids}
        # Taken out here: a task that is cancelled before its first step does not run at all.
        cancelled = [self._in_flight.pop(uid) for uid in list(self._in_flight) if uid not in uids]
        for task in cancelled:
            task.cancel()
        await asyncio.gather(*cancelled, return_exceptions=True)
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and len(self._in_flight) < self._slots:
            uid = next(iter(self._waiting))
            self._in_flight[uid] = asyncio.create_task(self._one(self._waiting.pop(uid)))
        if not self._in_flight:
            self._empty.set()

    async def _one(self, target: ScrapeTarget) -> None:
        await self._scrape(target)
        del self._in_flight[target.uid]
        self._go_on()


@dataclass(frozen=True, slots=True)
class Lanes:
    """Engines whose last scrape failed have slots of their own, so that they cannot fill those of the others."""

    healthy: ScrapeLane
    after_failure: ScrapeLane

    @property
    def busy(self) -> bool:
        return self.healthy.busy or self.after_failure.busy

    def add(self, target: ScrapeTarget, *, failed: bool) -> None:
        """Scrape the engine once, unless that is still to be done or being done."""
        if target.uid not in self.healthy and target.uid not in self.after_failure:
            (self.after_failure if failed else self.healthy).add(target)

    async def empty(self) -> None:
        await asyncio.gather(self.healthy.empty(), self.after_failure.empty())

    async def keep(self, uids: Container[str]) -> None:
        """Drop all other engines."""
        await asyncio.gather(self.healthy.keep(uids), self.after_failure.keep(uids))
