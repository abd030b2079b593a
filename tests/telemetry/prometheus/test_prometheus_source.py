"""Prometheus as the source: its samples equal those of the pods themselves, and have the age of the scrape.

Time stands still unless a test moves it; Prometheus is a recording in memory.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

import pytest

from forebay.scaling.load.signals import EngineSample
from forebay.telemetry.engine_sample import sample_of
from forebay.telemetry.metric_catalogue import catalogue_for
from forebay.telemetry.prometheus.prometheus_source import PrometheusSource
from forebay.telemetry.scrape_failure import ScrapeFailed, ScrapeFailure
from forebay.telemetry.signal_source import ScrapeTarget
from tests.telemetry.engine_server import ANSWER
from tests.telemetry.fleet import LIMIT_SECONDS, ManualClock
from tests.telemetry.recorded_prometheus import RecordedPrometheus

VERSION = "0.32.0"
TWO_ENGINES = """\
vllm:num_requests_running{engine="0",model_name="m"} 3
vllm:num_requests_running{engine="1",model_name="m"} 4
vllm:num_requests_waiting{engine="0",model_name="m"} 1
vllm:num_requests_waiting{engine="1",model_name="m"} 2
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.75
vllm:generation_tokens_total{engine="0",model_name="m"} 100
vllm:generation_tokens_total{engine="1",model_name="m"} 200
"""


def engine(running: float | str = 2, tokens: float | str = 50, kv: str = "vllm:kv_cache_usage_perc") -> str:
    return (
        f'vllm:num_requests_running{{engine="0"}} {running}\n'
        'vllm:num_requests_waiting{engine="0"} 0\n'
        f'{kv}{{engine="0"}} 0.5\n'
        f'vllm:generation_tokens_total{{engine="0"}} {tokens}\n'
    )


@dataclass
class Fleet:
    """A running source with recorded pods. Our clock and that of Prometheus agree unless a test changes one."""

    prometheus: RecordedPrometheus
    time: ManualClock
    source: PrometheusSource
    pods: Sequence[ScrapeTarget] = ()
    news: asyncio.Queue[None] = field(default_factory=asyncio.Queue)

    async def next_news(self) -> None:
        await asyncio.wait_for(self.news.get(), LIMIT_SECONDS)

    async def next_round(self, seconds: float = 5.0) -> None:
        self.prometheus.now += seconds
        await self.time.wake(until=self.time.seconds + seconds)
        await self.next_news()

    def sample(self, pod: str = "chat-0") -> EngineSample | None:
        return self.source.signals()[f"uid-{pod}"].sample

    def sampled(self, pod: str = "chat-0") -> EngineSample:
        sample = self.sample(pod)
        assert sample is not None
        return sample

    def error(self, pod: str = "chat-0") -> str | None:
        return self.source.signals()[f"uid-{pod}"].error

    def failures(self) -> dict[ScrapeFailure, int]:
        return {failure: count for failure, count in self.source.statistics().failures.items() if count}


def pod(name: str = "chat-0", *, version: str | None = VERSION, created_at: float = 0.0) -> ScrapeTarget:
    return ScrapeTarget(f"uid-{name}", "default", name, "10.0.0.1", 8000, version, created_at)


@asynccontextmanager
async def a_fleet(prometheus: RecordedPrometheus, *pods: ScrapeTarget) -> AsyncIterator[Fleet]:
    time = ManualClock()
    fleet = Fleet(prometheus, time, PrometheusSource(prometheus.connect, clock=time.clock()), pods or (pod(),))
    work = asyncio.create_task(fleet.source.run(lambda: fleet.pods, lambda: fleet.news.put_nowait(None)))
    try:
        await fleet.next_news()
        yield fleet
        fleet.source.stop()
        await asyncio.wait_for(work, LIMIT_SECONDS)
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work


@pytest.fixture
def prometheus() -> RecordedPrometheus:
    return RecordedPrometheus()


@pytest.mark.parametrize("text", [ANSWER, TWO_ENGINES], ids=["a real answer", "two data-parallel engines"])
async def test_a_scrape_reads_as_the_engines_own_answer(prometheus, text):
    prometheus.scraped("chat-0", text, at=990.5)
    async with a_fleet(prometheus) as fleet:
        assert fleet.sample() == sample_of(text.encode(), catalogue_for(VERSION), 990.5)
        assert fleet.error() is None


async def test_data_parallel_engines_are_one_pod(prometheus):
    prometheus.scraped("chat-0", TWO_ENGINES, at=990)
    async with a_fleet(prometheus) as fleet:
        sample = fleet.sampled()
        assert (sample.running_requests, sample.waiting_requests, sample.kv_fraction) == (7.0, 3.0, 0.75)
        assert sample.generation_tokens == 300.0


async def test_one_query_per_metric_serves_the_whole_fleet(prometheus):
    pods = [pod(f"chat-{number}") for number in range(50)]
    for each in pods:
        prometheus.scraped(each.pod, engine(), at=990)
    async with a_fleet(prometheus, *pods) as fleet:
        names = [query.partition("{")[0] for query in prometheus.asked]
        assert len(names) == len(set(names)) < 50
        assert {signals.error for signals in fleet.source.signals().values()} == {None}


async def test_a_repeated_value_keeps_its_age(prometheus):
    prometheus.scraped("chat-0", engine(), at=990)
    async with a_fleet(prometheus) as fleet:
        for _ in range(4):
            await fleet.next_round()

        assert fleet.sampled().taken_at == 990.0
        assert prometheus.asked[-2:] == ["time()", 'up{namespace=~"default",pod!=""}[150s]'], "nothing new to read"


async def test_a_new_scrape_is_read_in_the_next_round(prometheus):
    prometheus.scraped("chat-0", engine(running=2), at=990)
    async with a_fleet(prometheus) as fleet:
        prometheus.scraped("chat-0", engine(running=9), at=1003)
        await fleet.next_round()

        assert (fleet.sampled().taken_at, fleet.sampled().running_requests) == (1003.0, 9.0)


async def test_samples_of_older_scrapes_are_not_mixed_in(prometheus):
    prometheus.scraped("chat-0", engine(running=2, tokens=50), at=985)
    prometheus.scraped("chat-0", engine(running=3).replace("vllm:generation_tokens_total", "vllm:gone"), at=995)
    prometheus.scraped("slow-0", engine(), at=970)  # so that ranges reach back over both
    async with a_fleet(prometheus, pod(), pod("slow-0")) as fleet:
        assert fleet.sampled().running_requests == 3.0
        assert fleet.sampled().generation_tokens is None
        assert "vllm:generation_tokens_total" in fleet.sampled().missing


@pytest.mark.parametrize("skew", [-600.0, 600.0], ids=["Prometheus' clock is behind", "Prometheus' clock is ahead"])
async def test_ages_are_computed_by_one_clock(prometheus, skew):
    prometheus.now += skew
    prometheus.scraped("chat-0", engine(), at=prometheus.now - 7)
    async with a_fleet(prometheus) as fleet:
        assert fleet.sampled().taken_at == 993.0


async def test_after_forget_the_last_scrape_is_read_anew_and_dated_by_the_present_clock(prometheus):
    prometheus.scraped("chat-0", engine(), at=990)
    async with a_fleet(prometheus) as fleet:
        fleet.time.set_by = 3600.0
        fleet.source.forget()
        assert fleet.source.signals() == {}
        await fleet.next_round()

        assert fleet.sampled().taken_at == 990.0 + 3600.0


async def test_a_round_during_which_the_clock_was_set_is_dropped(prometheus):
    prometheus.scraped("chat-0", engine(), at=990)
    async with a_fleet(prometheus) as fleet:
        prometheus.before_answer = fleet.source.forget
        await fleet.next_round()

        assert fleet.source.signals() == {}


async def test_a_restarted_engine_is_seen_to_count_from_zero(prometheus):
    prometheus.scraped("chat-0", engine(tokens=5000), at=990)
    async with a_fleet(prometheus) as fleet:
        prometheus.failed("chat-0", at=1001)
        await fleet.next_round()
        assert fleet.sampled().generation_tokens == 5000.0
        assert "engines/chat-0:8000 is down" in (fleet.error() or "")

        prometheus.scraped("chat-0", engine(tokens=10), at=1006)
        await fleet.next_round()
        assert (fleet.sampled().generation_tokens, fleet.error()) == (10.0, None)


async def test_a_deleted_pod_leaves_no_signals(prometheus):
    prometheus.scraped("chat-0", engine(), at=990)
    prometheus.scraped("chat-1", engine(), at=990)
    async with a_fleet(prometheus, pod("chat-0"), pod("chat-1")) as fleet:
        fleet.pods = [pod("chat-1")]
        await fleet.next_round()

        assert fleet.source.signals().keys() == {"uid-chat-1"}


async def test_a_new_pod_does_not_inherit_from_an_older_one_of_its_name(prometheus):
    prometheus.scraped("chat-0", engine(running=9), at=990)
    async with a_fleet(prometheus, pod(created_at=995)) as fleet:
        assert fleet.sample() is None
        assert "since it was created" in (fleet.error() or "")

        prometheus.scraped("chat-0", engine(running=1), at=1004)
        await fleet.next_round()
        assert fleet.sampled().running_requests == 1.0


async def test_an_outage_keeps_the_last_samples(prometheus):
    prometheus.scraped("chat-0", engine(), at=990)
    async with a_fleet(prometheus) as fleet:
        prometheus.failure = ScrapeFailed(ScrapeFailure.TIMEOUT, "no answer in time")
        await fleet.next_round()
        assert (fleet.sampled().taken_at, fleet.error()) == (990.0, "no answer in time")
        assert fleet.failures() == {ScrapeFailure.TIMEOUT: 1}

        prometheus.failure = None
        await fleet.next_round()
        assert fleet.error() is None


async def test_a_pod_without_a_target_gives_no_sample(prometheus):
    async with a_fleet(prometheus) as fleet:
        assert fleet.sample() is None
        assert "150 s" in (fleet.error() or "")


async def test_a_target_without_vllm_series_is_not_an_engine(prometheus):
    prometheus.scraped("chat-0", "", at=990, job="mesh")
    async with a_fleet(prometheus) as fleet:
        for _ in range(2):
            assert fleet.sample() is None
            assert "mesh/chat-0:8000 has no vLLM series" in (fleet.error() or "")
            await fleet.next_round()


async def test_a_sidecar_that_is_scraped_too_changes_nothing(prometheus):
    prometheus.scraped("chat-0", engine(), at=990)
    async with a_fleet(prometheus) as fleet:
        prometheus.scraped("chat-0", "", at=1002, job="mesh")
        await fleet.next_round()

        assert (fleet.sampled().taken_at, fleet.error()) == (990.0, None)


async def test_a_pod_that_two_jobs_scrape_is_not_counted_twice(prometheus):
    prometheus.scraped("chat-0", engine(running=2), at=990, job="a")
    prometheus.scraped("chat-0", engine(running=3), at=992, job="b")
    async with a_fleet(prometheus) as fleet:
        assert (fleet.sampled().taken_at, fleet.sampled().running_requests) == (992.0, 3.0)


async def test_a_pair_of_prometheus_servers_is_not_counted_twice(prometheus):
    prometheus.scraped("chat-0", engine(running=2), at=990.1, prometheus_replica="a")
    prometheus.scraped("chat-0", engine(running=3), at=992.7, prometheus_replica="b")
    prometheus.scraped("slow-0", engine(), at=970)  # so that ranges reach back over both
    async with a_fleet(prometheus, pod(), pod("slow-0")) as fleet:
        assert (fleet.sampled().taken_at, fleet.sampled().running_requests) == (992.7, 3.0)


async def test_nan_is_missing(prometheus):
    prometheus.scraped("chat-0", engine(running=2, tokens="NaN"), at=980)
    async with a_fleet(prometheus) as fleet:
        assert (fleet.sampled().running_requests, fleet.sampled().generation_tokens) == (2.0, None)

        prometheus.scraped("chat-0", engine(running="NaN"), at=1002)
        await fleet.next_round()
        assert fleet.sampled().taken_at == 980.0
        assert "engines/chat-0:8000: vllm:num_requests_running is nan" in (fleet.error() or "")
        await fleet.next_round()
        assert fleet.error() is not None, "it stays unknown until a better scrape"
        assert fleet.failures() == {ScrapeFailure.SIGNAL_MISSING: 2}


async def test_an_older_engine_is_read_by_its_names(prometheus):
    prometheus.scraped("chat-0", engine(kv="vllm:gpu_cache_usage_perc"), at=990)
    async with a_fleet(prometheus, pod(version="0.11.0")) as fleet:
        assert fleet.sampled().kv_fraction == 0.5


async def test_an_unknown_version_warns_once(prometheus, caplog):
    prometheus.scraped("chat-0", engine(), at=990)
    async with a_fleet(prometheus, pod(version="9.9.9")) as fleet:
        await fleet.next_round()

        assert fleet.source.statistics().unknown_versions == ("9.9.9",)
        assert sum("not in the metric catalogue" in record.message for record in caplog.records) == 1


@pytest.mark.parametrize(
    ("spacing", "interval"),
    [
        pytest.param(5, 5.0, id="as often as we ask"),
        pytest.param(30, 30.0, id="the Prometheus operator's usual pace"),
        pytest.param(75, 60.0, id="too slow to be waited for"),
    ],
)
async def test_the_interval_is_the_slower_of_both_intervals(prometheus, spacing, interval):
    for at in (1000 - spacing, 1000):
        prometheus.scraped("chat-0", engine(), at=at)
    async with a_fleet(prometheus) as fleet:
        assert fleet.source.statistics().interval_seconds == interval


@pytest.mark.parametrize(
    "result",
    [
        None,
        {},
        [{"metric": {"pod": 1}, "values": []}],
        [{"metric": {}, "values": [[1, 2]]}],
        [{"metric": {}, "values": [[1, "x"]]}],
        [{"metric": {}, "values": [1]}],
        ["x"],
    ],
)
async def test_a_malformed_response_gives_no_sample(prometheus, result):
    prometheus.scraped("chat-0", engine(), at=990)
    ask = prometheus.ask
    prometheus.ask = lambda query, at=None: ask(query, at) if query == "time()" else result
    async with a_fleet(prometheus) as fleet:
        assert fleet.sample() is None
        assert fleet.failures() == {ScrapeFailure.MALFORMED: 1}


async def test_an_internal_error_is_reported_for_each_pod(prometheus):
    prometheus.failure = RuntimeError("broken")
    async with a_fleet(prometheus) as fleet:
        assert "RuntimeError('broken')" in (fleet.error() or "")
        assert fleet.failures() == {ScrapeFailure.INTERNAL: 1}


async def test_an_empty_fleet_sends_no_query(prometheus):
    async with a_fleet(prometheus) as fleet:
        fleet.pods = []
        before = len(prometheus.asked)
        await fleet.next_round()

        assert len(prometheus.asked) == before
        assert fleet.source.signals() == {}


async def test_the_connection_is_closed_at_the_end(prometheus):
    async with a_fleet(prometheus):
        pass
    assert (prometheus.connected, prometheus.closed) == (1, 1)


async def test_infinity_in_a_histogram_is_its_last_bound(prometheus):
    prometheus.scraped("chat-0", ANSWER, at=990)
    async with a_fleet(prometheus) as fleet:
        histogram = fleet.sampled().queue_time
        assert histogram is not None
        assert histogram.bounds[-1] == math.inf
        assert replace(fleet.sampled(), missing=()).time_to_first_token is not None
