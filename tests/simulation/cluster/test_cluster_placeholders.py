"""A simulated cluster applies every action: placeholders hold GPUs and are preempted, gated groups start together,
and variants go to their own nodes."""

from dataclasses import replace
from typing import get_args

import pytest

from forebay.api.warm_pool import WarmPool
from forebay.simulation.cluster.cluster_model import ClusterModel
from forebay.simulation.cluster.cold_start import NodePool
from forebay.simulation.cluster.gateway_model import Gateway
from forebay.simulation.cluster.planner_control import PlannerControl
from forebay.simulation.cluster.served_model import ServedModel, pool_of_manifest
from forebay.simulation.cluster.timeline import Timeline
from forebay.simulation.fluid.fluid_gateway import FluidGateway
from forebay.world.plan import Action, CreatePlaceholder, CreatePod, DeletePlaceholder, LiftGate, StoreRevision
from forebay.world.world import PodView
from tests.builders.world import PRODUCT as PRODUCT_LABEL
from tests.builders.world import a_revision, a_variant
from tests.simulation.loops import CHAT, EXACT, PRODUCT, a_loop, a_model, a_view

PULL_SECONDS = EXACT.ready_seconds - EXACT.warm_seconds
LABELS = ((PRODUCT_LABEL, PRODUCT),)


def a_cluster(*pools: NodePool, **view) -> ClusterModel:
    """A cluster with one service, no pods and no control."""
    model = a_model(a_view())
    model = replace(model, view=replace(model.view, **view))
    cluster = ClusterModel(Timeline(), [model], pools or (NodePool(nodes=1, gpus_per_node=2, labels=LABELS),), EXACT)
    cluster.gateways[CHAT] = _no_traffic(model)
    return cluster


def _no_traffic(model: ServedModel) -> Gateway | FluidGateway:
    return a_loop(0.0, 10, control=PlannerControl(), model=model).cluster.gateways[CHAT]


def hold(cluster: ClusterModel, name: str) -> None:
    service = cluster.services[CHAT]
    assert service.wanted is not None
    assert service.wanted.place is not None
    cluster.carry_out(service, CreatePlaceholder(service.wanted.place, name, "placeholders"))


def serve(cluster: ClusterModel, name: str, *, revision=None, ordinal=0, rank=0) -> None:
    service = cluster.services[CHAT]
    revision = revision or service.wanted
    assert revision is not None
    cluster.carry_out(service, CreatePod(revision, ordinal, rank, name))


def pod(cluster: ClusterModel, name: str) -> PodView:
    view = cluster.pod_view(CHAT.namespace, name)
    assert view is not None, name
    return view


def is_gone(cluster: ClusterModel, name: str) -> bool:
    return cluster.pod_view(CHAT.namespace, name) is None


def test_a_placeholder_holds_gpus_on_a_node_and_is_ready_once_its_image_is_pulled():
    cluster = a_cluster()
    hold(cluster, "held")
    assert (pod(cluster, "held").node, pod(cluster, "held").ready) == ("gpu-0", False)
    cluster.timeline.pass_to(PULL_SECONDS)
    assert (pod(cluster, "held").phase, pod(cluster, "held").ready) == ("Running", True)
    hold(cluster, "second")
    hold(cluster, "third")
    assert pod(cluster, "second").node == "gpu-0"
    assert (pod(cluster, "third").node, pod(cluster, "third").blocked) == (None, "Unschedulable")


def test_a_replica_preempts_a_placeholder_only_where_no_gpu_is_free_and_starts_warm():
    cluster = a_cluster()
    hold(cluster, "held")
    cluster.timeline.pass_to(PULL_SECONDS)
    serve(cluster, "chat-0")
    assert not is_gone(cluster, "held")
    serve(cluster, "chat-1", ordinal=1)
    assert is_gone(cluster, "held")
    assert pod(cluster, "chat-1").node == "gpu-0"
    cluster.timeline.pass_to(PULL_SECONDS + EXACT.warm_seconds)
    assert pod(cluster, "chat-1").ready
    serve(cluster, "chat-2", ordinal=2)
    assert pod(cluster, "chat-2").blocked == "Unschedulable"


def test_a_deleted_placeholder_frees_its_gpus_for_one_that_waits():
    cluster = a_cluster()
    for name in ("first", "second", "third"):
        hold(cluster, name)
    held = pod(cluster, "first")
    service = cluster.services[CHAT]
    cluster.carry_out(service, DeletePlaceholder("first", held.uid, "stale", "no longer wanted"))
    assert pod(cluster, "first") == held
    assert cluster.conflicts == 1
    cluster.carry_out(service, DeletePlaceholder("first", held.uid, held.resource_version, "no longer wanted"))
    assert is_gone(cluster, "first")
    assert pod(cluster, "third").node == "gpu-0"


def test_placeholders_survive_no_node():
    cluster = a_cluster()
    hold(cluster, "held")
    cluster.timeline.pass_to(PULL_SECONDS)
    cluster.kill_node("gpu-0")
    assert not pod(cluster, "held").ready


def test_replicas_of_several_pods_wait_for_their_gates_and_go_to_different_nodes():
    cluster = a_cluster(NodePool(nodes=2))
    group = a_revision("group", pods=2)
    cluster.carry_out(cluster.services[CHAT], StoreRevision(group))
    for rank in (0, 1):
        serve(cluster, f"chat-0-{rank}", revision=group, rank=rank)
    assert {pod(cluster, f"chat-0-{rank}").node for rank in (0, 1)} == {None}
    lifted = pod(cluster, "chat-0-0")
    cluster.carry_out(cluster.services[CHAT], LiftGate(lifted.name, lifted.uid, lifted.resource_version))
    cluster.timeline.pass_to(2 * EXACT.ready_seconds)
    assert (pod(cluster, "chat-0-0").node, pod(cluster, "chat-0-0").ready) == ("gpu-0", False)
    lifted = pod(cluster, "chat-0-1")
    cluster.carry_out(cluster.services[CHAT], LiftGate(lifted.name, lifted.uid, lifted.resource_version))
    assert pod(cluster, "chat-0-1").node == "gpu-1"
    cluster.timeline.pass_to(4 * EXACT.ready_seconds)
    assert pod(cluster, "chat-0-0").ready


@pytest.mark.parametrize("stored", [True, False])
def test_a_variants_pods_go_to_the_variants_nodes(stored: bool):
    small = NodePool(name="small", nodes=1, labels=((PRODUCT_LABEL, "small"),))
    variant = a_variant("cheap", product="small")
    cluster = a_cluster(NodePool(nodes=1, labels=LABELS), small, variants=(variant,))
    if stored:
        cluster.carry_out(cluster.services[CHAT], StoreRevision(variant.wanted))
    serve(cluster, "chat-0", revision=variant.wanted)
    serve(cluster, "chat-1", ordinal=1)
    assert (pod(cluster, "chat-0").node, pod(cluster, "chat-1").node) == ("small-0", "gpu-0")


class TestWithThePlanner:
    def test_it_holds_what_the_manifest_asks_for_and_makes_none_in_vain(self):
        control = PlannerControl()
        loop = a_loop(4.0, 300, control=control, warmPool={"placeholders": 2})
        done = loop.run(300)[CHAT]
        service = loop.cluster.services[CHAT]
        assert len(loop.cluster.placeholders.by_name) == 2
        assert len(loop.cluster.placeholders_of(service.uid)) == 2
        assert [c.reason for c in service.status.conditions if c.type == "Warm"] != ["PlaceholdersHeldBack"]
        assert done.gpu_seconds == pytest.approx(300 * 3, rel=0.05)

    def test_a_replica_that_takes_a_place_serves_sooner(self):
        def second_serves(placeholders: int) -> float:
            pools = (NodePool(nodes=1, gpus_per_node=2),)
            loop = a_loop(
                2.0, 900, control=PlannerControl(), pools=pools, warmPool={"placeholders": placeholders},
            )  # fmt: skip
            loop.at(400, lambda it: _raise_minimum(it.cluster))
            ticks = loop.run(900)[CHAT].ticks
            return next(tick.at for tick in ticks if tick.serving == 2) - 400

        assert second_serves(0) == pytest.approx(EXACT.ready_seconds, abs=20)
        assert second_serves(1) == pytest.approx(EXACT.warm_seconds, abs=20)


def _raise_minimum(cluster: ClusterModel) -> None:
    service = cluster.services[CHAT]
    assert service.spec is not None
    scaling = service.spec.scaling.model_copy(update={"min_replicas": 2})
    spec = service.spec.model_copy(update={"scaling": scaling})
    cluster.services[CHAT] = replace(service, spec=spec, generation=2)


def test_an_action_of_no_known_kind_is_an_error():
    cluster = a_cluster()
    assert len(get_args(Action)) == 11
    with pytest.raises(AssertionError):
        cluster.carry_out(cluster.services[CHAT], "an action of no known kind")  # type: ignore[arg-type]


class TestWarmPools:
    def test_a_pool_is_held_beside_the_service_and_gives_way_to_its_replicas(self):
        pool = pool_of_manifest(
            WarmPool.model_validate(
                {
                    "apiVersion": "forebay.dev/v1alpha1",
                    "kind": "WarmPool",
                    "metadata": {"name": "spare"},
                    "spec": {"gpu": {"product": PRODUCT}, "placeholders": 1},
                }
            )
        )
        loop = a_loop(2.0, 900, control=PlannerControl(), pools=(NodePool(nodes=1, gpus_per_node=2),))
        loop.cluster.warm_pools = {pool.key: pool}
        loop.at(390, lambda it: _held_before(it.cluster, pool.uid))
        loop.at(400, lambda it: _raise_minimum(it.cluster))
        done = loop.run(900)[CHAT]
        second = next(tick.at for tick in done.ticks if tick.serving == 2) - 400
        assert second == pytest.approx(EXACT.warm_seconds, abs=20)
        assert loop.cluster.warm_pools[pool.key].status.wanted == 1
        assert [held.view.blocked for held in loop.cluster.placeholders.by_name.values()] == ["Unschedulable"]
        assert done.gpu_seconds == pytest.approx(900 + 500, abs=20)


def _held_before(cluster: ClusterModel, owner_uid: str) -> None:
    assert [(held.view.ready, held.view.node) for held in cluster.placeholders_of(owner_uid)] == [(True, "gpu-0")]
