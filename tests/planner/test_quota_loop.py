"""Services under a ResourceQuota, on a cluster that enforces it: no creation is refused."""

from hypothesis import given
from hypothesis import strategies as st

from tests.builders.cluster import Cluster, a_cluster
from tests.builders.engines import Demand
from tests.builders.quotas import a_quota
from tests.builders.world import a_revision, a_service, a_variant
from tests.planner.any_world import clusters, slow


def serve(cluster: Cluster, replicas: int):
    return lambda: len(cluster.serving("chat")) == replicas == len(cluster.pods_of("chat"))


def test_a_quota_holds_replicas_back_without_a_single_refusal_until_it_is_raised():
    cluster = a_cluster(a_service("chat", min_replicas=4, max_replicas=4), quotas=[a_quota(gpus=(0, 2))])
    cluster.run(600)
    assert len(cluster.serving("chat")) == 2
    assert cluster.condition("chat", "Ready") == ("False", "QuotaExceeded")
    assert cluster.event_reasons("chat").count("QuotaExceeded") <= 1
    cluster.quotas = [a_quota(gpus=(0, 4))]
    cluster.tick()
    assert len(cluster.pods_of("chat")) == 4
    cluster.run_until(serve(cluster, 4))
    assert cluster.refusals == []


def test_a_lost_replica_is_replaced_within_a_full_quota_once_its_pod_is_gone():
    cluster = a_cluster(a_service("chat", min_replicas=2, max_replicas=2), quotas=[a_quota(gpus=(0, 2))])
    cluster.run_until(serve(cluster, 2))
    cluster.delete_pod(cluster.pods_of("chat")[0].name)
    cluster.run_until(serve(cluster, 2))
    assert cluster.refusals == []


def test_a_variant_is_used_within_the_quota_and_left_when_it_is_raised():
    service = a_service("chat", wanted=a_revision("big", gpus=4), variants=(a_variant("small", gpus=2),))
    cluster = a_cluster(service, quotas=[a_quota(gpus=(0, 3))])
    cluster.run_until(serve(cluster, 1))
    assert [pod.revision for pod in cluster.pods_of("chat")] == ["small"]
    cluster.run(600)
    cluster.quotas = [a_quota(gpus=(0, 6))]
    cluster.run_until(lambda: [pod.revision for pod in cluster.pods_of("chat")] == ["big"])
    assert cluster.refusals == []


def test_a_placeholder_makes_way_for_a_replica_and_comes_back():
    cluster = a_cluster(a_service("chat", placeholders=1, max_replicas=2), quotas=[a_quota(gpus=(0, 2))])
    cluster.run_until(lambda: len(cluster.holding_places("chat")) == 1 and len(cluster.placeholders_of("chat")) == 1)
    cluster.edit("chat", spec=a_service("chat", placeholders=1, min_replicas=2, max_replicas=2).spec)
    cluster.run_until(serve(cluster, 2))
    assert cluster.placeholders_of("chat") == []
    cluster.quotas = [a_quota(gpus=(0, 3))]
    cluster.run_until(lambda: len(cluster.placeholders_of("chat")) == 1)
    assert cluster.refusals == []


@slow
@given(clusters(), st.integers(0, 12), st.sampled_from([0, 200, 900]))
def test_a_quota_never_has_to_refuse(cluster, gpus, requests):
    cluster.quotas = [a_quota(gpus=(0, gpus))]
    cluster.run(600, tick_seconds=10)
    cluster.demand["chat"] = Demand(requests=requests)
    cluster.run(600, tick_seconds=10)
    assert cluster.refusals == []
