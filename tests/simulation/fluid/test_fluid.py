"""The fluid model against discrete events and against published measurements.

Tolerances: a fluid has no single requests. An arrival joins at a mean time between two engine steps, time advances by
2.5 seconds, and replicas with the same load are equal. So a steady state must agree within 5 %, and the median time to
the first token, which is only estimated, within 15 %. In an hour with a ramp and a step, decisions may differ by some
seconds, which shifts starts that take minutes. There, GPU-hours must agree within 5 %, the mean of running sequences
within 8 %, and attainment within two percentage points.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from forebay.simulation.cluster.closed_loop import LoopOutcome
from forebay.simulation.cluster.planner_control import PlannerControl
from forebay.simulation.cluster.policy import Control, PolicyControl, PolicyView
from forebay.simulation.cluster.scrape_model import ScrapeTiming
from forebay.simulation.compare.comparison import ComparedCase, Comparison, true_model
from forebay.simulation.engine.replica_engine import EngineLimits
from forebay.simulation.engine.simulated_profile import BUILT_IN
from forebay.simulation.fluid.fluid_fleet import FluidFleet, QueueColumn
from forebay.simulation.fluid.fluid_gateway import water_level
from forebay.simulation.fluid.fluid_need import usable_busy_share
from forebay.simulation.peers.peer_grid import PeerSetting
from forebay.simulation.peers.static_replicas import StaticReplicas
from forebay.simulation.traffic.flow import BIN_SECONDS, FlowLengths, flow_of
from forebay.simulation.traffic.traces import Rate, Trace, ramp, steady, steps, synthetic
from tests.simulation.loops import CHAT, PROMISE, a_loop, a_model, a_view

LENGTHS = (6000, 1000)
"""Prompt and answer tokens. Requests are few and large, so that the discrete run of an hour takes seconds."""


class Always:
    """A policy that always wants the same replica count."""

    name, version, period_seconds = "always", "1", 15.0
    scrape = ScrapeTiming(15.0, 1.0, staggered=True)

    def __init__(self, count: int) -> None:
        self.count = count

    def decide(self, view: PolicyView) -> int:
        return self.count


def always(count: int) -> Callable[[], Control]:
    return lambda: PolicyControl({CHAT: Always(count)})


def a_trace(rate: Rate, seconds: float, lengths: tuple[float, float] = LENGTHS, seed: int = 3) -> Trace:
    return synthetic("test", rate, seconds, seed, lengths=lengths, spread=0.3)


def both(
    trace: Trace, seconds: float, control: Callable[[], Control], initial_replicas: int
) -> tuple[LoopOutcome, LoopOutcome]:
    """The outcomes of a discrete and a fluid run."""
    outcomes = [
        a_loop(traffic, seconds, control=control(), initial_replicas=initial_replicas, max_replicas=12).play(
            seconds + 60
        )[CHAT]
        for traffic in (trace, flow_of(trace, seconds))
    ]
    return outcomes[0], outcomes[1]


def test_an_hour_with_a_ramp_and_a_step():
    def rate(times):
        return ramp(600, 2.0, 1800, 6.0)(times) * steps((0, 1.0), (2400, 1.5), (3000, 1.0))(times)

    discrete, fluid = both(a_trace(rate, 3600), 3600, PlannerControl, 2)
    expected, actual = discrete.summary(PROMISE), fluid.summary(PROMISE)
    assert actual.offered == expected.offered
    assert actual.attainment == pytest.approx(expected.attainment, abs=0.02)
    assert actual.gpu_hours == pytest.approx(expected.gpu_hours, rel=0.05)
    assert fluid.mean_running == pytest.approx(discrete.mean_running, rel=0.08)
    assert abs(actual.most_replicas - expected.most_replicas) <= 1


@pytest.mark.parametrize("rate", [20.0, 60.0, 90.0])
def test_steady_latencies(rate):
    discrete, fluid = both(a_trace(steady(rate), 180, (500, 200)), 180, always(2), 2)
    expected, actual = discrete.summary(PROMISE), fluid.summary(PROMISE)
    assert actual.inter_token_latency.p50 == pytest.approx(expected.inter_token_latency.p50, rel=0.05)
    assert actual.inter_token_latency.p95 == pytest.approx(expected.inter_token_latency.p95, rel=0.05)
    assert actual.time_to_first_token.p50 == pytest.approx(expected.time_to_first_token.p50, rel=0.15)
    assert fluid.mean_running == pytest.approx(discrete.mean_running, rel=0.05)
    assert actual.attainment == pytest.approx(expected.attainment, abs=0.02)


def test_late_requests_among_long_and_short_prompts():
    """A 70B model and lengths of conversations: half a percent is late, the magnitude by which scalers are compared.

    About 50 of 10,800 requests are late in discrete events: between 0.40 and 0.65 % with the seeds 3 to 5. The fluid
    has 0.41 to 0.51 %; a formula from mean and variance had 0.08 %.
    """
    source = {"source": "hf://meta-llama/Llama-3.1-70B-Instruct"}
    view = a_view(model=source, engine={"tensorParallelSize": 4})
    trace = synthetic("spread", steady(12.0), 900, 3, lengths=(1155, 211), spread=0.8)
    three = PeerSetting("static", "", "3", False, lambda peer_inputs: StaticReplicas(3))
    discrete, fluid = (
        Comparison(ComparedCase(true_model(view, 0, 0.0), traffic, 900.0, 3)).peer(three).summary
        for traffic in (trace, flow_of(trace, 900))
    )
    assert 1 - fluid.attainment == pytest.approx(1 - discrete.attainment, rel=0.4)
    assert fluid.time_to_first_token.p50 == pytest.approx(discrete.time_to_first_token.p50, rel=0.1)
    assert fluid.time_to_first_token.p99 == pytest.approx(discrete.time_to_first_token.p99, rel=0.1)


def test_a_replica_that_is_too_small_fills_up_and_lets_wait():
    """105 requests a second on two replicas with a capacity of 95: both models queue alike, and few are in time."""
    discrete, fluid = both(a_trace(steady(105.0), 180, (500, 200)), 180, always(2), 2)
    expected, actual = discrete.summary(PROMISE), fluid.summary(PROMISE)
    assert max(expected.attainment, actual.attainment) < 0.25
    assert discrete.ticks[17].running == 512
    assert fluid.ticks[17].running == pytest.approx(512, rel=0.03)
    assert fluid.ticks[17].waiting == pytest.approx(discrete.ticks[17].waiting, rel=0.25)
    assert actual.time_to_first_token.p95 == pytest.approx(expected.time_to_first_token.p95, rel=0.25)


@pytest.mark.parametrize(
    ("profile", "prompt", "rate", "token_seconds"),
    [
        pytest.param("8b-h100", 128, 56.65, 0.0087, id="8B H100 at the rate of 64 streams: ITL"),
        pytest.param("8b-h100", 500, 46, 0.025, id="8B H100 holds 25 ms at 46 requests a second"),
        pytest.param("7b-mha-h100", 500, 19, 0.025, id="7B MHA H100 holds 25 ms at 19 requests a second"),
    ],
)
def test_published_rows(profile, prompt, rate, token_seconds):
    """The steady-state rows of `test_published_rows`, within the 5 % of that test."""
    output = 128 if prompt == 128 else 200
    trace = synthetic("row", steady(rate), 120, 1, lengths=(prompt, output))
    model = replace(a_model(), profile=BUILT_IN[profile], limits=EngineLimits(1024, 8192))
    flow = flow_of(trace, 120)
    fleet = FluidFleet(model, flow.lengths, PROMISE, BIN_SECONDS)
    fleet.start()
    arrivals = np.zeros((len(QueueColumn), 1, len(flow.lengths.outputs)))
    mean = rate * BIN_SECONDS / len(flow.lengths.outputs)
    arrivals[:] = np.array([mean, mean * prompt, 0.0, mean * prompt])[:, None, None]
    for number in range(60):
        fleet.step((number + 1) * BIN_SECONDS, BIN_SECONDS, arrivals)
    sample = fleet.counters.sample(0, 0.0, float(fleet.arrived[0]), 0.0, 0.5, 1)
    histogram = sample.inter_token_latency
    assert histogram is not None
    assert float(fleet.sequences[0]) / (rate * output) == pytest.approx(token_seconds, rel=0.05)
    assert histogram.sum / histogram.count == pytest.approx(token_seconds, rel=0.07), "the start is faster"


def a_flow_run(rate: Rate, seconds: float = 240.0, **fields) -> LoopOutcome:
    trace = a_trace(rate, seconds, (500, 200))
    return a_loop(flow_of(trace, seconds), seconds, control=PlannerControl(), **fields).play(seconds + 60)[CHAT]


def test_the_same_seed_gives_the_same_outcome():
    first, again = (a_flow_run(steps((0, 20), (60, 90))) for _ in range(2))
    assert (first.ticks, first.changes, first.summary(PROMISE)) == (again.ticks, again.changes, again.summary(PROMISE))


def test_every_request_has_one_fate():
    outcome = a_flow_run(steps((0, 20), (60, 200)), initial_replicas=1)
    summary = outcome.summary(PROMISE)
    assert summary.unfinished + summary.shed + summary.failed <= summary.offered
    assert summary.offered == len(a_trace(steps((0, 20), (60, 200)), 240, (500, 200)))


def test_while_nothing_serves_requests_are_held_and_then_shed():
    trace = a_trace(steady(20.0), 110, (500, 200))
    loop = a_loop(flow_of(trace, 110), 110, control=always(1)(), initial_replicas=0)
    summary = loop.play(300)[CHAT].summary(PROMISE)
    assert summary.shed > 500, "the first minute's requests have waited too long when the replica comes after 120 s"
    assert summary.attainment < 0.1, "what was held has missed"
    assert summary.shed + summary.failed + summary.unfinished <= summary.offered == len(trace)


def test_a_replica_that_dies_takes_its_requests_along():
    trace = a_trace(steady(20.0), 120, (500, 200))
    failed = []
    for traffic in (trace, flow_of(trace, 120)):
        loop = a_loop(traffic, 120, control=always(1)(), initial_replicas=1)
        loop.at(60.0, lambda it: it.cluster.crash(next(iter(it.cluster.pods.values()))))
        failed.append(loop.play(120)[CHAT].summary(PROMISE).failed)
    assert failed[0] > 20
    assert failed[1] == pytest.approx(failed[0], abs=10), "what ran then, to the step"


class Watching(Always):
    def __init__(self) -> None:
        super().__init__(2)
        self.views: list[PolicyView] = []

    def decide(self, view: PolicyView) -> int:
        self.views.append(view)
        return 2


def test_a_scrape_shows_whole_requests_that_add_up():
    policy = Watching()
    trace = a_trace(steady(40.0), 120, (500, 200))
    a_loop(flow_of(trace, 120), 120, control=PolicyControl({CHAT: policy}), initial_replicas=2).play(180)
    samples = [reading.sample for view in policy.views for reading in view.replicas if reading.sample]
    assert len(samples) > 8
    for sample in samples:
        taken = (sample.finished_requests or 0) + sample.in_flight
        assert taken == int(taken) >= 0
        for histogram in (sample.time_to_first_token, sample.inter_token_latency, sample.queue_time):
            assert histogram is not None
            assert list(histogram.counts) == sorted(histogram.counts)
    last = [view.replicas for view in policy.views][-1]
    assert sum(r.sample.finished_requests or 0 for r in last if r.sample) == pytest.approx(len(trace), abs=3)


def test_a_flow_holds_what_the_trace_held():
    trace = a_trace(steady(15.0), 60)
    flow = flow_of(trace, 60)
    assert len(flow) == len(trace)
    assert flow.prompts.sum() == trace.prompt_tokens.sum()
    assert (flow.requests @ flow.lengths.outputs).sum() == pytest.approx(trace.output_tokens.sum())
    assert len(flow.between(10, 20)) == ((trace.times >= 10) & (trace.times < 20)).sum()


def test_batch_work_is_told_apart():
    trace = a_trace(steady(10.0), 120, (500, 200))
    marked = replace(trace, batch_work=np.arange(len(trace)) % 4 == 0)
    outcomes = both(marked, 120, always(2), 2)
    for outcome in outcomes:
        classes = outcome.by_class(PROMISE)
        assert set(classes) == {"interactive", "batch"}
        assert classes["batch"].offered == pytest.approx(len(trace) / 4, abs=1)
        assert classes["batch"].attainment == pytest.approx(1.0, abs=0.01)
    assert set(both(trace, 120, always(2), 2)[1].by_class(PROMISE)) == {"interactive"}


def test_the_lowest_are_filled_first():
    assert water_level(np.array([5.0, 5.0, 0.0]), 3.0) == 3.0
    assert water_level(np.array([5.0, 5.0, 0.0]), 8.0) == 6.0


def test_how_busy_a_replica_may_be_follows_the_promise():
    model, lengths = a_model(a_view()), FlowLengths.of(a_trace(steady(20.0), 60, (500, 200)))
    at_40_ms, at_25_ms = (
        usable_busy_share(model, lengths, replace(PROMISE, inter_token_latency=limit)) for limit in (0.04, 0.025)
    )
    assert at_25_ms < at_40_ms < 1 - model.profile.step_seconds / 0.04 + 0.02


def test_another_promise_is_not_judged_afterwards():
    outcome = a_flow_run(steady(10.0), 60.0)
    with pytest.raises(ValueError, match="cannot be judged"):
        outcome.summary(replace(PROMISE, inter_token_latency=0.02))
