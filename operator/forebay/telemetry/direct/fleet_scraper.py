"""FleetScraper: scrapes in the operator's own process until the fleet outgrows it, and then in workers.

A worker costs 40 MB and a start, which a small fleet need not pay. A fleet that shrinks keeps its workers until the
operator restarts.
"""

from collections.abc import Callable, Mapping, Sequence

from forebay.scaling.load.signals import PodSignals
from forebay.telemetry.direct.scrape_workers import ScrapeWorkers, WorkerOptions
from forebay.telemetry.direct.scraper import SCRAPES_PER_SECOND, Scraper, ScrapeSettings
from forebay.telemetry.direct.url_template import UrlTemplate
from forebay.telemetry.scrape_statistics import ScrapeStatistics
from forebay.telemetry.signal_source import SHORTEST_INTERVAL_SECONDS, Clock, ScrapeTarget

MOST_PODS_ALONE = int(SCRAPES_PER_SECOND * SHORTEST_INTERVAL_SECONDS)
"""As many as are scraped in the shortest interval."""


class FleetScraper:
    def __init__(self, url_template: str, workers: WorkerOptions, *, settings: ScrapeSettings, clock: Clock) -> None:
        self._url_template = url_template
        self._options = workers
        self._settings = settings
        self._clock = clock
        self._own = Scraper(UrlTemplate(url_template), settings=settings, clock=clock)
        self._workers: ScrapeWorkers | None = None
        self._outgrown = False

    def signals(self) -> Mapping[str, PodSignals]:
        return self._source.signals()

    def statistics(self) -> ScrapeStatistics:
        return self._source.statistics()

    def forget(self) -> None:
        self._source.forget()

    def stop(self) -> None:
        self._outgrown = False
        self._source.stop()

    async def run(self, targets: Callable[[], Sequence[ScrapeTarget]], on_news: Callable[[], None]) -> None:
        await self._own.run(lambda: self._while_small(targets()), on_news)
        if self._outgrown:
            self._workers = ScrapeWorkers(
                self._url_template,
                self._options,
                settings=self._settings,
                clock=self._clock,
                signals=self._own.signals(),
                statistics=self._own.statistics(),
            )
            await self._workers.run(targets, on_news)

    def _while_small(self, targets: Sequence[ScrapeTarget]) -> Sequence[ScrapeTarget]:
        if self._options.most and len(targets) > MOST_PODS_ALONE:
            self._outgrown = True
            self._own.stop()
        return targets

    @property
    def _source(self) -> Scraper | ScrapeWorkers:
        return self._own if self._workers is None else self._workers
