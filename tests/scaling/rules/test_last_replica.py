"""The last replica: from one to zero, and never from more."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.api.inference_service import ScalingMode
from forebay.scaling.decision import Decision, Proposal
from forebay.scaling.load.freshness import Freshness
from forebay.scaling.load.gateway_demand import GatewayDemand
from forebay.scaling.load.idleness import Idleness
from forebay.scaling.load.service_load import ServiceLoad, SilentReplica
from forebay.scaling.rules.last_replica import keep_or_release
from forebay.scaling.rules.situation import ReplicaCounts, ScalingMemory, Situation
from forebay.scaling.scaling_inputs import ScalingInputs
from tests.builders.loads import a_load, a_replica_capacity, some_limits
from tests.builders.loads import decided as decided_once
from tests.builders.world import NOW

TIME = r"\d{4}-\d\d-\d\dT[\d:]+Z"
LIMITS = some_limits(min_replicas=0, max_replicas=6, scale_to_zero_after_seconds=900.0)
IDLE = Situation(
    limits=LIMITS,
    load=a_load(1, active_at=NOW - 900),
    now=NOW,
    counts=ReplicaCounts(serving=1),
    desired=1,
    idleness=Idleness(since=NOW - 900, updated_at=NOW - 5),
)


def idle_with(**counts: Any) -> Situation:
    return replace(IDLE, counts=replace(IDLE.counts, **counts))


REMEMBERED = ScalingMemory(1, NOW - 9999, NOW - 9999, idleness=IDLE.idleness)


def decided(
    load: ServiceLoad,
    counts: ReplicaCounts,
    memory: ScalingMemory = REMEMBERED,
    limits=LIMITS,
    scaling_inputs: ScalingInputs | None = None,
    mode: ScalingMode = ScalingMode.AUTO,
    now: float = NOW,
) -> tuple[Decision, ScalingMemory]:
    return decided_once(limits, load, counts, mode, memory, now, scaling_inputs or ScalingInputs())


@pytest.mark.parametrize(
    ("last", "replicas", "rule"),
    [
        pytest.param(IDLE, 0, "scale_to_zero", id="idle for the whole time"),
        pytest.param(replace(IDLE, now=NOW - 1), 1, "asked_lately", id="a second too early"),
        pytest.param(
            replace(IDLE, limits=some_limits(min_replicas=0, max_replicas=6)),
            1,
            "last_replica",
            id="scaleToZeroAfter is not set",
        ),
        pytest.param(idle_with(loading=1), 1, "replica_coming", id="one still waits for its node"),
        pytest.param(idle_with(replacing=True), 1, "replacement_under_way", id="it is being replaced"),
        pytest.param(idle_with(serving=2), 1, "others_serve", id="two serve"),
        pytest.param(replace(IDLE, idleness=Idleness(because="x")), 1, "asked_lately", id="the clock does not run"),
    ],
)
def test_reasons_to_keep_the_last_replica(last: Situation, replicas: int, rule: str):
    proposal = keep_or_release(last)
    assert (proposal.replicas, proposal.rule) == (replicas, rule)


def test_the_sentences_give_the_idle_time():
    kept, released = keep_or_release(replace(IDLE, now=NOW - 1)).because, keep_or_release(IDLE).because
    assert re.findall(TIME, kept) == ["2025-06-15T15:06:40Z", "2025-06-15T14:51:40Z"]
    assert re.findall(TIME, released) == ["2025-06-15T14:51:40Z"]
    assert "scaleToZeroAfter is 900 s" in kept
    assert "scaleToZeroAfter is 900 s" in released


def test_at_zero_it_stays_and_says_what_wakes_it():
    decision, memory = decided(a_load(0), ReplicaCounts(), replace(REMEMBERED, desired=0))
    assert (decision.desired, decision.rule) == (0, "scaled_to_zero")
    assert "forebay wake" in decision.because
    assert memory.desired == 0


def test_without_scale_to_zero_after_one_replica_is_kept():
    limits = replace(LIMITS, scale_to_zero_after_seconds=None)
    decision, _ = decided(IDLE.load, ReplicaCounts(serving=1), limits=limits)
    assert (decision.desired, decision.rule) == (1, "last_replica")


def test_a_minimum_holds_whatever_the_clock_says():
    decision, _ = decided(IDLE.load, ReplicaCounts(serving=1), limits=replace(LIMITS, min_replicas=1))
    assert (decision.desired, decision.rule) == (1, "min_replicas")


def test_a_floor_holds_whatever_the_clock_says_and_raises_from_zero():
    scaling_inputs = ScalingInputs(floors=(Proposal(1, "woken", "somebody asked"),))
    decision, _ = decided(IDLE.load, ReplicaCounts(serving=1), scaling_inputs=scaling_inputs)
    assert (decision.desired, decision.rule) == (1, "woken")
    decision, memory = decided(
        a_load(0), ReplicaCounts(), replace(REMEMBERED, desired=0), scaling_inputs=scaling_inputs
    )
    assert (decision.desired, decision.rule, decision.before) == (1, "woken", 0)
    assert memory.raised_at == NOW


def test_a_request_that_still_reaches_a_replica_that_was_to_go_keeps_it():
    """The operator's own limits may have kept its drain from starting."""
    decision, _ = decided(a_load(1, running=1, active_at=NOW), ReplicaCounts(serving=1), replace(REMEMBERED, desired=0))
    assert (decision.desired, decision.rule) == (1, "asked_lately")


def test_what_a_gateway_holds_wakes_it_and_asks_for_as_much_as_the_backlog_takes():
    """One at once; more when it is known how much arrives: 2.13 replicas for 100 a second, and half of it on top."""
    memory, counts_over_time = replace(REMEMBERED, desired=0), []
    for passed in range(0, 65, 5):
        scaling_inputs = ScalingInputs(60.0, demand=GatewayDemand(100.0 * passed, held_requests=10_000.0))
        counts = ReplicaCounts(loading=memory.desired or 0)
        decision, memory = decided_once(
            LIMITS, a_load(0), counts, ScalingMode.AUTO, memory, NOW + passed, scaling_inputs, a_replica_capacity()
        )
        (waiting,) = (proposal for proposal in decision.proposals if proposal.rule == "backlog")
        counts_over_time.append((waiting.replicas, decision.desired))
    assert (counts_over_time[0], counts_over_time[-1], decision.rule) == ((1, 1), (4, 4), "backlog")
    assert counts_over_time == sorted(counts_over_time), "up only"


def test_in_mode_recommend_zero_is_advice():
    decision, _ = decided(IDLE.load, ReplicaCounts(serving=1), mode=ScalingMode.RECOMMEND)
    assert (decision.desired, decision.applied) == (0, 1)


def test_the_record_gives_the_time_of_the_scale_to_zero():
    decision, _ = decided(IDLE.load, ReplicaCounts(serving=1), now=NOW - 60)
    assert decision.inputs["idle"] == "since 2025-06-15T14:51:40Z, to zero at 2025-06-15T15:06:40Z"
    decision, _ = decided(a_load(1, running=2, active_at=NOW), ReplicaCounts(serving=1))
    assert decision.inputs["idle"] == "no: 2 requests in flight"


LOADS = st.builds(
    lambda replicas, silent, running, active_ago: a_load(
        replicas,
        silent=tuple(SilentReplica(f"chat-{n}", Freshness.STALE, NOW, None) for n in range(min(silent, replicas))),
        running=running,
        active_at=None if active_ago is None else NOW - active_ago,
    ),
    st.integers(0, 4),
    st.integers(0, 2),
    st.sampled_from([0.0, 0.0, 0.0, 3.0]),
    st.one_of(st.none(), st.floats(0, 5000)),
)
COUNTS = st.builds(
    ReplicaCounts,
    loading=st.integers(0, 2),
    blocked=st.integers(0, 1),
    draining=st.integers(0, 1),
    replacing=st.booleans(),
)
ANY_STEP = st.tuples(LOADS, COUNTS, st.sampled_from([0.0, 1.0]), st.floats(1, 500))
CALM_STEP = st.tuples(st.just(IDLE.load), st.just(ReplicaCounts()), st.just(0.0), st.floats(10, 55))
SILENT_STEP = st.tuples(
    st.just(a_load(1, silent=(SilentReplica("chat-0", Freshness.STALE, NOW, None),))),
    st.just(ReplicaCounts()),
    st.just(0.0),
    st.floats(10, 55),
)
STEPS = st.lists(
    st.integers(0, 5).flatmap(lambda kind: {0: ANY_STEP, 1: SILENT_STEP}.get(kind, CALM_STEP)), min_size=2, max_size=12
)
"""Scaling to zero takes several steps, so most of them are calm and only some disturb the service."""


@given(
    steps=STEPS,
    after=st.sampled_from([30.0, 45.0, 60.0, 90.0, 120.0, None]),
    least=st.sampled_from([0, 0, 0, 0, 1, 2]),
    began=st.sampled_from([1, 1, 1, 0, 2, 5]),
)
@settings(max_examples=200, deadline=None)
def test_down_by_one_to_zero_by_the_clock_alone_and_never_without_metrics(steps, after, least, began):
    limits = some_limits(min_replicas=least, max_replicas=4, scale_to_zero_after_seconds=after)
    memory, now, idle_since = ScalingMemory(desired=began), NOW, None
    for load, counts, held, passed in steps:
        now += passed
        counts = replace(counts, serving=load.replicas)
        before = memory.desired or 0
        scaling_inputs = ScalingInputs(demand=GatewayDemand(held_requests=held))
        decision, memory = decided_once(limits, load, counts, ScalingMode.AUTO, memory, now, scaling_inputs)
        assert least <= decision.applied <= 4
        assert decision.applied >= min(before, 4) - 1
        quiet = load.complete and load.active_at is not None and not load.running_requests and not held
        idle_since = None if not quiet else now if idle_since is None else idle_since
        if decision.applied == 0 and before == 1:
            assert after is not None
            assert quiet
            assert idle_since is not None
            assert now - idle_since >= after
            assert (counts.loading, counts.blocked, counts.draining, counts.replacing) == (0, 0, 0, False)
