"""Weighing: what the replicas of each variant carry, against one of the service's own shape."""

from collections.abc import Iterable, Mapping
from typing import Final

from forebay.planner.observe.replicas import LIVE, Replica, ReplicaState
from forebay.planner.observe.variant_order import VariantOrder
from forebay.scaling.learning.replica_capacity import ReplicaCapacity
from forebay.scaling.load.arrivals import Arrivals, RequestLengths
from forebay.scaling.replica_weights import ReplicaWeights
from forebay.world.world import Revision, ServiceView

STEPS: Final = 20
"""Of a weight, per whole: what is learned of lengths moves all the time, and a twentieth is no reason to count anew."""
LEAST: Final = 0.1
MOST: Final = 10.0
"""A ratio beyond that is more likely a wrong profile than a GPU."""
UNSTARTED: Final = {ReplicaState.SERVING: 0, ReplicaState.LOADING: 1, ReplicaState.BLOCKED: 2}


def weights_by_variant(service: ServiceView, arrivals: Arrivals, earlier: RequestLengths | None) -> dict[str, float]:
    """Requests per second that one replica of each variant carries within its promises, over what one of the service's
    own shape does, by their profiles and the lengths that are seen. 1 where that is not known.

    Live measurements refine the service's own profile alone, and are left out on both sides.
    """
    own = service.replica_capacity
    lengths = arrivals.lengths or earlier or (own.declared if own is not None else None)
    return {variant.wanted.variant: _weight(own, variant.replica_capacity, lengths) for variant in service.variants}


def _weight(own: ReplicaCapacity | None, other: ReplicaCapacity | None, lengths: RequestLengths | None) -> float:
    if own is None or other is None or lengths is None:
        return 1.0
    mine, theirs = own.requests_per_second(lengths), other.requests_per_second(lengths)
    if mine is None or theirs is None:
        # One of them keeps no promise at any load; how fast it works is what is left to compare.
        mine, theirs = own.speed(lengths), other.speed(lengths)
    if not mine or not theirs:
        return 1.0
    return min(MOST, max(LEAST, round(theirs / mine * STEPS) / STEPS))


def weight_of(replica: Replica, revisions: Mapping[str, Revision], weights: Mapping[str, float]) -> float:
    """Of a variant that the spec does not have any more the least that is known, to be on the safe side."""
    known = revisions.get(replica.revision)
    variant = "" if known is None else known.variant
    return weights.get(variant, min((1.0, *weights.values()))) if variant else 1.0


def replica_weights_of(
    replicas: Iterable[Replica],
    revisions: Mapping[str, Revision],
    variant_order: VariantOrder,
    weights: Mapping[str, float],
) -> ReplicaWeights:
    """In the order in which they would stay; `balance` lets them go from the other end."""
    if not weights:
        return ReplicaWeights()

    def stays(replica: Replica) -> tuple[bool, int, int, str]:
        known = revisions.get(replica.revision)
        rank = variant_order.rank("" if known is None else known.variant)
        return replica.revision not in variant_order.hashes, UNSTARTED[replica.state], rank, replica.name

    there = sorted((replica for replica in replicas if replica.state in LIVE), key=stays)
    new = weights.get(variant_order.sure.variant, 1.0)
    return ReplicaWeights(tuple(weight_of(replica, revisions, weights) for replica in there), new)
