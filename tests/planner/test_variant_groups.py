"""Variants whose replicas span several nodes (`engine.nodes`): used, given back and replaced as a whole."""

import re
from dataclasses import replace

from forebay.api.labels import GROUP_GATE
from forebay.api.status import VariantState
from tests.builders.cluster import Cluster, a_cluster
from tests.builders.engines import Demand
from tests.builders.variants import BIG, SMALL, of
from tests.builders.world import a_node, a_revision, a_service, a_variant

PAIRED = a_variant("pair", product=SMALL, pods=2, gpus=8)
"""One replica of it takes two nodes with eight L40S each."""
PAIRED_BASE = a_revision("own", product=BIG, pods=2, gpus=8)
HOLD_SECONDS = 600.0
PENDING_TIMEOUT_SECONDS = 300.0


def small_nodes(count: int, product: str = SMALL, name: str = "small"):
    return [a_node(f"{name}-{number}", product=product) for number in range(count)]


def a_cluster_of_pairs(*, big: int, small: int, replicas: int = 2, **fields) -> Cluster:
    """`chat` on one H100 a replica, with two nodes of L40S as its variant: GPUs of the one, nodes of the other."""
    service = a_service(
        "chat",
        wanted=fields.pop("wanted", a_revision("own", product=BIG)),
        variants=fields.pop("variants", (PAIRED,)),
        **{"min_replicas": replicas, "max_replicas": replicas} | fields,
    )
    cluster = a_cluster(service, nodes=[a_node("big", gpus=big, product=BIG), *small_nodes(small)])
    cluster.demand["chat"] = Demand(requests=10)
    return cluster


def whole(cluster: Cluster, revision: str) -> set[int]:
    """Replicas of the revision that have a pod on each of two nodes."""
    nodes: dict[int, set[str | None]] = {}
    for pod in cluster.pods_of("chat"):
        if pod.revision == revision and pod.node is not None:
            nodes.setdefault(pod.ordinal, set()).add(pod.node)
    return {ordinal for ordinal, on in nodes.items() if len(on) == 2}


def serves(cluster: Cluster, own: int, pairs: int):
    """By the status: of a pair only rank 0 answers."""
    return lambda: [variant.ready for variant in cluster.status("chat").variants] == [own, pairs]


def test_a_variant_of_two_nodes_takes_the_place_of_what_finds_none():
    cluster = a_cluster_of_pairs(big=1, small=4)
    gated: set[str] = set()
    lone: list[int] = []

    def watch() -> None:
        pairs = [pod for pod in cluster.pods_of("chat") if pod.revision == "pair"]
        gated.update(pod.name for pod in pairs if GROUP_GATE in pod.gates)
        lone.append(len(pairs) % 2)

    cluster.run(PENDING_TIMEOUT_SECONDS + 120, watch=watch)
    assert serves(cluster, 1, 1)()
    assert whole(cluster, "pair") == {0}
    assert len(gated) == 2
    assert set(lone) == {0}, "both pods or none"
    assert cluster.status("chat").replicas.ready == 2


def test_half_a_variant_is_given_back_and_the_preferred_shape_is_tried_again_in_its_time():
    """One node where two are needed: it holds eight GPUs for no longer than pendingTimeout, and is no capacity."""
    cluster = a_cluster_of_pairs(big=1, small=1)
    held: list[bool] = []

    def watch() -> None:
        bound = [p for p in cluster.pods_of("chat") if p.revision == "pair" and p.node is not None and not p.deleting]
        held.append(bool(bound))
        assert cluster.status("chat").replicas.ready <= 1

    cluster.run(4 * 3600, tick_seconds=10, watch=watch)
    assert any(held)
    longest = max(len(stretch) for stretch in "".join("x" if single else " " for single in held).split())
    assert longest * 10 <= PENDING_TIMEOUT_SECONDS + 60
    cluster.add_node(a_node("more", gpus=2, product=BIG))
    cluster.run(2 * 3600, tick_seconds=10)
    assert serves(cluster, 2, 0)()
    assert whole(cluster, "pair") == set()


def test_pairs_return_one_by_one_and_drain_as_a_whole():
    cluster = a_cluster_of_pairs(big=1, small=4, replicas=3)
    cluster.run_until(serves(cluster, 1, 2))
    cluster.add_node(a_node("more", product=BIG))

    def watch() -> None:
        assert cluster.status("chat").replicas.ready >= 3
        halves: dict[int, set[tuple[bool, bool]]] = {}
        for pod in cluster.pods_of("chat"):
            if pod.revision == "pair":
                halves.setdefault(pod.ordinal, set()).add((pod.serving, pod.deleting))
        assert all(len(states) == 1 for states in halves.values()), halves

    cluster.run(HOLD_SECONDS + 900, watch=watch)
    assert serves(cluster, 3, 0)()
    assert of(cluster, "own") == len(cluster.pods_of("chat")) == 3
    drains = [event.message for _, _, event in cluster.events if event.reason == "DrainStarted"]
    assert len(drains) == 2, "one for each replica, not for each of its pods"


def test_a_pair_that_finds_only_one_of_its_nodes_leads_to_a_variant_of_one():
    single = a_variant("single", product=SMALL, gpus=8)
    cluster = a_cluster_of_pairs(big=0, small=1, replicas=1, wanted=PAIRED_BASE, variants=(single,))
    cluster.nodes["big"] = a_node("big", product=BIG)
    upcoming_texts: set[str] = set()

    def watch() -> None:
        if (decision := cluster.status("chat").decision) is not None:
            upcoming_texts.update(due.what for due in decision.upcoming)

    cluster.run(2 * PENDING_TIMEOUT_SECONDS, watch=watch)
    assert of(cluster, "single") == 1
    pattern = r"chat-997b1-own-0-0 has only some of its nodes; .* single is tried\."
    assert any(re.fullmatch(pattern, text) for text in upcoming_texts)
    own, fallback = cluster.status("chat").variants
    assert (own.name, own.ready, own.state) == ("base", 0, VariantState.SHORT)
    assert (fallback.name, fallback.ready, fallback.state) == ("single", 1, VariantState.NEXT)
    assert re.search(r"chat-997b1-own-0-1 .*no node since", own.message), "the rank without a node is named"


def test_the_ceiling_of_gpus_counts_all_pods_of_a_variant():
    """A pair takes 16 GPUs; with room for 15 beside the one that serves nothing of it is begun."""
    for ceiling, pairs in ((1 + 15, 0), (1 + 16, 1)):
        cluster = a_cluster_of_pairs(big=1, small=4)
        cluster.settings = replace(cluster.settings, max_gpus=ceiling)
        cluster.run(PENDING_TIMEOUT_SECONDS + 300)
        assert len(whole(cluster, "pair")) == pairs
