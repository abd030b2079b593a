"""Sharing: counts become final, and what is remembered is what they came to."""

from dataclasses import replace

import pytest

from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.memory import ServiceMemory, State
from forebay.planner.observe.service_context import UnplannedService
from forebay.planner.planner import plan
from forebay.planner.share import share as share_step
from forebay.scaling.rules.situation import ScalingMemory
from forebay.world.plan import Plan
from tests.builders.plans import creates
from tests.builders.world import NOW, a_service, a_world, pods_of, signals_of

RAISED_AT = NOW - 1800.0
SERVICE = a_service(max_replicas=4)


def with_a_queue() -> tuple[Plan, ScalingMemory]:
    """One replica, and twice the queue that it may have: a second one is decided."""
    pods = pods_of(SERVICE, 1)
    world = a_world(SERVICE, pods=pods, signals=signals_of(pods, waiting=40))
    scaling = ScalingMemory(desired=1, raised_at=RAISED_AT, guard_raised_at=RAISED_AT)
    state = State(since=NOW - 3600, services={SERVICE.uid: ServiceMemory(scaling=scaling)})
    done, after = plan(world, state, NOW)
    return done, after.services[SERVICE.uid].scaling


def test_every_service_gets_what_it_decided():
    done, remembered = with_a_queue()
    assert len(creates(done)) == 1
    assert (remembered.desired, remembered.raised_at, remembered.guard_raised_at) == (2, NOW, NOW)


def test_a_count_that_sharing_cuts_is_remembered_as_it_was_cut(monkeypatch: pytest.MonkeyPatch):
    decided: list[int] = []

    def cut(services: tuple[DecidedContext | UnplannedService, ...]) -> tuple[DecidedContext | UnplannedService, ...]:
        (context,) = services
        assert isinstance(context, DecidedContext)
        decided.append(context.decision.applied)
        return (replace(context, decision=replace(context.decision, applied=1)),)

    monkeypatch.setattr(share_step, "granted", cut)
    done, remembered = with_a_queue()
    assert decided == [2]
    assert creates(done) == []
    assert (remembered.desired, remembered.raised_at, remembered.guard_raised_at) == (1, RAISED_AT, RAISED_AT)
