"""Properties that hold for every world."""

import os
from collections.abc import Mapping
from dataclasses import fields, replace
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.world.plan import AdoptPod, CancelDrain, CreatePod, DeletePod, StartDrain
from forebay.world.world import PodView, World
from tests.builders.cluster import Cluster, a_cluster
from tests.builders.engines import Demand
from tests.builders.plans import actions, creates, drains
from tests.builders.pools import a_pool
from tests.builders.quotas import charged_by
from tests.builders.world import NOW, a_revision, a_service, a_spec, a_world, pods_of, signals_of
from tests.planner.any_world import clusters, quick, quotas, slow, states, worlds

Place = tuple[str, int]
"""Revision and ordinal: a replica, of one pod or several."""


def place_of(pod: PodView) -> Place:
    return pod.revision, pod.ordinal


def holding_places(world: World, uid: str) -> set[Place]:
    """Replicas that take requests, or are on their way to."""
    ours = [pod for pod in world.pods if pod.owner_uid == uid and pod.place is None]
    over = {
        place_of(pod)
        for pod in ours
        if pod.deleting
        or pod.drain_started_at is not None
        or (pod.ready and not pod.serving)
        or pod.phase in ("Failed", "Succeeded")
    }
    return {place_of(pod) for pod in ours} - over


def ending_places(world: World) -> set[Place]:
    """Replicas on nodes with a spot or maintenance notice. Their replacements do not wait for them to end."""
    noticed = {node.name for node in world.nodes if node.notice}
    return {place_of(pod) for pod in world.pods if pod.node in noticed}


def waits(world: World, adopted: AdoptPod) -> bool:
    """Whether the orphan does not drain yet. A pod without the serving label drains, with or without the annotation."""
    return not any(
        pod.drain_started_at is not None or (pod.ready and not pod.serving)
        for pod in world.pods
        if pod.uid == adopted.uid
    )


@quick
@given(worlds(), states, st.sampled_from([5, 61, 3600]))
def test_every_world_has_a_plan(world, state, pause):
    done, after = plan(world, state, NOW)
    assert done.held is None
    assert [share.error for share in done.services] == [None] * len(world.services)
    again, _ = plan(world, after, NOW + pause)
    assert [share.error for share in again.services] == [None] * len(world.services)


def shuffled(value: Any, chance: Random) -> Any:
    """A value with every collection in it, nested ones included, in another order."""
    match value:
        case tuple():
            return tuple(chance.sample(value, len(value)))
        case Mapping():
            items = chance.sample(list(value.items()), len(value))
            return {key: shuffled(done_plan, chance) for key, done_plan in items}
    return value


@quick
@given(worlds(), states, st.randoms())
def test_the_order_of_the_input_does_not_matter(world, state, chance):
    other = World(**{field.name: shuffled(getattr(world, field.name), chance) for field in fields(world)})
    assert repr(plan(world, state, NOW)) == repr(plan(other, state, NOW))


@quick
@given(worlds(), states)
def test_creations_never_lead_above_maxreplicas_and_surge(world, state):
    done, _ = plan(world, state, NOW)
    named = {pod.name: place_of(pod) for pod in world.pods}
    cordoned = any(node.cordoned for node in world.nodes)
    for share, service in zip(done.services, sorted(world.services, key=lambda s: s.key), strict=True):
        gone = {named[a.name] for a in share.actions if isinstance(a, StartDrain | DeletePod)}
        gained = {(a.revision.hash, a.ordinal) for a in share.actions if isinstance(a, CreatePod)}
        gained |= {named[a.name] for a in share.actions if isinstance(a, CancelDrain)}
        adopted = [a for a in share.actions if isinstance(a, AdoptPod) and a.drain_reason is None and waits(world, a)]
        # A lost pod of a replica whose others are being deleted is adopted to end with them.
        gained |= {named[a.name] for a in adopted if named[a.name] not in gone}
        held = holding_places(world, service.uid) - gone - ending_places(world) | gained
        replaced = cordoned or len({revision for revision, _ in held}) > 1
        surge = service.spec.rollout.max_surge if replaced else 0
        if gained:
            assert len(held) <= service.spec.scaling.max_replicas + surge


@quick
@given(worlds(), states, quotas(["default", a_pool().key.namespace], at_least=1))
def test_creations_never_exceed_a_quota(world, state, quotas):
    unlimited = replace(world.settings, max_creates_per_minute=200, max_gpus=None)
    done, _ = plan(replace(world, settings=unlimited, quotas=tuple(quotas)), state, NOW)
    planned = (done.services, done.warm_pools)
    for quota in quotas:
        shares = [share for kind in planned for share in kind if share.key.namespace == quota.namespace]
        after = charged_by(quota, (action for share in shares for action in share.actions))
        assert all(used <= max(quota.hard[name], quota.used[name]) for name, used in after.items())


@quick
@given(worlds(), states)
def test_only_our_own_pods_are_touched_and_no_name_is_used_twice(world, state):
    done, _ = plan(world, state, NOW)
    names = {pod.name for pod in world.pods}
    owners = {service.uid for service in world.services} | {pool.uid for pool in world.warm_pools}
    foreign = {pod.uid for pod in world.pods if pod.owner_uid is not None and pod.owner_uid not in owners}
    touched = [action.uid for action in actions(done) if hasattr(action, "uid")]
    assert not foreign & set(touched)
    assert not names & set(creates(done))
    assert len(creates(done)) == len(set(creates(done)))


@quick
@given(worlds(), states)
def test_without_metrics_no_serving_replica_is_scaled_down(world, state):
    """Only bounds, rollouts, nodes and orphans may cause a drain then, never the load."""
    silent = replace(world, signals={})
    done, after = plan(silent, state, NOW)
    for share in done.services:
        memory = after.services[share.uid].scaling
        service = next(s for s in silent.services if s.uid == share.uid)
        if service.spec and memory.desired is not None and share.status.decision is not None:
            before = min(share.status.decision.desired, service.spec.scaling.max_replicas)
            assert share.status.decision.rule != "scale_down"
            assert memory.desired >= min(before, service.spec.scaling.max_replicas)


@quick
@given(worlds(), states)
def test_desired_is_always_within_bounds(world, state):
    done, _ = plan(world, state, NOW)
    for share, service in zip(done.services, sorted(world.services, key=lambda s: s.key), strict=True):
        if share.status.decision is not None and not service.problems and not service.deleting:
            scaling = service.spec.scaling
            assert scaling.min_replicas <= share.status.decision.desired <= scaling.max_replicas
            assert share.status.replicas.desired <= scaling.max_replicas


HISTORIES = int(os.environ.get("FOREBAY_HISTORIES", "8"))
"""Each lasts hours; `make test-long` plays more of them."""
DISTURBANCES = (
    "load",
    "idle",
    "outage",
    "restart",
    "rollout",
    "bad rollout",
    "cordon",
    "kill pod",
    "max 1",
    "lose node",
    "notice",
)


def disturb(cluster: Cluster, what: str) -> None:
    service = cluster.services["chat"]
    assert service.spec is not None
    if what in ("load", "idle"):
        cluster.demand["chat"] = Demand(requests=400 if what == "load" else 0)
    elif what == "outage":
        cluster.silent ^= {"chat"}
    elif what == "restart":
        cluster.restart_operator()
    elif what in ("rollout", "bad rollout"):
        hash_ = f"r{service.generation}"
        cluster.crashing |= {hash_} if what == "bad rollout" else set()
        cluster.edit("chat", wanted=a_revision(hash_, product="H100"))
    elif what == "max 1":
        cluster.edit("chat", spec=a_spec(max_replicas=1, max_surge=service.spec.rollout.max_surge))
    elif what == "cordon":
        cluster.cordon("node-1")
    elif what == "kill pod" and cluster.pods_of("chat"):
        cluster.delete_pod(cluster.pods_of("chat")[0].name)
    elif what == "notice":
        cluster.give_notice("node-1")
    elif what == "lose node":
        cluster.kill_node("node-1")


@settings(slow, max_examples=HISTORIES)
@given(clusters(), st.lists(st.sampled_from(DISTURBANCES), max_size=5), st.data())
def test_bounds_hold_at_every_tick_and_the_cluster_settles(cluster, disturbances, data):
    held = 0

    def watch() -> None:
        """Lowered bounds are reached by drains, and nothing may be added above them meanwhile."""
        nonlocal held
        before, held = held, len(cluster.holding_places("chat"))
        assert held <= max(before, limit())

    def limit() -> Any:
        spec = cluster.services["chat"].spec
        assert spec is not None
        return spec.scaling.max_replicas + spec.rollout.max_surge

    cluster.run(120, watch=watch)
    for what in disturbances:
        disturb(cluster, what)
        cluster.run(data.draw(st.sampled_from([15, 100, 400])), watch=watch)
    cluster.silent = set()
    cluster.run(2 * 3600, tick_seconds=25, watch=watch)
    assert held <= limit()
    ticks, stuck = len(cluster.plans), [pod for pod in cluster.pods_of("chat") if not pod.ready]
    cluster.run(300, watch=watch)
    done = [action for _, done_plan in cluster.plans[ticks:] for action in actions(done_plan)]
    assert len(done) <= 2 * len(stuck) + 2 * bool(cluster.services["chat"].variants), (
        "what finds no place is deleted and created anew once an hour, as is one that tries to return from a variant"
    )


@slow
@given(worlds(), states)
def test_a_plan_that_was_carried_out_leaves_nothing_to_do(world, state):
    """The second look, right after, at what the first one has made of the world: only new facts may need more."""
    cluster = a_cluster(*world.services, nodes=world.nodes, settings=world.settings)
    cluster.revisions = {uid: list(done_plan) for uid, done_plan in world.revisions.items()}
    for pod in world.pods:
        cluster.put(pod)
    cluster.state = state
    for _ in range(3):
        first, cluster.state = plan(cluster.world(), cluster.state, NOW)
        cluster.apply(first)
    again, _ = plan(cluster.world(), cluster.state, NOW)
    assert actions(again) == ()


@quick
@given(st.integers(2, 5), st.data())
def test_any_replica_without_metrics_holds_the_count(replicas, data):
    """An idle service is about to be scaled down; the silence of any of its replicas keeps that from happening."""
    service = a_service(min_replicas=1, max_replicas=5)
    serving_pods = pods_of(service, replicas)
    silent = data.draw(st.sets(st.sampled_from(serving_pods), min_size=1))
    pause = data.draw(st.sampled_from([0, 50, 90, 700]), "seconds without a tick, as on a stalled machine")
    pause_at = data.draw(st.sampled_from([100, 240, 500]))
    state, drained = State.empty(NOW), []
    for second in range(0, 700, 20):
        now = NOW + second + (pause if second >= pause_at else 0)
        answering = [pod for pod in serving_pods if pod not in silent or second < 200]
        signals = {**signals_of(serving_pods, at=NOW + 180), **signals_of(answering, at=now)}
        done, state = plan(a_world(service, pods=serving_pods, signals=signals), state, now)
        assert [share.error for share in done.services] == [None]
        drained += drains(done)
    assert drained == []


def test_with_all_metrics_the_same_load_is_scaled_down():
    service = a_service(min_replicas=1, max_replicas=5)
    serving_pods = pods_of(service, 3)
    state, drained = State.empty(NOW), []
    for second in range(0, 700, 20):
        done, state = plan(
            a_world(service, pods=serving_pods, signals=signals_of(serving_pods, at=NOW + second)), state, NOW + second
        )
        drained += drains(done)
    assert drained
