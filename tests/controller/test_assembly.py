import os
import subprocess
import sys
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from forebay.cluster.client.server_clock import ServerClock
from forebay.cluster.read.observer import EngineAddress
from forebay.controller.assembly import Operator, build_signal_source, settings_for_interval
from forebay.controller.options import MetricsSource, ScrapeOptions
from forebay.telemetry.direct.fleet_scraper import FleetScraper
from forebay.telemetry.prometheus.prometheus_options import PrometheusOptions
from forebay.telemetry.prometheus.prometheus_source import PrometheusSource
from forebay.world.settings import Settings
from tests.builders.world import NOW

SOURCE = Path(__file__).parents[2] / "operator"


@pytest.mark.parametrize(
    ("interval", "stale", "lost"),
    [
        pytest.param(5.0, 30.0, 300.0, id="a small fleet, as the flags say"),
        pytest.param(16.0, 48.0, 300.0, id="2,000 pods, asked every 16 s"),
        pytest.param(80.0, 240.0, 480.0, id="10,000 pods"),
    ],
)
def test_limits_on_signal_age_grow_with_the_scrape_interval(interval: float, stale: float, lost: float):
    settings = settings_for_interval(Settings(stale_after_seconds=30.0, lost_after_seconds=300.0, max_gpus=8), interval)
    assert (settings.stale_after_seconds, settings.lost_after_seconds, settings.max_gpus) == (stale, lost, 8)


def test_the_flags_choose_the_source():
    prometheus = PrometheusOptions(url="http://prometheus:9090")
    assert isinstance(build_signal_source(ScrapeOptions(), ServerClock(), ("worker",)), FleetScraper)
    options = ScrapeOptions(source=MetricsSource.PROMETHEUS, prometheus=prometheus)
    assert isinstance(build_signal_source(options, ServerClock(), ("worker",)), PrometheusSource)


def test_engines_are_scraped_with_the_age_of_their_pods_although_the_servers_clock_was_set():
    engine = EngineAddress("uid", "team", "chat-0", "10.0.0.7", 8000, None, NOW, "chat")
    clock = ServerClock(monotonic=lambda: 0.0, wall=lambda: NOW)
    for ahead in (0.0, -3600.0, -3600.0, -3600.0):
        clock.answered(formatdate(NOW + ahead, usegmt=True), 0.0, 0.0)
    observer, leader = SimpleNamespace(engines=lambda: (engine,)), SimpleNamespace(leading=True)
    unused: Any = None
    operator = Operator(cast(Any, observer), unused, unused, unused, cast(Any, leader), unused, clock)
    (target,) = operator.targets()
    assert (target.created_at, target.service) == (NOW - 3600.0, "chat")


def test_the_prometheus_client_is_loaded_only_if_used():
    script = "import sys, forebay.controller.assembly; print('prometheus_api_client' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("False\n", "")
