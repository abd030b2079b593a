"""Rollouts: surge, halt, scaling meanwhile, and what happens without a spare GPU."""

from dataclasses import replace
from typing import Any

import pytest

from forebay.api.inference_service import WhenNoSpare
from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.world.plan import Plan
from forebay.world.world import PodView, Refusal, ServiceView
from tests.builders.plans import condition, creates, deletes, drains, message, reasons
from tests.builders.world import NOW, a_node, a_pod, a_revision, a_service, a_world, signals_of

OLD, NEW = a_revision("aaaa", number=1), a_revision("bbbb", number=2)
WATCHED = State.empty(NOW - 3600)


def rolling(**fields: Any) -> ServiceView:
    """A service whose newest revision is `bbbb`."""
    return a_service("chat", wanted=a_revision("bbbb"), **fields)


def old(service: ServiceView, ordinal: int = 0, **fields: Any) -> PodView:
    return a_pod(service, ordinal, revision=OLD, **fields)


def new(service: ServiceView, ordinal: int = 0, **fields: Any) -> PodView:
    return a_pod(service, ordinal, revision=NEW, **fields)


def planned(service: ServiceView, *pods: PodView, state: State = WATCHED, **world: Any) -> Plan:
    stored = {service.uid: (OLD, NEW)}
    done, _ = plan(
        a_world(service, pods=pods, signals=signals_of(pods, running=1), revisions=stored, **world), state, NOW
    )
    return done


def short(names: list[str]) -> list[str]:
    """`bbbb-0` for `chat-997b1-bbbb-0`."""
    return [name.split("-", 2)[2] for name in names]


def test_one_is_created_on_top_and_none_drained_before_it_serves():
    service = rolling(min_replicas=2, max_replicas=2)
    done = planned(service, old(service, 0), old(service, 1))
    assert (short(creates(done)), drains(done)) == (["bbbb-0"], [])
    loading = new(service, 0, ready=False, created_at=NOW - 30)
    done = planned(service, old(service, 0), old(service, 1), loading)
    assert (creates(done), drains(done)) == ([], [])


def test_once_it_serves_one_old_replica_drains_and_the_next_is_created():
    service = rolling(min_replicas=2, max_replicas=2)
    done = planned(service, old(service, 0), old(service, 1), new(service, 0))
    assert short(drains(done)) == ["aaaa-0"]
    assert set(reasons(done).values()) == {"Rollout"}
    assert short(creates(done)) == ["bbbb-1"]


def test_the_last_old_replica_drains_and_nothing_is_created_on_top():
    service = rolling(min_replicas=2, max_replicas=2)
    done = planned(service, old(service, 0), new(service, 0), new(service, 1))
    assert (short(drains(done)), creates(done)) == (["aaaa-0"], [])


def test_maxsurge_allows_several_at_a_time():
    service = rolling(min_replicas=4, max_replicas=4, max_surge=3)
    done = planned(service, *(old(service, ordinal) for ordinal in range(4)))
    assert short(creates(done)) == ["bbbb-0", "bbbb-1", "bbbb-2"]


def test_growth_uses_what_is_known_to_work_until_the_new_revision_has_served():
    service = rolling(min_replicas=4, max_replicas=6)
    loading = new(service, 0, ready=False, created_at=NOW - 30)
    done = planned(service, old(service, 0), old(service, 1), loading)
    assert short(creates(done)) == ["aaaa-2"]
    done = planned(service, old(service, 0), old(service, 1), new(service, 0))
    assert short(creates(done)) == ["bbbb-1", "bbbb-2"]


@pytest.mark.parametrize(
    ("failing", "halts"),
    [
        pytest.param({"blocked": "CrashLoop"}, True, id="crash loop"),
        pytest.param({"blocked": "ImagePull", "created_at": NOW - 400}, True, id="image over the pending time"),
        pytest.param({"blocked": "ImagePull", "created_at": NOW - 100}, False, id="image, not yet"),
        pytest.param({"ready": False, "created_at": NOW - 1300}, True, id="not ready within startupTimeout"),
        pytest.param({"node": None, "created_at": NOW - 400}, False, id="no GPU is no fault of the revision"),
        pytest.param({"phase": "Failed"}, False, id="evicted is no fault of the revision"),
    ],
)
def test_what_halts_a_rollout(failing, halts):
    service = rolling(min_replicas=2, max_replicas=2)
    done = planned(service, old(service, 0), old(service, 1), new(service, 0, **failing))
    assert (condition(done, "UpToDate")[1] == "RolloutFailed") is halts
    assert drains(done) == []


def test_a_halted_rollout_keeps_the_failing_replica_and_says_what_to_do():
    service = rolling(min_replicas=2, max_replicas=2)
    failing = new(service, 0, blocked="CrashLoop", blocked_message="exit code 1", created_at=NOW - 4000)
    done = planned(service, old(service, 0), old(service, 1), failing)
    assert (deletes(done), creates(done)) == ([], [])
    assert condition(done, "UpToDate") == ("False", "RolloutFailed")
    for part in (
        f"revision bbbb is halted: {failing.name} has crashed 3 times: exit code 1.",
        "2 replicas of the old revision",
        "forebay.dev/restarted-at",
    ):
        assert part in message(done, "UpToDate")


def test_while_halted_the_old_revision_replaces_what_it_loses_and_grows():
    service = rolling(min_replicas=3, max_replicas=3)
    failing = new(service, 0, blocked="CrashLoop")
    done = planned(service, old(service, 0), old(service, 2), failing)
    assert short(creates(done)) == ["aaaa-1"]


def test_while_halted_a_node_is_left_with_the_old_revision():
    service = rolling(min_replicas=2, max_replicas=2, max_surge=2)
    failing = new(service, 0, blocked="CrashLoop", node="node-1")
    cluster_nodes = (a_node("node-0", cordoned=True), a_node("node-1"))
    done = planned(service, old(service, 0), old(service, 1), failing, nodes=cluster_nodes)
    assert short(creates(done)) == ["aaaa-2"]


def test_the_place_of_a_failing_replica_is_given_up_when_it_is_needed():
    service = rolling(min_replicas=2, max_replicas=2, max_surge=0)
    failing = new(service, 0, blocked="CrashLoop")
    done = planned(service, old(service, 0), failing)
    assert short(deletes(done)) == ["bbbb-0"]
    assert creates(done) == [], "its place is free only once it has gone"


def test_a_halt_is_remembered_when_the_failing_pod_is_gone():
    service = rolling(min_replicas=2, max_replicas=2)
    pods = (old(service, 0), old(service, 1), new(service, 0, blocked="CrashLoop"))
    stored = {service.uid: (OLD, NEW)}
    _, state = plan(a_world(service, pods=pods, signals=signals_of(pods), revisions=stored), WATCHED, NOW)
    done = planned(service, *pods[:2], state=state)
    assert creates(done) == []
    assert condition(done, "UpToDate") == ("False", "RolloutFailed")


def test_a_failing_replica_that_comes_to_serve_lets_the_rollout_go_on():
    service = rolling(min_replicas=2, max_replicas=2)
    pods = (old(service, 0), old(service, 1), new(service, 0, blocked="CrashLoop"))
    stored = {service.uid: (OLD, NEW)}
    _, state = plan(a_world(service, pods=pods, signals=signals_of(pods), revisions=stored), WATCHED, NOW)
    done = planned(service, *pods[:2], new(service, 0), state=state)
    assert condition(done, "UpToDate") == ("False", "RollingOut")
    assert short(drains(done)) == ["aaaa-0"]


def test_another_spec_deletes_what_failed_and_starts_anew():
    service = a_service("chat", min_replicas=2, max_replicas=2, wanted=a_revision("cccc"))
    pods = (old(service, 0), old(service, 1), new(service, 0, blocked="CrashLoop"))
    done = planned(service, *pods)
    assert short(deletes(done)) == ["bbbb-0"]
    assert short(creates(done)) == ["cccc-0"]


def unplaced(service: ServiceView, **fields: Any) -> PodView:
    return new(service, 0, node=None, created_at=NOW - 301, blocked="Unschedulable", **fields)


@pytest.mark.parametrize(
    ("mode", "fields", "drained", "reason"),
    [
        pytest.param(WhenNoSpare.WAIT, {}, [], "WaitingForSpare", id="Wait"),
        pytest.param(WhenNoSpare.AUTO, {}, [], "WaitingForSpare", id="Auto: all are needed"),
        pytest.param(WhenNoSpare.REPLACE, {}, ["aaaa-0"], "RollingOut", id="Replace"),
        pytest.param(
            WhenNoSpare.REPLACE, {"max_surge": 0}, ["aaaa-0"], "RollingOut", id="Replace, and no surge is allowed"
        ),
        pytest.param(WhenNoSpare.AUTO, {"max_surge": 0}, [], "WaitingForSpare", id="Auto, and no surge is allowed"),
    ],
)
def test_no_spare_gpu(mode, fields, drained, reason):
    service = rolling(min_replicas=2, max_replicas=2, when_no_spare=mode, **fields)
    tried = [] if fields else [unplaced(service)]
    # Tried once already, so that it is not tried again in this tick.
    _, state = plan(a_world(service), WATCHED, NOW - 10)
    done = planned(service, old(service, 0), old(service, 1), *tried, state=_tried(state, service))
    assert (short(drains(done)), condition(done, "UpToDate")) == (drained, ("False", reason))
    assert creates(done) == [] or drained


def _tried(state: State, service: ServiceView) -> State:
    return replace(state, services={service.uid: replace(state.services[service.uid], retries=1)})


def test_a_rollout_that_waits_for_a_gpu_names_the_resource():
    service = rolling(min_replicas=2, max_replicas=2)
    _, state = plan(a_world(service), WATCHED, NOW - 10)
    done = planned(service, old(service, 0), old(service, 1), unplaced(service), state=_tried(state, service))
    for part in (
        "2 replicas cannot be replaced",
        "the new replica chat-997b1-bbbb-0 ",
        "(Unschedulable)",
        "Free 1 × nvidia.com/gpu, or set rollout.whenNoSpare: Replace.",
    ):
        assert part in message(done, "UpToDate")


def test_without_a_surge_the_remedy_is_to_raise_it():
    service = rolling(min_replicas=2, max_replicas=2, max_surge=0)
    done = planned(service, old(service, 0), old(service, 1))
    for part in (
        "2 replicas cannot be replaced: rollout.maxSurge is 0",
        "Raise rollout.maxSurge, or set rollout.whenNoSpare: Replace.",
    ):
        assert part in message(done, "UpToDate")


def test_a_quota_that_refuses_the_surge_is_no_spare_either():
    service = rolling(min_replicas=2, max_replicas=2, when_no_spare=WhenNoSpare.REPLACE)
    refusal = Refusal(service.uid, "chat-x", "QuotaExceeded", "exceeded quota", NOW - 2)
    done = planned(service, old(service, 0), old(service, 1), refusals=(refusal,))
    assert (short(drains(done)), creates(done)) == (["aaaa-0"], [])


def test_in_place_replacement_goes_one_by_one():
    service = rolling(min_replicas=2, max_replicas=2, when_no_spare=WhenNoSpare.REPLACE)
    _, state = plan(a_world(service), WATCHED, NOW - 10)
    leaving = old(service, 0, drain_started_at=NOW - 20, drain_reason="Rollout")
    done = planned(service, leaving, old(service, 1), unplaced(service), state=_tried(state, service))
    assert drains(done) == []


def test_unstarted_replicas_of_a_superseded_revision_go_at_once():
    service = a_service("chat", min_replicas=2, max_replicas=4, wanted=a_revision("cccc"))
    loading = new(service, 0, ready=False, created_at=NOW - 30)
    done = planned(service, old(service, 0), old(service, 1), loading)
    assert short(deletes(done)) == ["bbbb-0"]


def test_unstarted_replicas_of_the_serving_revision_are_kept_until_the_new_one_is_proven():
    service = rolling(min_replicas=2, max_replicas=4)
    loading = old(service, 1, ready=False, created_at=NOW - 30)
    assert deletes(planned(service, old(service, 0), loading)) == []
    assert short(deletes(planned(service, old(service, 0), loading, new(service, 0)))) == ["aaaa-1"]
