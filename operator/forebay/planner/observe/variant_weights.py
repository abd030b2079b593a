"""Variant weights: the capacity of a replica of each variant, relative to one of the service's own shape."""

from collections.abc import Iterable, Mapping
from typing import Final

from forebay.planner.observe.replicas import LIVE, Replica, ReplicaState
from forebay.planner.observe.variant_order import VariantOrder
from forebay.scaling.learning.replica_capacity import ReplicaCapacity
from forebay.scaling.load.arrivals import Arrivals, RequestLengths
from forebay.scaling.replica_weights import ReplicaWeights
from forebay.world.world import Revision, ServiceView

STEPS: Final = 20
"""A weight is rounded to a multiple of 1/20, because learned request lengths change all the time and small changes
should not change the count."""
LEAST: Final = 0.1
MOST: Final = 10.0
"""A ratio below `LEAST` or above `MOST` more likely comes from a wrong profile than from the GPUs."""
UNSTARTED: Final = {ReplicaState.SERVING: 0, ReplicaState.LOADING: 1, ReplicaState.BLOCKED: 2}


def weights_by_variant(service: ServiceView, arrivals: Arrivals, earlier: RequestLengths | None) -> dict[str, float]:
    """Weight of one replica of each variant: the requests per second that it carries within the SLO, divided by those
    of a replica of the service's own shape. Both follow from profiles and measured lengths. Unknown weights are 1.

    Live measurements refine only the profile of the service's own shape, so they are left out on both sides.
    """
    own = service.replica_capacity
    lengths = arrivals.lengths or earlier or (own.declared if own is not None else None)
    return {variant.wanted.variant: _weight(own, variant.replica_capacity, lengths) for variant in service.variants}


def _weight(own: ReplicaCapacity | None, other: ReplicaCapacity | None, lengths: RequestLengths | None) -> float:
    if own is None or other is None or lengths is None:
        return 1.0
    mine, theirs = own.requests_per_second(lengths), other.requests_per_second(lengths)
    if mine is None or theirs is None:
        # One of them misses the SLO at any load, so only their speeds can be compared.
        mine, theirs = own.speed(lengths), other.speed(lengths)
    if not mine or not theirs:
        return 1.0
    return min(MOST, max(LEAST, round(theirs / mine * STEPS) / STEPS))


def weight_of(replica: Replica, revisions: Mapping[str, Revision], weights: Mapping[str, float]) -> float:
    """The weight of a replica. A variant that is no longer in the spec gets the smallest known weight, to err towards
    more replicas."""
    known = revisions.get(replica.revision)
    variant = "" if known is None else known.variant
    return weights.get(variant, min((1.0, *weights.values()))) if variant else 1.0


def replica_weights_of(
    replicas: Iterable[Replica],
    revisions: Mapping[str, Revision],
    variant_order: VariantOrder,
    weights: Mapping[str, float],
) -> ReplicaWeights:
    """Weights of the live replicas, ordered by how long they would stay; `balance` removes from the other end."""
    if not weights:
        return ReplicaWeights()

    def stays(replica: Replica) -> tuple[bool, int, int, str]:
        known = revisions.get(replica.revision)
        rank = variant_order.rank("" if known is None else known.variant)
        return replica.revision not in variant_order.hashes, UNSTARTED[replica.state], rank, replica.name

    live = sorted((replica for replica in replicas if replica.state in LIVE), key=stays)
    new = weights.get(variant_order.reliable.variant, 1.0)
    return ReplicaWeights(tuple(weight_of(replica, revisions, weights) for replica in live), new)
