"""The five steps of a plan: their order, and what each makes of the output of the one before."""

from collections.abc import Callable
from typing import Any

import pytest

from forebay.planner import planner
from forebay.planner.decide.decide import decide
from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.memory import ObjectCounts, State
from forebay.planner.observe.at_rest import AtRest
from forebay.planner.observe.fleet_context import fleet_context_of
from forebay.planner.observe.observe import observe
from forebay.planner.observe.service_context import ServiceContext
from forebay.planner.planner import plan
from forebay.planner.reconcile.reconcile import reconcile
from forebay.planner.reconcile.reconcile_outcome import ServiceOutcome
from forebay.planner.report.report import report
from forebay.planner.share.share import share
from forebay.scaling.rules.situation import ScalingMemory
from forebay.world.plan import CreatePod
from tests.builders.world import NOW, a_service, a_world, pods_of, signals_of

STEPS = ("observe", "decide", "share", "reconcile", "report")
SERVICE = a_service(max_replicas=4)
PODS = pods_of(SERVICE, 1)
WORLD = a_world(SERVICE, pods=PODS, signals=signals_of(PODS, waiting=40))
"""One replica with twice the queue that it may have, so that a second one is wanted."""
STATE = State(since=NOW - 3600, object_counts=ObjectCounts(services=1, nodes=2, pods=1))


class Record:
    """The calls of the steps, with what went in and what came out."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], Any]] = []

    def of(self, name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*arguments: Any) -> Any:
            made = step(*arguments)
            self.calls.append((name, arguments, made))
            return made

        return recorded


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> Record:
    record = Record()
    for name in STEPS:
        monkeypatch.setattr(planner, name, record.of(name, getattr(planner, name)))
    return record


def test_a_plan_takes_the_five_steps_in_order_each_with_what_the_one_before_made(record: Record):
    done = plan(WORLD, STATE, NOW)
    assert tuple(name for name, _, _ in record.calls) == STEPS
    inputs = [arguments for _, arguments, _ in record.calls]
    observed, decided, shared, outcome, reported = [made for _, _, made in record.calls]
    fleet = inputs[0][0]
    assert [arguments[:2] for arguments in inputs[1:]] == [
        (fleet, observed),
        (fleet, decided),
        (fleet, shared[0]),
        (fleet, outcome),
    ]
    assert inputs[-1][-1] == shared[1]
    assert done == reported


def test_an_implausible_world_is_not_even_observed(record: Record):
    state = State(since=NOW - 3600, object_counts=ObjectCounts(services=5, nodes=2, pods=5))
    done, _ = plan(a_world(), state, NOW)
    assert done.held
    assert record.calls == []


def test_observing_decides_nothing():
    fleet = fleet_context_of(WORLD, STATE, NOW)
    (context,) = observe(fleet, WORLD.services)
    assert type(context) is ServiceContext
    assert (context.counts.serving, context.load.waiting_requests) == (1, 40)
    assert [pod.name for pod in fleet.pods[SERVICE.uid]] == [PODS[0].name]


def test_deciding_writes_nothing():
    fleet = fleet_context_of(WORLD, STATE, NOW)
    observed = observe(fleet, WORLD.services)
    (context,) = decide(fleet, observed)
    assert isinstance(context, DecidedContext)
    assert context.desired == 2
    assert context.memory.scaling == ScalingMemory()


def test_sharing_writes_what_scaling_remembers():
    fleet = fleet_context_of(WORLD, STATE, NOW)
    (context,), _ = share(fleet, decide(fleet, observe(fleet, WORLD.services)), AtRest())
    assert isinstance(context, DecidedContext)
    assert (context.memory.scaling.desired, context.memory.scaling.raised_at) == (2, NOW)


def test_reconciling_gives_the_actions():
    fleet = fleet_context_of(WORLD, STATE, NOW)
    observed = observe(fleet, WORLD.services)
    shared, _ = share(fleet, decide(fleet, observed), AtRest())
    outcome = reconcile(fleet, shared)
    (service,) = outcome.services
    assert isinstance(service, ServiceOutcome)
    assert [type(action) for action in service.actions] == [CreatePod]
    assert outcome.creates == (NOW,)


def test_reporting_gives_the_plan_and_what_is_remembered():
    fleet = fleet_context_of(WORLD, STATE, NOW)
    observed = observe(fleet, WORLD.services)
    shared, tenants = share(fleet, decide(fleet, observed), AtRest())
    done, after = report(fleet, reconcile(fleet, shared), AtRest(), tenants)
    assert (done, after) == plan(WORLD, STATE, NOW)
    assert done.services[0].status.replicas.desired == 2
    assert after.services[SERVICE.uid].scaling.desired == 2
