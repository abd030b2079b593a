"""Builders of clusters with two kinds of GPU, for a service that may run on either."""

from collections.abc import Callable

from tests.builders.cluster import Cluster, a_cluster
from tests.builders.engines import Demand
from tests.builders.world import a_node, a_revision, a_service, a_variant

BIG, SMALL, OLD = "H100", "L40S", "A100"


def a_mixed_cluster(*, big: int = 2, small: int = 8, replicas: int = 3, **fields) -> Cluster:
    """A service `chat` on H100s with a variant on L40S, and so many GPUs of each."""
    service = a_service(
        "chat",
        wanted=a_revision("own", product=BIG),
        variants=fields.pop("variants", (a_variant("small", product=SMALL),)),
        **{"min_replicas": replicas, "max_replicas": replicas} | fields,
    )
    cluster = a_cluster(
        service, nodes=[a_node("big", gpus=big, product=BIG), a_node("small", gpus=small, product=SMALL)]
    )
    cluster.demand["chat"] = Demand(requests=10)
    return cluster


def of(cluster: Cluster, revision: str) -> int:
    return len(cluster.serving("chat", revision))


def serve(cluster: Cluster, own: int, small: int) -> Callable[[], bool]:
    return lambda: (of(cluster, "own"), of(cluster, "small")) == (own, small)
