"""The scrape worker: a process that scrapes its part of the fleet for the operator.

Parsing metrics is most of the CPU that a large fleet costs, and while the operator plans, its own event loop reads
nothing. A worker lives as long as the pipe to the operator is open, so it ends with the operator however that ends.
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping

from forebay.scaling.load.signals import PodSignals
from forebay.telemetry.direct.scraper import Scraper
from forebay.telemetry.direct.url_template import UrlTemplate
from forebay.telemetry.direct.worker_pipe import News, Start, Targets, frame, read_message
from forebay.telemetry.signal_source import Clock, ScrapeTarget

HEARTBEAT_SECONDS = 5.0
"""A worker without news says at least that it is alive."""


async def work(orders: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
    """Scrape the targets that the operator names until it closes the pipe."""
    start = await read_message(orders)
    if not isinstance(start, Start):
        return
    clock = Clock(now=time.monotonic, monotonic=time.monotonic)
    scraper = Scraper(UrlTemplate(start.url_template), settings=start.settings, clock=clock)
    targets: tuple[ScrapeTarget, ...] = ()
    news = asyncio.Event()
    scraping = asyncio.create_task(scraper.run(lambda: targets, news.set))
    reporting = asyncio.create_task(_report(scraper, news, answers))
    try:
        while isinstance(order := await read_message(orders), Targets):
            targets = order.targets
    finally:
        scraper.stop()
        reporting.cancel()
        await asyncio.gather(scraping, reporting, return_exceptions=True)


async def _report(scraper: Scraper, news: asyncio.Event, answers: asyncio.StreamWriter) -> None:
    """Send what is new. While the operator does not read, news gather in the scraper and not in the pipe."""
    sent: Mapping[str, PodSignals] = {}
    while True:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(news.wait(), HEARTBEAT_SECONDS)
        news.clear()
        signals = scraper.signals()
        new = {uid: of_pod for uid, of_pod in signals.items() if sent.get(uid) is not of_pod}
        answers.write(frame(News(new, scraper.statistics())))
        await answers.drain()
        sent = signals
