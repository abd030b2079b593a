"""The closed loop: pods, scrapes and requests in virtual time, with the production planner and with a simple policy."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from forebay.simulation.cluster.closed_loop import ClosedLoop, LoopSettings
from forebay.simulation.cluster.cold_start import ColdStarts, NodePool
from forebay.simulation.cluster.gateway_model import GatewaySettings, RequestState
from forebay.simulation.cluster.planner_control import PlannerControl
from forebay.simulation.cluster.policy import PolicyControl, PolicyView
from forebay.simulation.cluster.scrape_model import ScrapeTiming
from forebay.simulation.cluster.served_model import drawn_profile, limits_of
from forebay.simulation.engine.replica_engine import ReplicaEngine
from forebay.simulation.engine.scraped_sample import sample_of_engine
from forebay.simulation.traffic.flow import flow_of
from forebay.simulation.traffic.traces import ramp, steady, steps, synthetic
from forebay.world.settings import Settings
from tests.simulation.load import poisson, run
from tests.simulation.loops import CHAT, EXACT, PRODUCT, PROMISE, a_loop, a_model, a_page, a_view


class Fixed:
    """A policy that wants given replica counts from given seconds on."""

    name, version, period_seconds = "fixed", "1", 15.0

    def __init__(self, *wants: tuple[float, int], scrape: ScrapeTiming | None = None) -> None:
        self.wants = wants
        self.scrape = scrape or ScrapeTiming(15.0, 1.0, staggered=True)
        self.views: list[PolicyView] = []

    def decide(self, view: PolicyView) -> int:
        self.views.append(view)
        return [count for since, count in self.wants if since <= view.now][-1]


def a_fixed_loop(*wants: tuple[float, int], rate=4.0, seconds=300.0, **fields):
    policy = Fixed(*wants)
    return a_loop(rate, seconds, control=PolicyControl({CHAT: policy}), **fields), policy


def test_a_sample_says_what_the_page_of_the_same_engine_says():
    model = a_model()
    engine = ReplicaEngine(model.profile, model.limits)
    for request in poisson(20, 30, 500, 200):
        engine.submit(request)
    engine.advance(20.0)
    assert sample_of_engine(engine, 7.0) == a_page(engine, 7.0)


def test_histograms_that_nobody_reads_change_nothing():
    model = a_model()
    requests = poisson(40, 60, 500, 200)
    full, lean = (ReplicaEngine(model.profile, model.limits, every_histogram=every) for every in (True, False))
    assert run(full, requests) == run(lean, requests)
    assert sample_of_engine(full, 0.0) == sample_of_engine(lean, 0.0)


def test_the_same_seed_gives_the_same_outcome_and_another_seed_another():
    def outcome(seed: int):
        loop = a_loop(steps((0, 5), (60, 60)), 120, control=PlannerControl(), seed=seed)
        done = loop.run(120)[CHAT]
        return done.log, done.ticks, done.changes, done.summary(PROMISE)

    assert outcome(1) == outcome(1)
    assert outcome(1)[3] != outcome(2)[3]


def test_every_request_has_exactly_one_fate_and_times_in_order():
    done = a_loop(steps((0, 10), (30, 90)), 90, control=PlannerControl()).run(200)[CHAT]
    assert len(done.trace) == done.offered == len(done.log.finished)
    arrived, first, finished = done.trace.times, np.array(done.log.first_token), np.array(done.log.finished)
    ended = np.array(done.log.state) == RequestState.DONE
    assert ended.all()
    assert (arrived < first).all()
    assert (first <= finished).all()


class TestStarts:
    def test_a_pod_serves_after_its_cold_start_and_not_before(self):
        loop, _ = a_fixed_loop((0, 2), initial_replicas=1)
        ticks = loop.run(300)[CHAT].ticks
        ready_at = next(tick.at for tick in ticks if tick.serving == 2)
        assert 15 + EXACT.ready_seconds <= ready_at <= 25 + EXACT.ready_seconds

    def test_a_warm_node_is_quicker(self):
        loop, _ = a_fixed_loop((0, 2), initial_replicas=1, pools=(NodePool(nodes=1, warm_nodes=1),))
        ticks = loop.run(300)[CHAT].ticks
        assert next(tick.at for tick in ticks if tick.serving == 2) <= 25 + EXACT.warm_seconds

    def test_a_new_node_is_asked_for_when_none_has_room(self):
        pool = NodePool(nodes=1, gpus_per_node=1, more_nodes=1)
        loop, _ = a_fixed_loop((0, 3), initial_replicas=1, pools=(pool,), seconds=600)
        ticks = loop.run(600)[CHAT].ticks
        assert next(tick.at for tick in ticks if tick.serving == 2) >= EXACT.node_seconds + EXACT.ready_seconds
        assert (ticks[-1].serving, ticks[-1].blocked) == (2, 1)

    def test_starts_are_drawn_and_alike_for_every_policy(self):
        starts = ColdStarts(spread=0.3)
        draws = [starts.draw(120.0, 5, "start", number) for number in range(400)]
        assert draws == [starts.draw(120.0, 5, "start", number) for number in range(400)]
        assert np.median(draws) == pytest.approx(120, rel=0.05)
        assert 120 / 2.5 <= min(draws) < max(draws) <= 120 * 2.5


class TestEndings:
    def test_scaling_down_cuts_no_stream(self):
        loop, _ = a_fixed_loop((0, 3), (100, 1), initial_replicas=3, rate=20.0)
        done = loop.run(400)[CHAT]
        assert (done.ticks[-1].serving, done.ticks[-1].draining) == (1, 0)
        assert done.summary(PROMISE).failed == done.summary(PROMISE).unfinished == 0

    def test_requests_of_a_crashed_engine_fail_and_it_serves_again(self):
        loop, _ = a_fixed_loop((0, 2), initial_replicas=2, rate=20.0)
        loop.at(100, lambda at: at.cluster.crash(next(iter(at.cluster.pods.values()))))
        done = loop.run(400)[CHAT]
        assert 2 < done.summary(PROMISE).failed < 60
        assert min(tick.serving for tick in done.ticks) == 1
        assert done.ticks[-1].serving == 2

    def test_a_dead_node_takes_its_replicas_and_the_planner_puts_others_elsewhere(self):
        loop = a_loop(5.0, 600, control=PlannerControl(), initial_replicas=2, min_replicas=2)
        loop.at(100, lambda at: at.cluster.kill_node("gpu-0"))
        done = loop.run(600)[CHAT]
        assert any(tick.serving == 0 for tick in done.ticks)
        assert done.ticks[-1].serving >= 2
        assert {r.view.node for r in loop.cluster.pods.values() if r.view.ready} == {"gpu-1"}

    @pytest.mark.parametrize(
        ("ready_seconds", "in_time", "unserved_seconds"),
        [
            pytest.param(45.0, 0.99, 0, id="others serve in time"),
            pytest.param(115.0, 0.96, 25, id="others come late: the last seconds are for the streams"),
        ],
    )
    def test_a_spot_notice_cuts_no_stream(self, ready_seconds, in_time, unserved_seconds):
        starts = replace(EXACT, ready_seconds=ready_seconds)
        loop = a_loop(8.0, 600, control=PlannerControl(), initial_replicas=2, min_replicas=2, starts=starts)
        loop.at(100, lambda at: at.cluster.give_notice("gpu-0"))
        loop.at(220, lambda at: at.cluster.kill_node("gpu-0"))
        done = loop.run(700)[CHAT]
        summary = done.summary(PROMISE)
        assert (summary.failed, summary.shed, summary.unfinished) == (0, 0, 0)
        assert summary.attainment >= in_time
        unserved = [tick.at for tick in done.ticks if tick.serving == 0]
        assert max(unserved, default=0.0) - min(unserved, default=0.0) <= unserved_seconds
        assert done.ticks[-1].serving >= 2


class TestGateway:
    def test_requests_are_held_until_a_replica_serves(self):
        loop, _ = a_fixed_loop((0, 1), rate=2.0, seconds=130, starts=replace(EXACT, ready_seconds=30.0))
        done = loop.run(200)[CHAT]
        assert done.summary(PROMISE).shed == 0
        assert done.first_token_seconds[0] > 25

    def test_requests_beyond_the_limits_of_the_gateway_are_shed_and_count_as_missed(self):
        loop, _ = a_fixed_loop((0, 1), rate=2.0, seconds=110, gateway=GatewaySettings(10, 20.0))
        done = loop.run(300)[CHAT]
        summary = done.summary(PROMISE)
        assert summary.shed > 150
        assert summary.attainment <= 1 - summary.shed / summary.offered

    def test_the_least_busy_replica_is_chosen(self):
        loop, _ = a_fixed_loop((0, 3), initial_replicas=3, rate=45.0, seconds=60)
        done = loop.run(60)[CHAT]
        counts = np.bincount(np.array(done.log.replica))
        assert min(counts) > 0.3 * max(counts)

    def test_a_bounded_queue_sheds(self):
        loop, _ = a_fixed_loop(
            (0, 1), initial_replicas=1, rate=80.0, seconds=60, gateway=GatewaySettings(queued_per_replica=100)
        )
        summary = loop.run(120)[CHAT].summary(PROMISE)
        assert summary.shed > 500
        assert summary.time_to_first_token.p99 < 5


def test_a_scrape_is_visible_only_after_its_delay():
    """Scrapes at 4, 8, 12, … s arrive 3.5 s later, so at 15 s the scrape of 12 s has not arrived yet."""
    policy = Fixed((0, 1), scrape=ScrapeTiming(4.0, 3.5))
    a_loop(4.0, 60, control=PolicyControl({CHAT: policy}), initial_replicas=1).run(60)
    ages = [view.now - r.sample.taken_at for view in policy.views for r in view.replicas if r.sample]
    assert [round(age, 3) for age in ages] == [7.0, 6.0, 5.0, 4.0]


class TestPolicies:
    def test_a_policy_sees_scrapes_of_the_past_only(self):
        loop, policy = a_fixed_loop((0, 2), initial_replicas=2)
        loop.run(300)
        ages = [view.now - r.sample.taken_at for view in policy.views for r in view.replicas if r.sample]
        assert min(ages) >= 1.0
        assert max(ages) <= 16.0
        assert len({round(age, 3) for age in ages}) == 2, "each pod is asked at a time of its own"
        assert len(ages) > 30

    def test_a_number_is_made_true_within_the_bounds(self):
        loop, policy = a_fixed_loop((0, 50), (150, 0), min_replicas=2, max_replicas=4)
        ticks = loop.run(300)[CHAT].ticks
        assert max(tick.desired for tick in ticks) == 4
        assert ticks[-1].desired == 2
        assert {view.desired for view in policy.views} == {2, 4}

    def test_starting_pods_are_seen_as_such_and_left_first(self):
        loop, policy = a_fixed_loop((0, 1), (30, 4), (60, 2), initial_replicas=1)
        loop.run(300)
        middle = next(view for view in policy.views if 31 <= view.now < 60)
        assert (len(middle.ready), middle.starting) == (1, 3)
        assert {r.number for r in loop.cluster.pods.values()} == {0, 1}


class TestPlanner:
    def test_it_is_the_production_planner_that_acts(self):
        control = PlannerControl()
        loop = a_loop(steps((0, 20), (60, 90)), 240, control=control)
        done = loop.run(400)[CHAT]
        assert not control.errors
        assert done.ticks[-1].serving >= 2
        assert any(event.reason == "ScaledUp" for event in control.events)
        assert {decision.rule for decision in control.decisions} > {"min_replicas"}
        assert loop.cluster.conflicts == 0

    def test_it_plans_every_five_seconds_and_after_news(self):
        control = PlannerControl()
        a_loop(2.0, 300, control=control).run(300)
        assert 60 <= control.ticks <= 130

    def test_its_own_limits_hold(self):
        control = PlannerControl(Settings(max_gpus=2))
        done = a_loop(steps((0, 20), (20, 150)), 120, control=control).run(400)[CHAT]
        assert max(tick.serving + tick.loading for tick in done.ticks) == 2


def test_need_is_the_work_that_arrives_over_what_a_replica_may_give():
    done = a_loop(ramp(0, 10, 600, 30), 600, control=PlannerControl(), initial_replicas=2).run(600)[CHAT]
    need = done.need(PROMISE)
    per_second = 0.9 * (1 - a_model().profile.step_seconds / PROMISE.inter_token_latency)
    work = a_model().profile.work_seconds(500, 200)
    assert need[30] == pytest.approx(20 * work / per_second, rel=0.1)
    assert need[-5] / need[5] == pytest.approx(29 / 11, rel=0.2)


def test_requests_that_no_replica_could_serve_in_time_are_told_apart():
    trace = synthetic("long", steady(1.0), 200, 1, lengths=(40_000, 20))
    done = a_loop(trace, 200, control=PlannerControl()).run(400)[CHAT]
    assert done.summary(PROMISE).impossible == 1.0
    assert done.summary(PROMISE).attainment == 0.0


def test_a_prompt_may_be_given_the_time_that_computing_it_alone_takes():
    """40,000 tokens take seconds: never in time under one limit for all, always if each prompt gets its own time."""
    trace = synthetic("long", steady(0.1), 200, 1, lengths=(40_000, 20))
    alone = replace(a_model(), prefill_on_top=True)
    for model, share in ((a_model(), 0.0), (alone, 1.0)):
        done = a_loop(trace, 200, control=PlannerControl(), model=model, initial_replicas=2).run(400)[CHAT]
        assert done.summary(PROMISE).attainment == share
        assert done.summary(PROMISE).impossible == 1 - share
    with pytest.raises(ValueError, match="play the trace"):
        a_loop(flow_of(trace, 200), 200, control=PlannerControl(), model=alone)


def test_recovery_is_the_end_of_the_last_half_minute_that_was_late():
    """One replica serves 20 requests a second but not 70; two more are ready 120 s after they are created."""
    crowd = steps((0, 20.0), (300, 70.0))
    loop, _ = a_fixed_loop((0, 1), (310, 3), initial_replicas=1, seconds=900, rate=crowd)
    done = loop.run(900)[CHAT]
    assert 90 <= done.recovery_seconds(PROMISE, 300.0, 900.0) <= 270
    never, _ = a_fixed_loop((0, 1), initial_replicas=1, seconds=600, rate=crowd)
    assert never.run(600)[CHAT].recovery_seconds(PROMISE, 300.0, 600.0) == inf
    calm, _ = a_fixed_loop((0, 3), initial_replicas=3, seconds=600, rate=crowd)
    assert calm.run(600)[CHAT].recovery_seconds(PROMISE, 300.0, 600.0) == 0.0


def test_gpu_hours_count_starting_and_ending_pods():
    loop, _ = a_fixed_loop((0, 1), (90, 2), initial_replicas=1, seconds=100)
    done = loop.run(100)[CHAT]
    assert done.ticks[-1].serving == 1
    assert done.summary(PROMISE).gpu_hours == pytest.approx((100 + 10) / 3600)


def test_the_true_profile_differs_by_up_to_a_fifth_from_that_of_the_planner():
    assumed = a_model().profile
    drawn = [drawn_profile(assumed, seed) for seed in range(100)]
    assert drawn[0] == drawn_profile(assumed, 0)
    factors = [true.step_seconds / assumed.step_seconds for true in drawn]
    assert 0.8 <= min(factors) < 0.85
    assert 1.15 < max(factors) <= 1.2
    assert {true.kv_tokens for true in drawn} == {assumed.kv_tokens}


def test_engines_run_with_what_the_pods_command_line_says():
    view = a_view(
        engine={"maxNumSeqs": 64, "extraArgs": ["--max-num-batched-tokens=4096"]}, model={"maxModelLen": 8192}
    )
    limits = limits_of(view, a_model().profile)
    assert (limits.max_num_seqs, limits.max_num_batched_tokens, limits.max_model_len) == (64, 4096, 8192)


def test_several_services_share_one_clock_and_the_nodes():
    other = replace(CHAT, name="code")
    models = [a_model(), a_model(a_view(name="code"))]
    traces = {key: synthetic(str(key), steady(10.0), 200, seed) for seed, key in enumerate((CHAT, other))}
    pool = NodePool(labels=(("nvidia.com/gpu.product", PRODUCT),))
    loop = ClosedLoop(LoopSettings((pool,), EXACT, initial_replicas={CHAT: 1}), models, traces, PlannerControl())
    done = loop.run(300)
    assert done[CHAT].summary(PROMISE).attainment > 0.99
    assert done[other].ticks[-1].serving >= 1
    assert {r.view.key for r in loop.cluster.pods.values()} == {CHAT, other}
    assert sum(outcome.gpu_seconds for outcome in done.values()) >= 600
