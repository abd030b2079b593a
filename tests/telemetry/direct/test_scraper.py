"""The scraper against a real server on loopback: it keeps the last good sample of each pod, and pods fail alone.

Time stands still unless a test moves it, so rounds, intervals and ages are exact. Only `timeout_seconds` is real.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest
import pytest_asyncio

from forebay.telemetry.direct.scraper import Scraper, interval_seconds
from forebay.telemetry.direct.url_template import UrlTemplate
from forebay.telemetry.scrape_failure import ScrapeFailure
from forebay.telemetry.signal_source import ScrapeTarget
from tests.telemetry.engine_server import ANSWER, EngineServer, an_engine_server
from tests.telemetry.fleet import LIMIT_SECONDS, LONG_TIMEOUT, ManualClock, a_fleet


@pytest_asyncio.fixture
async def server() -> AsyncIterator[EngineServer]:
    async with an_engine_server() as engines:
        yield engines


async def test_a_pod_is_read(server):
    async with a_fleet(server, "engine-0") as fleet:
        await fleet.next_news()

        signals = fleet.scraper.signals()["uid-engine-0"]
        assert signals.error is None
        assert signals.sample is not None
        assert (signals.sample.taken_at, signals.sample.running_requests) == (1000.0, 4.0)
        assert signals.sample.waiting_requests == 28.0


async def test_the_request_asks_for_plain_text_and_keeps_no_connection(server):
    async with a_fleet(server, "engine-0") as fleet:
        await fleet.next_news()

        assert server.headers["Accept"] == "text/plain;version=0.0.4"
        assert server.headers["Accept-Encoding"] == "identity"
        assert server.headers["Connection"] == "close"


async def test_a_proxy_in_the_environment_is_not_used(server, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with a_fleet(server, "engine-0") as fleet:
        await fleet.next_news()

        assert fleet.error("engine-0") is None


@pytest.mark.parametrize(
    ("pod", "failure", "message"),
    [
        pytest.param("broken-0", ScrapeFailure.STATUS, "answered HTTP 500 Internal Server Error", id="an error status"),
        pytest.param("moved-0", ScrapeFailure.STATUS, "answered HTTP 302 Found", id="a redirect is not followed"),
        pytest.param("half-0", ScrapeFailure.CUT, "the response ended before its announced length", id="half a body"),
        pytest.param("slow-0", ScrapeFailure.TIMEOUT, "no answer within 0.05 s", id="no answer"),
        pytest.param("drip-0", ScrapeFailure.TIMEOUT, "no answer within 0.05 s", id="an answer that does not end"),
    ],
)
async def test_a_failed_scrape_gives_no_sample_and_a_reason(server, pod, failure, message):
    short_timeout = replace(LONG_TIMEOUT, timeout_seconds=0.05)
    async with a_fleet(
        server, pod, settings=short_timeout if failure is ScrapeFailure.TIMEOUT else LONG_TIMEOUT
    ) as fleet:
        await fleet.next_news()

        assert fleet.running(pod) is None
        assert fleet.error(pod) == f"http://127.0.0.1:{server.port}/default/{pod}: {message}"
        assert fleet.scraper.statistics().failures[failure] == 1
        assert server.asked.total() == 1


@pytest.mark.parametrize(
    ("answer", "failure", "message"),
    [
        pytest.param("", ScrapeFailure.NOT_AN_ENGINE, "has no series that starts with vllm:", id="empty"),
        pytest.param("<html>Welcome</html>\n", ScrapeFailure.NOT_AN_ENGINE, "21 bytes has no series", id="a page"),
        pytest.param(ANSWER[:-20], ScrapeFailure.MALFORMED, "truncated", id="truncated, but the length fits"),
        pytest.param(
            "vllm:num_requests_running four\n", ScrapeFailure.MALFORMED, "'four' of", id="garbage for a number"
        ),
        pytest.param(
            "vllm:num_requests_running NaN\n",
            ScrapeFailure.SIGNAL_MISSING,
            "vllm:num_requests_running is nan",
            id="NaN",
        ),
        pytest.param("vllm:x 1\n" * 200_000, ScrapeFailure.TOO_LARGE, "is longer than 1048576 bytes", id="huge"),
    ],
)
async def test_an_unusable_response_gives_no_sample_and_a_reason(server, answer, failure, message):
    server.answers["engine-0"] = answer
    async with a_fleet(server, "engine-0") as fleet:
        await fleet.next_news()

        assert fleet.running("engine-0") is None
        assert message in (fleet.error("engine-0") or "")
        assert fleet.scraper.statistics().failures[failure] == 1


async def test_a_refused_connection_gives_no_sample(server):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: refuses, and nobody else gets the port
        async with a_fleet(server) as fleet:
            fleet.pods = [replace(fleet.target("engine-0"), port=closed.getsockname()[1])]
            await fleet.next_news()

            assert fleet.running("engine-0") is None
            assert "no connection" in (fleet.error("engine-0") or "")
            assert fleet.scraper.statistics().failures[ScrapeFailure.CONNECTION] == 1


async def test_a_response_that_is_not_http_gives_no_sample(server):
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
        await writer.drain()
        writer.close()

    other = await asyncio.start_server(babble, "127.0.0.1", 0)
    async with other, a_fleet(server) as fleet:
        fleet.pods = [replace(fleet.target("engine-0"), port=other.sockets[0].getsockname()[1])]
        await fleet.next_news()

        assert "is not HTTP" in (fleet.error("engine-0") or "")


async def test_a_pod_without_an_address_gives_no_sample(server):
    async with a_fleet(server) as fleet:
        fleet.pods = [replace(fleet.target("engine-0"), ip="")]
        await fleet.next_news()

        assert "no usable address" in (fleet.error("engine-0") or "")


async def test_the_last_good_sample_stays_and_ages(server):
    async with a_fleet(server, "engine-0") as fleet:
        await fleet.next_news()
        server.answers["engine-0"] = "out of order\n"
        await fleet.next_round()
        await fleet.next_round()

        signals = fleet.scraper.signals()["uid-engine-0"]
        assert signals.sample is not None
        assert signals.sample.running_requests == 4.0
        assert fleet.time.clock().now() - signals.sample.taken_at == 10.0
        assert "has no series" in (signals.error or "")


async def test_a_good_answer_clears_the_error(server):
    server.answers["engine-0"] = "out of order\n"
    async with a_fleet(server, "engine-0") as fleet:
        await fleet.next_news()
        del server.answers["engine-0"]
        await fleet.next_round()

        assert (fleet.running("engine-0"), fleet.error("engine-0")) == (4.0, None)


async def test_a_deleted_pod_is_forgotten(server):
    async with a_fleet(server, "engine-0", "engine-1") as fleet:
        await fleet.next_news()
        fleet.pods = [fleet.target("engine-1")]
        await fleet.next_round()

        assert set(fleet.scraper.signals()) == {"uid-engine-1"}


async def test_a_pod_deleted_during_its_scrape_is_forgotten(server):
    async with a_fleet(server, "slow-0") as fleet:
        await fleet.outlast_a_round()
        fleet.pods = [fleet.target("engine-0")]
        server.release.set()
        await fleet.next_news()

        assert set(fleet.scraper.signals()) == {"uid-engine-0"}


async def test_after_forget_a_failed_scrape_does_not_bring_the_last_sample_back(server):
    async with a_fleet(server, "engine-0") as fleet:
        await fleet.next_news()
        fleet.scraper.forget()
        assert fleet.scraper.signals() == {}
        server.answers["engine-0"] = "out of order\n"
        await fleet.next_round()

        assert fleet.scraper.signals()["uid-engine-0"].sample is None


async def test_a_clock_that_is_set_during_a_scrape_dates_its_sample_by_the_new_time(server):
    async with a_fleet(server, "slow-0") as fleet:
        await fleet.outlast_a_round()
        fleet.time.set_by = 3600.0
        server.release.set()
        await fleet.next_round()

        sample = fleet.scraper.signals()["uid-slow-0"].sample
        assert sample is not None
        assert sample.taken_at == 1000.0 + 3600.0


async def test_a_slow_pod_does_not_delay_the_others(server):
    """Results are reported after 1.5 s, and that of the slow pod when it arrives.

    Of three pods on two slots the last is asked once the second has been read: the slow one holds the first slot.
    """
    pods = ("slow-0", "engine-0", "slow-1")
    async with a_fleet(server, *pods, settings=replace(LONG_TIMEOUT, concurrency=2)) as fleet:
        await asyncio.wait_for(server.was_asked["slow-1"].wait(), LIMIT_SECONDS)
        await fleet.time.wake(until=1.5)
        assert await fleet.next_news() == 1.5
        assert set(fleet.scraper.signals()) == {"uid-engine-0"}

        server.release.set()
        assert await fleet.next_news() == 1.5
        late = fleet.scraper.signals()["uid-slow-0"].sample
        assert late is not None
        assert (late.running_requests, late.taken_at) == (4.0, 1000.0)


async def test_a_pod_is_never_scraped_twice_at_once(server):
    async with a_fleet(server, "slow-0") as fleet:
        await fleet.outlast_a_round()
        await fleet.outlast_a_round()
        await fleet.time.asleep(until=11.5)

        assert fleet.scraper.statistics().rounds == 2
        assert server.asked["slow-0"] == 1


async def test_concurrent_scrapes_are_limited(server):
    pods = [f"slow-{number}" for number in range(8)]
    async with a_fleet(server, *pods, settings=replace(LONG_TIMEOUT, concurrency=3)) as fleet:
        for pod in pods[:3]:
            await asyncio.wait_for(server.was_asked[pod].wait(), LIMIT_SECONDS)
        server.release.set()
        await fleet.next_news()

        assert server.asked.total() == 8
        assert server.most_at_once == 3
        assert len(fleet.scraper.signals()) == 8


async def test_pods_that_failed_cannot_fill_the_slots_of_the_healthy(server):
    """Two pods fail and then hang. On the one slot of healthy pods, the second is scraped after the first."""
    pods = ("slow-0", "slow-1", "engine-0", "engine-1")
    server.answers = {"slow-0": "out of order\n", "slow-1": "out of order\n"}
    async with a_fleet(server, *pods[:2], settings=replace(LONG_TIMEOUT, concurrency=1)) as fleet:
        await fleet.next_news()
        server.answers = {}
        fleet.pods = [fleet.target(pod) for pod in pods]
        await fleet.time.wake(until=5.0)
        await asyncio.wait_for(server.was_asked["engine-1"].wait(), LIMIT_SECONDS)

        assert fleet.running("engine-0") == 4.0


async def test_rounds_keep_the_interval_from_start_to_start(server):
    async with a_fleet(server, "engine-0") as fleet:
        assert await fleet.next_news() == 0.0
        await fleet.next_round()
        await fleet.next_round()

        assert server.asked["engine-0"] == 3
        assert fleet.time.seconds == 10.0


@pytest.mark.parametrize(
    ("pods", "seconds"),
    [
        pytest.param(0, 5.0, id="nobody"),
        pytest.param(1, 5.0, id="one"),
        pytest.param(625, 5.0, id="the largest fleet at the shortest interval"),
        pytest.param(1600, 12.8, id="grows with the fleet"),
        pytest.param(2000, 16.0, id="2,000 are asked twice before they are stale"),
    ],
)
def test_the_interval_grows_with_the_fleet(pods, seconds):
    assert interval_seconds(pods) == seconds


def test_the_interval_is_at_least_the_configured_one():
    assert (interval_seconds(1, at_least=30), interval_seconds(1, at_least=1)) == (30.0, 5.0)


async def test_an_empty_fleet_reports_no_news(server):
    async with a_fleet(server) as fleet:
        await fleet.time.asleep(until=5.0)

        assert fleet.news.empty()
        assert fleet.scraper.statistics().rounds == 1


async def test_stop_ends_a_round_under_way(server):
    async with a_fleet(server, "slow-0") as fleet:
        await fleet.time.asleep(until=1.5)
        fleet.scraper.stop()
        await asyncio.wait_for(fleet.work, LIMIT_SECONDS)

        assert fleet.scraper.signals() == {}


async def test_rounds_continue_after_a_failure(server, caplog):
    calls: list[int] = []

    def targets() -> Sequence[ScrapeTarget]:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("no world yet")
        return [ScrapeTarget("uid", "default", "engine-0", ip="", port=8000)]

    time, ended = ManualClock(), asyncio.Event()
    scraper = Scraper(UrlTemplate(), clock=time.clock())
    work = asyncio.create_task(scraper.run(targets, ended.set))
    await time.wake(until=5.0)
    await asyncio.wait_for(ended.wait(), LIMIT_SECONDS)
    scraper.stop()
    await asyncio.wait_for(work, LIMIT_SECONDS)

    assert len(calls) == 2
    assert "a scrape round failed" in caplog.text


async def test_an_unknown_engine_version_warns_once(server, caplog):
    async with a_fleet(server) as fleet:
        fleet.pods = [replace(fleet.target(f"engine-{number}"), engine_version="0.99.0") for number in range(3)]
        await fleet.next_news()
        await fleet.next_round()

        assert fleet.running("engine-0") == 4.0
        assert caplog.text.count("engine version '0.99.0' is not in the metric catalogue") == 1
        assert fleet.scraper.statistics().unknown_versions == ("0.99.0",)


async def test_statistics_count_scrapes_and_failures(server):
    async with a_fleet(server, "engine-0", "engine-1", "broken-0") as fleet:
        await fleet.next_news()
        await fleet.next_round()

        statistics = fleet.scraper.statistics()
        assert (statistics.rounds, statistics.scrapes, statistics.last_round_pods) == (2, 6, 3)
        assert statistics.durations.count == 6
        assert {failure: count for failure, count in statistics.failures.items() if count} == {ScrapeFailure.STATUS: 2}
        assert set(statistics.failures) == set(ScrapeFailure)
