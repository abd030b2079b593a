"""ResourceQuotas bound what a tick creates, and the status says which limit and what would work."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from forebay.api.inference_service import Condition, WhenNoSpare
from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.world.plan import CreatePod, Plan
from forebay.world.quota import QuotaScope, QuotaView
from forebay.world.world import PodView, ServiceView
from tests.builders.plans import actions, creates, drains, given_up, held, only
from tests.builders.pools import a_pool
from tests.builders.quotas import GPUS, a_quota
from tests.builders.world import (
    NOW,
    a_placeholder,
    a_pod,
    a_revision,
    a_service,
    a_variant,
    a_world,
    pods_of,
    signals_of,
)

SINCE_LONG = State.empty(NOW - 3600)


def planned(*services: ServiceView, pods: Iterable[PodView] = (), **fields: Any) -> Plan:
    existing = tuple(pods)
    done, _ = plan(a_world(*services, pods=existing, signals=signals_of(existing), **fields), SINCE_LONG, NOW)
    return done


def ready(done: Plan) -> Condition:
    return next(condition for condition in only(done).status.conditions if condition.type == "Ready")


@pytest.mark.parametrize(
    ("quota", "created"),
    [
        pytest.param(a_quota(gpus=(0, 2)), 2, id="two of four fit"),
        pytest.param(a_quota(gpus=(2, 2)), 0, id="full"),
        pytest.param(a_quota(gpus=(5, 2)), 0, id="lowered below its use"),
        pytest.param(a_quota(gpus=(0, 4)), 4, id="all fit"),
        pytest.param(a_quota(pods=(7, 10)), 3, id="the number of pods"),
        pytest.param(a_quota(gpus=(0, 3), pods=(0, 1)), 1, id="the tightest limit"),
        pytest.param(a_quota(gpus=(0, 0), namespace="other"), 4, id="another namespace"),
        pytest.param(a_quota(limits={"requests.cpu": (8, 8)}), 4, id="pods that request no CPU"),
        pytest.param(a_quota(gpus=(0, 0), scopes=[QuotaScope("NotBestEffort")]), 4, id="a scope of other pods"),
        pytest.param(a_quota(gpus=(0, 0), scopes=[QuotaScope("BestEffort")]), 0, id="a scope of these pods"),
    ],
)
def test_creations_within_a_quota(quota, created):
    assert len(creates(planned(a_service(min_replicas=4), quotas=[quota]))) == created


def test_use_that_is_not_counted_yet_is_left_to_the_api_server():
    quota = replace(a_quota(gpus=(0, 0)), used={})
    assert len(creates(planned(a_service(min_replicas=4), quotas=[quota]))) == 4


def test_services_share_a_quota_and_one_without_replicas_comes_first():
    chat, code = a_service("chat", min_replicas=3), a_service("code", min_replicas=2)
    done = planned(chat, code, pods=[a_pod(chat)], quotas=[a_quota(gpus=(1, 4))])
    by_service = {share.key.name: creates(Plan((share,))) for share in done.services}
    assert {name: len(created) for name, created in by_service.items()} == {"chat": 1, "code": 2}


def test_a_replica_of_several_pods_is_created_as_a_whole_or_not_at_all():
    service = a_service(min_replicas=2, wanted=a_revision(pods=2))
    assert len(creates(planned(service, quotas=[a_quota(pods=(0, 3))]))) == 2


def test_the_condition_names_the_limit_and_what_would_work():
    service = a_service(min_replicas=4)
    done = planned(service, pods=pods_of(service, 2), quotas=[a_quota(gpus=(2, 2), name="gpus")])
    said = ready(done)
    assert (said.status, said.reason) == ("False", "QuotaExceeded")
    for part in ("2 of 4 replicas", "ResourceQuota gpus", "2 more replicas", f"2 of 2 {GPUS}", "takes 1", "to 4"):
        assert part in said.message
    assert [str(event.reason) for event in only(done).events].count("QuotaExceeded") == 1


def test_the_use_in_the_condition_includes_what_this_tick_creates():
    """So the sentence is the same before and after the quota has counted the new pods."""
    service = a_service(min_replicas=4)
    before = planned(service, quotas=[a_quota(gpus=(0, 2), name="gpus")])
    assert f"2 of 2 {GPUS}" in ready(before).message


def test_memory_is_named_in_its_unit():
    quota = a_quota(limits={"requests.memory": (2**36, 2**36 + 2**30)}, name="memory")
    revision = a_revision()
    heavy = replace(revision, data=revision.data.replace('"nvidia.com/gpu": "1"', '"memory": "8Gi"'))
    said = ready(planned(a_service(wanted=heavy), quotas=[quota], revisions={})).message
    for part in ("64Gi of 65Gi requests.memory", "takes 8Gi", "to 72Gi"):
        assert part in said


def test_a_raised_quota_is_used_in_the_next_tick():
    service = a_service(min_replicas=4)
    pods = pods_of(service, 2)
    world = a_world(service, pods=pods, signals=signals_of(pods), quotas=[a_quota(gpus=(2, 2))])
    state = SINCE_LONG
    for second in range(60):
        done, state = plan(world, state, NOW + second)
        assert creates(done) == []
    raised = a_world(service, pods=pods, signals=signals_of(pods), quotas=[a_quota(gpus=(2, 4))])
    done, _ = plan(raised, state, NOW + 60)
    assert len(creates(done)) == 2


def two_ticks(service: ServiceView, quotas: Iterable[QuotaView]) -> tuple[Plan, State]:
    """The second plan while the quotas stay as they are."""
    world = a_world(service, quotas=quotas)
    _, state = plan(world, SINCE_LONG, NOW)
    return plan(world, state, NOW + 5)


def of_variant(done: Plan) -> list[str]:
    return [action.revision.variant for action in actions(done) if isinstance(action, CreatePod)]


def test_a_quota_without_space_for_the_preferred_shape_leads_to_the_next():
    service = a_service(wanted=a_revision("big", gpus=8), variants=(a_variant("small", gpus=4),))
    done, _ = two_ticks(service, [a_quota(gpus=(0, 7))])
    assert of_variant(done) == ["small"]


def test_when_no_shape_fits_the_first_that_fits_later_is_used_at_once():
    service = a_service(wanted=a_revision("big", gpus=8), variants=(a_variant("small", gpus=4),))
    _, state = two_ticks(service, [a_quota(gpus=(0, 3))])
    full = a_world(service, quotas=[a_quota(gpus=(0, 3))])
    done, state = plan(full, state, NOW + 10)
    assert creates(done) == []
    done, _ = plan(a_world(service, quotas=[a_quota(gpus=(0, 4))]), state, NOW + 15)
    assert of_variant(done) == ["small"]
    done, _ = plan(a_world(service, quotas=[a_quota(gpus=(0, 8))]), state, NOW + 15)
    assert of_variant(done) == [""]


def test_a_rollout_that_a_quota_leaves_no_surge_is_done_in_place():
    service = a_service(min_replicas=2, max_replicas=2, wanted=a_revision("new"), when_no_spare=WhenNoSpare.REPLACE)
    pods = pods_of(service, 2, revision=a_revision("old"))
    revisions = {service.uid: (a_revision("old", number=1), a_revision("new", number=2))}
    world = a_world(service, pods=pods, signals=signals_of(pods), quotas=[a_quota(gpus=(2, 2))], revisions=revisions)
    done, state = plan(world, SINCE_LONG, NOW)
    assert (creates(done), drains(done)) == ([], [])
    done, _ = plan(world, state, NOW + 5)
    assert len(drains(done)) == 1


def test_placeholders_get_what_replicas_leave():
    service = a_service(min_replicas=1, placeholders=3)
    done = planned(service, quotas=[a_quota(gpus=(0, 3), name="gpus")])
    assert (len(creates(done)), len(held(done))) == (1, 2)


def test_placeholders_make_way_for_a_replica_that_a_quota_holds_back():
    service, other = a_service("chat", min_replicas=2), a_service("code", placeholders=1)
    pods = (a_pod(service), a_pod(other), a_placeholder(other))
    done = planned(service, other, pods=pods, quotas=[a_quota(gpus=(3, 3))])
    assert len(given_up(done)) == 1


def test_placeholders_of_another_quota_stay():
    service, other = a_service("chat", min_replicas=2), a_service("code", placeholders=1)
    pods = (a_pod(service), a_pod(other), a_placeholder(other))
    replicas = QuotaScope("PriorityClass", "DoesNotExist")
    done = planned(service, other, pods=pods, quotas=[a_quota(gpus=(2, 2), scopes=[replicas])])
    assert (creates(done), given_up(done)) == ([], {})


def test_a_pool_keeps_within_the_quota_of_its_namespace():
    pool = a_pool(wanted=3)
    done = planned(warm_pools=[pool], quotas=[a_quota(pods=(0, 2), namespace=pool.key.namespace)])
    (share,) = done.warm_pools
    assert len(share.actions) == 2
