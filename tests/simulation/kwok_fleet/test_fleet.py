"""A fleet of simulated pods: routing of requests, what becomes of them, and the metrics pages of the pods."""

from random import Random
from typing import Any

import pytest

from forebay.simulation.kwok_fleet.fleet import PodState, SimulatedFleet
from forebay.simulation.kwok_fleet.simulated_pod import EngineCommand
from forebay.simulation.kwok_fleet.stated_traffic import StatedArrivals, Steps, Traffic, Wave, parse_traffic
from forebay.simulation.vllm_server.process_metrics import own_usage
from forebay.telemetry.engine_sample import sample_of
from forebay.telemetry.metric_catalogue import catalogue_for

CHAT = ("team", "chat")
SERVE = ("vllm", "serve", "org/m", "--served-model-name=team/chat", "--max-num-seqs=8", "--max-model-len=4096")


def a_pod(name: str, **changes) -> PodState:
    values: dict[str, Any] = {
        "uid": f"uid-{name}",
        "namespace": "team",
        "name": name,
        "service": "chat",
        "ready": True,
        "serving": True,
        "command": EngineCommand(SERVE),
    }
    return PodState(**(values | changes))


def a_fleet(*pods: PodState, requests_per_second: float = 10.0, **traffic) -> SimulatedFleet:
    fleet = SimulatedFleet(Traffic(requests_per_second, **({"prompt_tokens": 100, "output_tokens": 50} | traffic)))
    fleet.observe(pods, wall_time=1000.0)
    return fleet


def pass_time(fleet: SimulatedFleet, seconds: float, tick: float = 0.25) -> None:
    end = fleet.now + seconds
    while fleet.now < end - 1e-9:
        fleet.advance(min(end, fleet.now + tick))


def page(fleet: SimulatedFleet, name: str) -> Any:
    """The sample that the operator's telemetry reads from a pod's page."""
    pod = fleet.pod("team", name)
    assert pod is not None
    return sample_of(pod.text(own_usage()).encode(), catalogue_for("0.32.0"), taken_at=0.0)


class TestRouting:
    def test_requests_go_to_the_least_busy_pod_in_rotation(self):
        fleet = a_fleet(a_pod("a"), a_pod("b"), requests_per_second=40)
        pass_time(fleet, 30)
        tally = fleet.summary()["team/chat"]
        assert tally["offered"] == pytest.approx(1200, rel=0.1)
        assert tally["completed"] + tally["outstanding"] == tally["offered"]
        assert (tally["unserved"], tally["refused"], tally["cut"], tally["rotation"]) == (0, 0, 0, 2)
        shares = [page(fleet, name).finished_requests for name in ("a", "b")]
        assert min(shares) > 0.4 * sum(shares)

    def test_out_of_rotation_means_no_new_requests_and_an_end_for_the_old(self):
        fleet = a_fleet(a_pod("a"), a_pod("b"), requests_per_second=40)
        pass_time(fleet, 10)
        fleet.observe([a_pod("a"), a_pod("b", serving=False)], wall_time=1010.0)
        before = (
            page(fleet, "b").finished_requests + page(fleet, "b").running_requests + page(fleet, "b").waiting_requests
        )
        pass_time(fleet, 10)
        drained = page(fleet, "b")
        assert (drained.running_requests, drained.waiting_requests) == (0, 0)
        assert drained.finished_requests == before
        assert fleet.summary()["team/chat"]["cut"] == 0

    def test_a_pod_that_goes_cuts_what_it_had(self):
        fleet = a_fleet(a_pod("a"), requests_per_second=20, output_tokens=2000)
        pass_time(fleet, 3)
        outstanding = fleet.summary()["team/chat"]["outstanding"]
        fleet.observe([], wall_time=1003.0)
        pass_time(fleet, 1)
        tally = fleet.summary()["team/chat"]
        assert tally["cut"] == outstanding > 0
        assert tally["unserved"] > 0
        assert fleet.pod("team", "a") is None

    def test_the_same_name_with_a_new_uid_starts_with_empty_counters(self):
        fleet = a_fleet(a_pod("a"))
        pass_time(fleet, 5)
        assert page(fleet, "a").finished_requests > 0
        fleet.observe([a_pod("a", uid="another")], wall_time=1005.0)
        assert page(fleet, "a").finished_requests == 0

    def test_what_is_too_long_or_finds_a_full_queue_is_refused(self):
        long = a_fleet(a_pod("a"), prompt_tokens=4000, output_tokens=200)
        pass_time(long, 2)
        assert long.summary()["team/chat"]["refused"] == long.summary()["team/chat"]["offered"] > 0
        full = a_fleet(a_pod("a", command=EngineCommand((*SERVE, "--max-num-queued-reqs=2"))), requests_per_second=200)
        pass_time(full, 2)
        assert full.summary()["team/chat"]["refused"] == page(full, "a").rejected_requests > 0

    def test_a_pod_without_an_engine_gets_nothing(self):
        """A command line that vLLM refuses, and the second rank of a pod group, which serves no API."""
        broken = a_pod("a", command=EngineCommand((*SERVE, "--fast")))
        headless = a_pod("b", command=EngineCommand((*SERVE, "--headless")))
        other = a_pod("c", command=EngineCommand(("sleep", "1")))
        fleet = a_fleet(broken, headless, other)
        pass_time(fleet, 2)
        assert fleet.summary()["team/chat"]["rotation"] == 0
        faults = [pod.fault for name in "abc" if (pod := fleet.pod("team", name))]
        assert faults == ["vLLM does not understand its command line", None, "the container does not run `vllm serve`"]

    def test_a_pod_that_is_not_ready_is_not_simulated_yet(self):
        fleet = a_fleet(a_pod("a", ready=False))
        assert fleet.pod("team", "a") is None
        fleet.observe([a_pod("a")], wall_time=1001.0)
        assert fleet.pod("team", "a") is not None


class TestPages:
    def test_overload_shows_as_queue_and_kv_use(self):
        command = EngineCommand(SERVE, (("ENGINE_SIM_PROFILE", '{"name": "8b-h100", "slow": 20, "kv_tokens": 5000}'),))
        fleet = a_fleet(a_pod("a", command=command))
        pass_time(fleet, 20)
        sample = page(fleet, "a")
        assert sample.running_requests == 8
        assert sample.waiting_requests > 20
        assert sample.kv_fraction == pytest.approx(8 * 8 / 311, abs=0.06)

    def test_ranks_share_the_load(self):
        fleet = a_fleet(a_pod("a", command=EngineCommand((*SERVE, "--data-parallel-size=2"))), requests_per_second=40)
        pass_time(fleet, 10)
        pod = fleet.pod("team", "a")
        assert pod is not None
        served = [engine.stats.generation_tokens for engine in pod.engines]
        assert min(served) > 0.4 * sum(served)
        assert "process_start_time_seconds" not in pod.text(own_usage())

    def test_a_page_carries_the_time_its_pod_began(self):
        fleet = a_fleet(a_pod("a"))
        pod = fleet.pod("team", "a")
        assert pod is not None
        assert "process_start_time_seconds 1000.0" in pod.text(own_usage())


class TestTraffic:
    def test_two_runs_are_the_same(self):
        summaries = []
        for _ in range(2):
            fleet = a_fleet(a_pod("a"))
            pass_time(fleet, 20)
            summaries.append(fleet.summary())
        assert summaries[0] == summaries[1]

    def test_traffic_of_a_service_overrides_the_default_from_now_on(self):
        fleet = a_fleet(a_pod("a"), a_pod("b", service="other"))
        fleet.set_traffic(CHAT, Traffic(0.0))
        fleet.set_default(Traffic(5.0, 10, 10))
        pass_time(fleet, 10)
        assert fleet.summary()["team/chat"]["offered"] == 0
        assert fleet.summary()["team/other"]["offered"] == pytest.approx(50, rel=0.4)
        assert fleet.traffic(CHAT) == Traffic(0.0)

    def test_arrivals_follow_the_shape(self):
        steps = Traffic(10, shape=Steps(((0, 0), (100, 1), (200, 3)), repeat_seconds=300))
        arrivals = StatedArrivals(steps, began=50.0, draw=Random(1))
        numbers = [
            sum(1 for tick in range(200) for _ in arrivals.between(start + tick / 2, start + tick / 2 + 0.5))
            for start in (50.0, 150.0, 250.0, 350.0)
        ]
        assert numbers[0] < 30
        assert numbers[1] == pytest.approx(1000, rel=0.15)
        assert numbers[2] == pytest.approx(3000, rel=0.1)
        assert numbers[3] < 60

    @pytest.mark.parametrize(("seconds", "factor"), [(0, 0.2), (150, 0.6), (300, 1.0), (450, 0.6), (600, 0.2)])
    def test_a_wave_begins_low(self, seconds, factor):
        assert Wave(period_seconds=600, low=0.2).factor(seconds) == pytest.approx(factor)

    def test_reading_what_is_stated(self):
        given = {"requestsPerSecond": 12, "shape": {"wave": {"periodSeconds": 60, "low": 0.5}}}
        assert parse_traffic(given, Traffic(1, 300, 100), "x") == Traffic(12.0, 300, 100, Wave(60.0, 0.5))
        steps = {"shape": {"steps": [[60, 3], [0, 1]], "repeatSeconds": 120}}
        assert parse_traffic(steps, Traffic(1), "x").shape == Steps(((0.0, 1.0), (60.0, 3.0)), 120.0)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            pytest.param([], r"team/chat: \[\] is not an object", id="a list"),
            pytest.param({"rps": 1}, "team/chat.rps: not known; use requestsPerSecond", id="unknown key"),
            pytest.param({"requestsPerSecond": "1"}, "'1' is not a number", id="text"),
            pytest.param({"requestsPerSecond": -1}, "-1 is below 0", id="negative"),
            pytest.param({"promptTokens": 0}, "0 is below 1", id="no prompt"),
            pytest.param({"shape": {"steps": [1]}}, "write ", id="steps that are none"),
            pytest.param(
                {"shape": {"wave": {"period": 3}}}, "shape.wave.period: not known", id="unknown key in a shape"
            ),
        ],
    )
    def test_refusals(self, given, message):
        with pytest.raises(ValueError, match=message):
            parse_traffic(given, Traffic(), "team/chat")
