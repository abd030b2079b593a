"""Variants: another shape is used while the preferred one has no capacity, and replaced again at no loss."""

import re
from dataclasses import replace
from typing import Any

from forebay.api.status import CapacityStatus, VariantState
from forebay.world.plan import CreatePod
from tests.builders.engines import Demand
from tests.builders.loads import a_replica_capacity
from tests.builders.variants import BIG, OLD, SMALL, a_mixed_cluster, of, serve
from tests.builders.world import a_node, a_revision, a_service, a_variant

HOLD_SECONDS = 600.0
PENDING_TIMEOUT_SECONDS = 300.0


def test_the_preferred_shape_is_used_while_it_has_capacity():
    cluster = a_mixed_cluster(big=3)
    cluster.run_until(serve(cluster, 3, 0))
    cluster.run(3600, tick_seconds=60)
    assert {pod.revision for pod in cluster.pods_of("chat")} == {"own"}
    assert [revision.hash for revision in cluster.revisions[cluster.services["chat"].uid]] == ["own"]


def test_an_unschedulable_replica_is_replaced_by_the_next_variant():
    cluster = a_mixed_cluster()
    took = cluster.run_until(serve(cluster, 2, 1))
    assert PENDING_TIMEOUT_SECONDS <= took <= PENDING_TIMEOUT_SECONDS + 90
    assert len(cluster.pods_of("chat")) == 3
    (used,) = [event for _, _, event in cluster.events if event.reason == "VariantUsed"]
    assert re.search(r"variant small; base: chat-\S+ .*since 2025-06-15T15:", used.message)
    assert cluster.condition("chat", "UpToDate") == ("True", "UpToDate")


def test_only_the_preferred_shape_is_tried_until_pending_timeout():
    cluster = a_mixed_cluster()
    cluster.run(PENDING_TIMEOUT_SECONDS - 10)
    assert {pod.revision for pod in cluster.pods_of("chat")} == {"own"}


def test_without_any_free_gpu_the_shapes_are_tried_in_turn():
    cluster = a_mixed_cluster(small=0)
    cluster.run(2 * PENDING_TIMEOUT_SECONDS - 10)
    assert [pod.revision for pod in cluster.pods_of("chat") if not pod.ready] == ["small"]
    cluster.run(30)
    assert cluster.condition("chat", "Ready") == ("False", "Unschedulable")
    creations = len([pod for _, done in cluster.plans for share in done.services for pod in share.actions])
    cluster.run(4 * 3600, tick_seconds=60)
    assert len(cluster.holding_places("chat")) == 3
    after = len([pod for _, done in cluster.plans for share in done.services for pod in share.actions])
    assert after - creations <= 40, "attempts are told by the hold, not by the tick"


def test_replicas_return_one_by_one_when_nothing_needed_is_drained_and_after_the_hold():
    cluster = a_mixed_cluster(big=1)
    cluster.run_until(serve(cluster, 1, 2))
    settled_at = cluster.now
    cluster.add_node(a_node("more", gpus=8, product=BIG))

    def watch() -> None:
        assert len(cluster.serving("chat")) >= 3
        assert len(cluster.pods_of("chat")) <= 4, "the next one is not tried before the last one has gone"

    cluster.run(HOLD_SECONDS - PENDING_TIMEOUT_SECONDS / 2, watch=watch)
    assert serve(cluster, 1, 2)(), "not before the hold"
    cluster.run(900, watch=watch)
    assert serve(cluster, 3, 0)()
    assert cluster.now - settled_at > HOLD_SECONDS
    assert {pod.revision for pod in cluster.pods_of("chat")} == {"own"}
    messages = [event.message for _, _, event in cluster.events if event.reason == "DrainStarted"]
    assert len(messages) == 2
    assert all("a replica of base, which is preferred" in message for message in messages)


def test_after_the_hold_one_of_the_preferred_shape_is_tried_and_the_rest_grows_as_before():
    cluster = a_mixed_cluster(big=1, replicas=1, max_replicas=8)
    cluster.demand["chat"] = Demand(requests=210)
    cluster.run_until(serve(cluster, 1, 2))
    cluster.silent = {"chat"}
    cluster.run(HOLD_SECONDS, tick_seconds=10)
    cluster.silent = set()
    cluster.demand["chat"] = Demand(requests=700)
    cluster.run(150)
    waiting = [pod for pod in cluster.pods_of("chat") if not pod.ready and pod.revision == "own"]
    assert len(waiting) == 1
    assert of(cluster, "small") >= 3


def test_a_return_that_finds_no_room_costs_nothing_and_is_tried_less_and_less_often():
    cluster = a_mixed_cluster(big=1)
    cluster.run_until(serve(cluster, 1, 2))

    def watch() -> None:
        assert serve(cluster, 1, 2)()
        assert len(cluster.holding_places("chat")) <= 4

    before = len(cluster.events)
    cluster.run(6 * 3600, tick_seconds=60, watch=watch)
    tries = [e for _, _, e in cluster.events[before:] if e.reason == "ReplicaNoRoom"]
    assert 5 <= len(tries) <= 9
    assert cluster.condition("chat", "Ready") == ("True", "Serving")


def test_without_surge_replicas_return_only_below_the_bound():
    cluster = a_mixed_cluster(big=1, max_surge=0)
    cluster.run_until(serve(cluster, 1, 2))
    cluster.add_node(a_node("more", gpus=8, product=BIG))
    cluster.run(2 * 3600, tick_seconds=60)
    assert serve(cluster, 1, 2)()
    assert len(cluster.holding_places("chat")) == 3
    cluster.edit("chat", spec=a_service(min_replicas=3, max_replicas=4, max_surge=0).spec)
    cluster.run(900)
    assert serve(cluster, 3, 0)()


def test_an_operator_that_has_just_started_leaves_replicas_where_they_are():
    cluster = a_mixed_cluster(big=1)
    cluster.run_until(serve(cluster, 1, 2))
    cluster.run(PENDING_TIMEOUT_SECONDS)
    cluster.add_node(a_node("more", gpus=8, product=BIG))
    cluster.restart_operator()
    cluster.run(HOLD_SECONDS - 5)
    assert len(cluster.pods_of("chat")) == 3
    assert serve(cluster, 1, 2)()
    cluster.run(900)
    assert serve(cluster, 3, 0)()


def test_nothing_returns_while_the_load_is_not_known():
    cluster = a_mixed_cluster(big=1)
    cluster.run_until(serve(cluster, 1, 2))
    cluster.add_node(a_node("more", gpus=8, product=BIG))
    cluster.silent = {"chat"}
    cluster.run(3600, tick_seconds=20)
    assert len(cluster.pods_of("chat")) == 3
    cluster.silent = set()
    cluster.run(900)
    assert serve(cluster, 3, 0)()


def test_less_load_takes_replicas_of_the_variant_first():
    cluster = a_mixed_cluster(replicas=1, max_replicas=3, big=2)
    cluster.demand["chat"] = Demand(requests=400)
    cluster.run_until(serve(cluster, 2, 1))
    cluster.demand["chat"] = Demand(requests=130)
    cluster.run_until(lambda: len(cluster.pods_of("chat")) == 2)
    assert serve(cluster, 2, 0)()


def test_a_variant_whose_engines_fail_is_left_for_the_next():
    variants = (a_variant("small", product=SMALL), a_variant("old", product=OLD))
    cluster = a_mixed_cluster(big=2, variants=variants)
    cluster.add_node(a_node("old", gpus=8, product=OLD))
    cluster.crashing = {"small"}
    cluster.run_until(lambda: (of(cluster, "own"), of(cluster, "old")) == (2, 1))
    assert cluster.condition("chat", "UpToDate") == ("True", "UpToDate")


def test_a_stuck_replica_of_a_variant_is_not_loading():
    cluster = a_mixed_cluster(big=1, small=0, replicas=2)
    cluster.run(2 * PENDING_TIMEOUT_SECONDS + 30)
    assert cluster.condition("chat", "Ready") == ("False", "Unschedulable")
    assert [(v.name, v.ready, v.loading) for v in cluster.status("chat").variants] == [("base", 1, 0), ("small", 0, 0)]
    assert cluster.status("chat").replicas.loading == 0


def test_a_quota_that_refuses_the_preferred_shape_leads_to_the_next_at_once():
    cluster = a_mixed_cluster(big=8)
    cluster.refuse = lambda action: (
        "exceeded quota" if isinstance(action, CreatePod) and action.revision.hash == "own" else None
    )
    took = cluster.run_until(serve(cluster, 0, 3))
    assert took <= 120


def test_a_rollout_with_two_variants_alive_ends():
    cluster = a_mixed_cluster(big=2)
    cluster.run_until(serve(cluster, 2, 1))
    cluster.run(400)
    cluster.edit(
        "chat",
        wanted=a_revision("own2", product=BIG),
        variants=(a_variant("small", product=SMALL, hash="small2"),),
    )

    def watch() -> None:
        assert len(cluster.holding_places("chat")) <= 4
        assert len(cluster.serving("chat")) >= 2

    cluster.run(1800, tick_seconds=10, watch=watch)
    assert {pod.revision for pod in cluster.pods_of("chat")} <= {"own2", "small2"}
    assert len(cluster.serving("chat")) == 3
    assert cluster.condition("chat", "UpToDate") == ("True", "UpToDate")
    assert "RolloutFinished" in cluster.event_reasons("chat")


def test_a_failing_rollout_halts_with_two_variants_alive():
    cluster = a_mixed_cluster(big=2)
    cluster.run_until(serve(cluster, 2, 1))
    cluster.crashing = {"own2", "small2"}
    cluster.edit(
        "chat",
        wanted=a_revision("own2", product=BIG),
        variants=(a_variant("small", product=SMALL, hash="small2"),),
    )
    cluster.run(1800, tick_seconds=10)
    assert cluster.condition("chat", "UpToDate") == ("False", "RolloutFailed")
    assert serve(cluster, 2, 1)()
    assert len(cluster.holding_places("chat")) <= 4


def test_replicas_of_a_variant_that_is_taken_out_of_the_spec_are_replaced():
    cluster = a_mixed_cluster(big=2)
    cluster.run_until(serve(cluster, 2, 1))
    cluster.add_node(a_node("more", gpus=2, product=BIG))
    cluster.edit("chat", variants=())
    cluster.run(600)
    assert serve(cluster, 3, 0)()
    assert len(cluster.pods_of("chat")) == 3


def test_the_ceiling_of_gpus_is_no_reason_to_ask_for_a_return_at_every_tick():
    cluster = a_mixed_cluster(big=1)
    cluster.settings = replace(cluster.settings, max_gpus=3)
    cluster.run_until(serve(cluster, 1, 2))
    cluster.add_node(a_node("more", gpus=8, product=BIG))
    cluster.run(2 * HOLD_SECONDS)
    conditions = {planned.status.conditions for _, done in cluster.plans[-100:] for planned in done.services}
    assert serve(cluster, 1, 2)()
    assert len(conditions) <= 2


def test_a_variant_is_stored_when_a_replica_of_it_is_created():
    cluster = a_mixed_cluster()
    uid = cluster.services["chat"].uid
    cluster.run(PENDING_TIMEOUT_SECONDS - 10)
    assert [revision.hash for revision in cluster.revisions[uid]] == ["own"]
    cluster.run(30)
    assert [(revision.hash, revision.variant) for revision in cluster.revisions[uid]] == [
        ("own", ""),
        ("small", "small"),
    ]


HALF = a_variant("small", product=SMALL, replica_capacity=a_replica_capacity(slower=1.6))
"""One of its replicas has 0.55 of the capacity of the service's own shape, at 500 tokens in and 200 out."""
ARRIVALS = Demand(requests=30, arrivals=70)
"""Requests per second. With headroom that takes 1.9 replicas of 46.9 requests per second each."""


def test_each_replica_is_counted_by_its_own_capacity():
    fields: dict[str, Any] = {
        "replicas": 1,
        "max_replicas": 8,
        "replica_capacity": a_replica_capacity(),
        "variants": (HALF,),
    }
    planned = CapacityStatus(tokens_per_minute=1000, per_replica=1000, basis="profile")
    alone = a_mixed_cluster(big=8, capacity_status=planned, **fields)
    mixed = a_mixed_cluster(big=1, capacity_status=planned, **fields)
    for cluster in (alone, mixed):
        cluster.demand["chat"] = ARRIVALS
        cluster.run(1200, tick_seconds=10)
    assert (of(alone, "own"), of(alone, "small")) == (2, 0)
    assert (of(mixed, "own"), of(mixed, "small")) == (1, 2)
    capacity = mixed.status("chat").capacity
    assert capacity == planned.model_copy(update={"tokens_per_minute": 2100})
    assert [(v.name, v.ready, v.carries_percent) for v in mixed.status("chat").variants] == [
        ("base", 1, 100),
        ("small", 2, 55),
    ]


def test_a_replica_that_carries_less_does_not_replace_one_that_is_needed():
    """The variant has twice the capacity; at maxReplicas no replica of the service's own shape could replace it."""
    strong = a_variant("small", product=SMALL, replica_capacity=a_replica_capacity())
    own = a_replica_capacity(slower=1.6)
    cluster = a_mixed_cluster(big=1, replicas=2, max_replicas=3, replica_capacity=own, variants=(strong,))
    cluster.demand["chat"] = ARRIVALS
    cluster.run_until(lambda: len(cluster.serving("chat")) == 3 and of(cluster, "small") >= 1)
    cluster.add_node(a_node("more", gpus=8, product=BIG))

    def watch() -> None:
        assert len(cluster.holding_places("chat")) <= 3
        assert of(cluster, "own") * 0.55 + of(cluster, "small") >= 1.9

    cluster.run(2 * 3600, tick_seconds=30, watch=watch)
    assert of(cluster, "small") >= 1


def test_status_says_why_a_variant_is_used_and_what_brings_the_preferred_one_back():
    cluster = a_mixed_cluster()
    cluster.run_until(serve(cluster, 2, 1))
    own, small = cluster.status("chat").variants
    assert (own.name, own.ready, own.state) == ("base", 2, VariantState.SHORT)
    assert (small.name, small.ready, small.state) == ("small", 1, VariantState.NEXT)
    assert re.search(r" since 2025-06-15T15:.* again at 2025-06-15T15:21:", own.message)
    decision = cluster.status("chat").decision
    assert decision is not None
    (coming,) = [due for due in decision.upcoming if "is tried again" in due.what]
    assert coming.at is not None
    assert coming.at in own.message
    assert "less preferred replica drains" in coming.what
    cluster.run(100)
    assert cluster.status("chat").variants == (own, small), "what stays is not written anew"
