"""Where signals come from, as the loop sees it: something that runs by itself and can be asked at any time."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from forebay.scaling.load.signals import PodSignals
from forebay.telemetry.direct.url_template import ScrapeTarget
from forebay.telemetry.scrape_statistics import ScrapeStatistics


class SignalSource(Protocol):
    """The engines themselves (`Scraper`) or a Prometheus that scrapes them (`PrometheusSource`)."""

    def signals(self) -> Mapping[str, PodSignals]:
        """By pod uid, of the pods of the last round; a pod of which nothing is known yet is absent."""
        ...

    def statistics(self) -> ScrapeStatistics: ...

    async def run(self, targets: Callable[[], Sequence[ScrapeTarget]], on_news: Callable[[], None]) -> None:
        """Rounds until `stop`. `targets` is asked at the start of each; `on_news` is told when there is news."""
        ...

    def stop(self) -> None:
        """Ends `run` soon."""
        ...
