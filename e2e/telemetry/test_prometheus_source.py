"""The operator's two signal sources on the same engines: Prometheus gives the same samples as a direct scrape."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from e2e.harness.addresses import LOOPBACK
from e2e.telemetry.prometheus_process import Engine, Prometheus
from forebay.cluster.client.server_clock import ServerClock
from forebay.controller.assembly import build_signal_source
from forebay.controller.options import MetricsSource, ScrapeOptions
from forebay.scaling.load.signals import EngineSample, PodSignals
from forebay.telemetry.direct.scraper import Scraper
from forebay.telemetry.direct.url_template import UrlTemplate
from forebay.telemetry.prometheus.prometheus_connection import PrometheusConnection
from forebay.telemetry.prometheus.prometheus_options import PrometheusOptions
from forebay.telemetry.prometheus.prometheus_source import PrometheusSource
from forebay.telemetry.signal_source import Clock, ScrapeTarget, SignalSource

FAST = {"a": 0.002, "b": 1e-6, "c": 1e-6, "d": 1e-9, "kv_tokens": 4096, "overhead": 0}
STUCK = FAST | {"a": 3600.0}
"""A step takes an hour, so that running and waiting requests do not change while they are compared."""
CLUSTER = 'eu "1"\\ {a=~".*"}'
NAMESPACE = "team.(a|b)"
WITHIN_SECONDS = 60.0

Signals = dict[str, PodSignals]


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Engine]]:
    folder = tmp_path_factory.mktemp("engines")
    made = [
        Engine(folder, "single", FAST),
        Engine(folder, "parallel", FAST, "--data-parallel-size=2", namespace=NAMESPACE),
        Engine(folder, "busy", STUCK),
        Engine(folder, "idle", FAST),
    ]
    with ExitStack() as stack:
        for engine in made:
            stack.enter_context(engine)
        yield made


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Prometheus]:
    server = Prometheus(tmp_path, CLUSTER)
    with server.process:
        yield server


def ask(engine: Engine, tokens: int) -> None:
    body = json.dumps({"prompt": [1] * 20, "max_tokens": tokens}).encode()
    request = urllib.request.Request(f"{engine.url}/v1/completions", body, {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=WITHIN_SECONDS).close()


@contextmanager
def asked_for_ever(engine: Engine, count: int) -> Iterator[None]:
    """Requests that stay in the engine: the first starts a step, and the others wait for its end."""
    body = json.dumps({"prompt": [1] * 20, "max_tokens": 5}).encode()
    head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with ExitStack() as stack:
        for _ in range(count):
            client = stack.enter_context(socket.create_connection((LOOPBACK, engine.port)))
            client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        yield


def quick() -> Clock:
    """A clock with short rounds and real ages."""
    return Clock(sleep=lambda seconds: asyncio.sleep(min(seconds, 0.2)))


def through(prometheus: Prometheus, cluster: str = CLUSTER) -> SignalSource:
    options = PrometheusOptions(url=prometheus.process.url, selector=f"cluster={cluster}")
    return PrometheusSource(
        lambda: PrometheusConnection(options), labels=options.labels, matchers=options.matchers, clock=quick()
    )


def direct() -> SignalSource:
    return Scraper(UrlTemplate(), clock=quick())


class Watch:
    """A running source."""

    def __init__(self, source: SignalSource, pods: Sequence[ScrapeTarget]) -> None:
        self.source = source
        self.pods = list(pods)
        self._news = asyncio.Event()
        self.work = asyncio.create_task(source.run(lambda: self.pods, self._news.set))

    async def until(self, accept: Callable[[Signals], bool]) -> Signals:
        async with asyncio.timeout(WITHIN_SECONDS):
            while not accept(signals := dict(self.source.signals())):
                assert not self.work.done()
                await self._news.wait()
                self._news.clear()
        return signals

    async def one(self, accept: Callable[[PodSignals], bool]) -> PodSignals:
        """The signals of the only pod."""
        uid = self.pods[0].uid
        return (await self.until(lambda signals: uid in signals and accept(signals[uid])))[uid]


@asynccontextmanager
async def watching(source: SignalSource, *pods: ScrapeTarget) -> AsyncIterator[Watch]:
    watch = Watch(source, pods)
    try:
        yield watch
    finally:
        source.stop()
        await asyncio.wait_for(watch.work, WITHIN_SECONDS)


def sample(signals: PodSignals) -> EngineSample:
    assert signals.sample is not None
    return signals.sample


def taken_after(moment: float) -> Callable[[PodSignals], bool]:
    return lambda signals: signals.sample is not None and signals.sample.taken_at > moment and signals.error is None


def all_taken_after(moment: float, count: int) -> Callable[[Signals], bool]:
    fresh = taken_after(moment)
    return lambda signals: len(signals) == count and all(fresh(one) for one in signals.values())


async def test_both_sources_agree_on_every_field(engines, prometheus):
    single, parallel, busy, _ = engines
    pods = [engine.target for engine in engines]
    prometheus.scrape(*pods)
    for engine in (single, single, parallel, parallel, parallel):
        await asyncio.to_thread(ask, engine, 8)
    with asked_for_ever(busy, 5):
        async with watching(direct(), *pods) as direct_watch, watching(through(prometheus), *pods) as watch:
            await direct_watch.until(
                lambda signals: (
                    (one := signals.get(busy.target.uid)) is not None
                    and one.sample is not None
                    and one.sample.in_flight == 5
                )
            )
            still = time.time()
            wanted = await direct_watch.until(all_taken_after(still, len(pods)))
            found = await watch.until(all_taken_after(still, len(pods)))
            asked_at = time.time()

    for pod in pods:
        ours, theirs = sample(found[pod.uid]), sample(wanted[pod.uid])
        assert replace(ours, taken_at=0) == replace(theirs, taken_at=0), pod.pod
        assert still < ours.taken_at < asked_at
    assert sample(found[busy.target.uid]).running_requests == 1
    assert sample(found[busy.target.uid]).waiting_requests == 4
    assert sample(found[parallel.target.uid]).finished_requests == 3
    assert sample(found[single.target.uid]).time_to_first_token is not None


async def test_a_restarted_engine_counts_from_zero_in_both_sources(engines, prometheus):
    single = engines[0]
    prometheus.scrape(single.target)
    await asyncio.to_thread(ask, single, 8)
    began = time.time()
    async with watching(through(prometheus), single.target) as watch:
        before = sample(await watch.one(taken_after(began)))
        assert before.generation_tokens
        await asyncio.to_thread(single.stop)
        down = await watch.one(lambda signals: signals.error is not None)
        assert down.error == f"Prometheus could not scrape it: target engines/{LOOPBACK}:{single.port} is down"
        assert sample(down).generation_tokens == before.generation_tokens

        await asyncio.to_thread(single.start)
        after = sample(await watch.one(taken_after(time.time())))
        assert (after.generation_tokens or 0) < before.generation_tokens


async def test_a_value_that_prometheus_repeats_grows_old(engines, prometheus):
    idle = engines[3]
    prometheus.scrape(idle.target)
    began = time.time()
    async with watching(through(prometheus), idle.target) as watch:
        await watch.one(taken_after(began))
        # Nobody scrapes from here on, and no marker ends the series.
        await asyncio.to_thread(prometheus.process.stop)
        gone = await watch.one(lambda signals: signals.error is not None)
        assert "no connection" in (gone.error or "")
        prometheus.scrape()
        await asyncio.to_thread(prometheus.process.start)
        back = await watch.one(lambda signals: signals.error is None)

    stopped = time.time()
    (repeated,) = prometheus.instant(f'vllm:num_requests_running{{pod="{idle.pod}"}}')
    assert repeated["value"][0] >= stopped - 1, "a plain query shows it as of now"
    assert sample(back).taken_at == sample(gone).taken_at


async def test_a_pod_that_is_gone_is_forgotten_and_another_cluster_is_not_seen(engines, prometheus):
    single, parallel, _, _ = engines
    pods = [single.target, parallel.target]
    prometheus.scrape(*pods)
    async with watching(through(prometheus), *pods) as watch:
        await watch.until(all_taken_after(0, 2))
        watch.pods.pop(0)
        await watch.until(lambda signals: signals.keys() == {parallel.target.uid})
    async with watching(through(prometheus, cluster="eu"), single.target) as watch:
        unseen = await watch.one(lambda signals: signals.error is not None)
        assert (unseen.sample, unseen.error) == (None, "Prometheus has not tried to scrape it in the last 150 s")


async def test_nan_is_missing_in_both_sources(prometheus):
    page = b"vllm:num_requests_running 1\nvllm:num_requests_waiting NaN\nvllm:kv_cache_usage_perc 0\n"
    with a_page(page) as port:
        pod = ScrapeTarget("uid", "team", "broken", LOOPBACK, port)
        prometheus.scrape(pod)
        async with watching(through(prometheus), pod) as watch:
            signals = await watch.one(lambda signals: "nan" in (signals.error or ""))
            assert signals.sample is None


async def test_the_flags_select_prometheus(engines, prometheus):
    idle = engines[3]
    prometheus.scrape(idle.target)
    options = ScrapeOptions(
        source=MetricsSource.PROMETHEUS, prometheus=PrometheusOptions(url=prometheus.process.url + "/")
    )
    async with watching(build_signal_source(options, ServerClock(), ("unused",)), idle.target) as watch:
        assert sample(await watch.one(taken_after(0))).running_requests == 0


@contextmanager
def a_page(text: bytes) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer((LOOPBACK, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
