"""A scraper of the pods of a local server, on a clock that stands still until a test moves it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from forebay.telemetry.direct.scraper import Scraper, ScrapeSettings
from forebay.telemetry.direct.url_template import UrlTemplate
from forebay.telemetry.signal_source import Clock, ScrapeTarget
from tests.telemetry.engine_server import EngineServer

LONG_TIMEOUT = ScrapeSettings(timeout_seconds=60)
LIMIT_SECONDS = 20
"""The timeout of one awaited step; it passes only when the test fails."""


class ManualClock:
    """A clock whose sleepers wake when `wake` moves it to their time."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.set_by = 0.0
        """By how much a test has set the clock."""
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []
        self._fell_asleep = asyncio.Condition()

    def clock(self) -> Clock:
        return Clock(now=lambda: 1000.0 + self.set_by + self.seconds, monotonic=lambda: self.seconds, sleep=self.sleep)

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            return
        sleeper = (self.seconds + seconds, asyncio.get_running_loop().create_future())
        self._sleepers.append(sleeper)
        async with self._fell_asleep:
            self._fell_asleep.notify_all()
        try:
            await sleeper[1]
        finally:
            self._sleepers.remove(sleeper)

    async def asleep(self, until: float) -> None:
        """Wait until a task sleeps until that time."""
        async with asyncio.timeout(LIMIT_SECONDS), self._fell_asleep:
            await self._fell_asleep.wait_for(lambda: any(hour == until for hour, _ in self._sleepers))

    async def wake(self, until: float) -> None:
        """Move the clock to that time once a task sleeps until then, and wake it."""
        await self.asleep(until)
        self.seconds = until
        for hour, future in self._sleepers:
            if hour <= until and not future.done():
                future.set_result(None)


@dataclass
class Fleet:
    """A running scraper and the pods that it scrapes."""

    server: EngineServer
    scraper: Scraper
    time: ManualClock
    pods: list[ScrapeTarget] = field(default_factory=list)
    """Read at the start of each round; a test may change them."""
    news: asyncio.Queue[float] = field(default_factory=asyncio.Queue)
    work: "asyncio.Task[None]" = field(init=False)

    async def run(self) -> None:
        await self.scraper.run(lambda: self.pods, lambda: self.news.put_nowait(self.time.seconds))

    def target(self, pod: str) -> ScrapeTarget:
        return ScrapeTarget(f"uid-{pod}", "default", pod, "127.0.0.1", self.server.port, "0.32.0")

    async def next_news(self) -> float:
        """Wait until the scraper reports news, and return the time."""
        return await asyncio.wait_for(self.news.get(), LIMIT_SECONDS)

    async def next_round(self) -> None:
        """Move the clock to the next round, and wait until it has ended."""
        await self.time.wake(until=self.time.seconds + self.scraper.statistics().interval_seconds)
        await self.next_news()

    async def outlast_a_round(self) -> None:
        """Let the interval of a round pass while one pod does not answer."""
        begun = self.time.seconds
        for elapsed in (1.5, 3.0, 4.5, 5.0):
            await self.time.wake(until=begun + elapsed)
            await self.next_news()

    def running(self, pod: str) -> float | None:
        sample = self.scraper.signals()[f"uid-{pod}"].sample
        return None if sample is None else sample.running_requests

    def error(self, pod: str) -> str | None:
        return self.scraper.signals()[f"uid-{pod}"].error


@asynccontextmanager
async def a_fleet(
    server: EngineServer, *pods: str, settings: ScrapeSettings = LONG_TIMEOUT, template: str = ""
) -> AsyncIterator[Fleet]:
    time = ManualClock()
    url_template = UrlTemplate(template or "http://{ip}:{port}/{namespace}/{pod}")
    fleet = Fleet(server, Scraper(url_template, settings=settings, clock=time.clock()), time)
    fleet.pods = [fleet.target(pod) for pod in pods]
    fleet.work = asyncio.create_task(fleet.run())
    try:
        yield fleet
        fleet.scraper.stop()
        await asyncio.wait_for(fleet.work, LIMIT_SECONDS)
    finally:
        fleet.work.cancel()
        with suppress(asyncio.CancelledError):
            await fleet.work
