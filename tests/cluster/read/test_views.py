"""The views of pods and nodes that the planner reads, case by case."""

from typing import Any

import pytest

from forebay.api import labels
from forebay.cluster.read.projections import NodeObject, PodObject, RevisionObject
from forebay.cluster.read.views import node_view, owned_revision, pod_facts, pod_view, same_pod
from forebay.workloads.objects.controller_revision import controller_revision
from forebay.workloads.objects.ownership import Owner
from forebay.workloads.spec.resolve import resolve
from forebay.world.world import ServiceKey
from tests.builders.world import a_spec

NOON = "2026-01-01T12:00:00Z"
NOON_SECONDS = 1767268800.0


def a_pod(
    *,
    conditions: list[dict[str, Any]] | None = None,
    statuses: list[dict[str, Any]] | None = None,
    init_statuses: list[dict[str, Any]] | None = None,
    containers: list[dict[str, Any]] | None = None,
    pod_labels: dict[str, str] | None = None,
    **metadata: Any,
) -> PodObject:
    ours = {
        labels.SERVICE: "chat",
        labels.SERVICE_UID: "uid-chat",
        labels.REVISION: "7f3c",
        labels.ORDINAL: "2",
        labels.RANK: "1",
        labels.SERVING: "true",
    }
    return PodObject.model_validate(
        {
            "metadata": {
                "name": "chat-a1b2c-7f3c-2",
                "namespace": "team",
                "uid": "uid-pod",
                "resourceVersion": "5",
                "creationTimestamp": NOON,
                "labels": ours if pod_labels is None else pod_labels,
                "ownerReferences": [{"uid": "uid-other"}, {"uid": "uid-chat", "controller": True}],
                **metadata,
            },
            "spec": {"nodeName": "n1", "containers": containers or []},
            "status": {
                "phase": "Running",
                "podIP": "10.0.0.7",
                "conditions": conditions,
                "containerStatuses": statuses,
                "initContainerStatuses": init_statuses,
            },
        }
    )


def ready(status: str = "True") -> list[dict[str, Any]]:
    return [{"type": "Ready", "status": status, "lastTransitionTime": NOON}]


def waits(reason: str, message: str | None = None, restarts: int = 0) -> list[dict[str, Any]]:
    return [{"name": "engine", "restartCount": restarts, "state": {"waiting": {"reason": reason, "message": message}}}]


def test_identity_comes_from_metadata_and_labels():
    view = pod_view(a_pod())
    assert (view.key, view.name, view.uid, view.resource_version) == (
        ServiceKey("team", "chat"),
        "chat-a1b2c-7f3c-2",
        "uid-pod",
        "5",
    )
    assert (view.owner_uid, view.service_uid, view.revision, view.ordinal, view.rank) == (
        "uid-chat",
        "uid-chat",
        "7f3c",
        2,
        1,
    )
    assert (view.created_at, view.phase, view.node, view.serving) == (NOON_SECONDS, "Running", "n1", True)


def test_invalid_labels_do_not_hide_a_pod():
    view = pod_view(a_pod(pod_labels={labels.SERVICE: "chat", labels.ORDINAL: "two", labels.RANK: "²"}))
    assert (view.ordinal, view.rank, view.revision, view.serving, view.service_uid) == (-1, -1, "", False, None)


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        pytest.param(None, None, id="none"),
        pytest.param([{"uid": "a"}], None, id="an owner that does not control"),
        pytest.param([{"uid": "a", "controller": True}], "a", id="a controller"),
    ],
)
def test_only_the_controller_is_the_owner(owners, expected):
    assert pod_view(a_pod(ownerReferences=owners)).owner_uid == expected


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        pytest.param(ready("True"), (True, NOON_SECONDS, None), id="ready"),
        pytest.param(ready("False"), (False, None, NOON_SECONDS), id="not ready"),
        pytest.param(ready("Unknown"), (False, None, NOON_SECONDS), id="its node is gone"),
        pytest.param(None, (False, None, None), id="not placed yet"),
    ],
)
def test_readiness_and_its_time(conditions, expected):
    view = pod_view(a_pod(conditions=conditions))
    assert (view.ready, view.ready_since, view.unready_since) == expected


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(
            {
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
                ]
            },
            ("Unschedulable", "0/3 nodes"),
            id="no node has room",
        ),
        pytest.param(
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
            ("Unschedulable", "SchedulingGated"),
            id="somebody's gate",
        ),
        pytest.param(
            {"conditions": [{"type": "PodScheduled", "status": "True"}, *ready("False")]},
            (None, ""),
            id="placed and loading",
        ),
        pytest.param(
            {"statuses": waits("ImagePullBackOff", "not found")},
            ("ImagePull", "container engine: ImagePullBackOff: not found"),
            id="no image",
        ),
        pytest.param(
            {"statuses": waits("InvalidImageName")}, ("ImagePull", "container engine: InvalidImageName"), id="no name"
        ),
        pytest.param({"statuses": waits("ContainerCreating")}, (None, ""), id="being created"),
        pytest.param(
            {"statuses": waits("CrashLoopBackOff", "back-off 40s", restarts=3)},
            ("CrashLoop", "container engine: CrashLoopBackOff: back-off 40s"),
            id="crashes",
        ),
        pytest.param(
            {"statuses": waits("CreateContainerConfigError", 'secret "hub" not found')},
            ("ContainerConfig", 'container engine: CreateContainerConfigError: secret "hub" not found'),
            id="a Secret is missing",
        ),
        pytest.param(
            {"init_statuses": waits("ErrImagePull"), "statuses": waits("PodInitializing")},
            ("ImagePull", "container engine: ErrImagePull"),
            id="an init container's image",
        ),
        pytest.param(
            {"statuses": waits("CrashLoopBackOff"), "conditions": ready("True")}, (None, ""), id="ready is ready"
        ),
    ],
)
def test_why_a_pod_does_not_start(pod, expected):
    view = pod_view(a_pod(**pod))
    assert (view.blocked, view.blocked_message) == expected


def test_a_message_of_the_cluster_is_cut():
    long = [{"type": "PodScheduled", "status": "False", "message": "x" * 5000}]
    assert len(pod_view(a_pod(conditions=long)).blocked_message) == 500


def test_restarts_are_summed():
    view = pod_view(a_pod(init_statuses=waits("", restarts=1), statuses=waits("", restarts=2)))
    assert view.restarts == 3


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        pytest.param([{"resources": {"limits": {"nvidia.com/gpu": "4", "cpu": "8", "memory": "1Gi"}}}], 4, id="GPUs"),
        pytest.param(
            [{"resources": {"limits": {"nvidia.com/gpu": "4", "rdma/hca": "1"}}}], 4, id="a network card is no GPU"
        ),
        pytest.param([{"resources": {"limits": {"habana.ai/gaudi": 8}}}], 8, id="any vendor, also as a number"),
        pytest.param([{"resources": {"limits": {"nvidia.com/gpu": "1"}}}, {}], 1, id="a second container has none"),
        pytest.param([{}], 0, id="none at all"),
    ],
)
def test_the_gpus_a_pod_holds(containers, expected):
    assert pod_view(a_pod(containers=containers)).gpus == expected


def test_a_drain_is_read_from_annotations():
    notes = {labels.DRAIN_STARTED: NOON, labels.DRAIN_REASON: "surplus"}
    view = pod_view(a_pod(annotations=notes, deletionTimestamp=NOON))
    assert (view.drain_started_at, view.drain_reason, view.deleting) == (NOON_SECONDS, "surplus", True)


def test_where_an_engine_answers():
    ports = [{"name": "other", "containerPort": 1}, {"name": "http", "containerPort": 8000}]
    facts = pod_facts(a_pod(containers=[{"name": "sidecar"}, {"name": "engine", "ports": ports}]))
    assert (facts.ip, facts.port) == ("10.0.0.7", 8000)


def test_a_new_resource_version_alone_is_no_change():
    one = pod_facts(a_pod())
    assert same_pod(one, pod_facts(a_pod(resourceVersion="6", annotations={"a": "b"})))
    assert not same_pod(one, pod_facts(a_pod(resourceVersion="6", deletionTimestamp=NOON)))
    assert not same_pod(one, pod_facts(a_pod(containers=[{"ports": [{"name": "http", "containerPort": 1}]}])))


def a_node(**parts: Any) -> NodeObject:
    return NodeObject.model_validate(
        {
            "metadata": {"name": "n1", "uid": "u", "resourceVersion": "1", **parts.pop("metadata", {})},
            "spec": parts.pop("spec", {}),
            "status": {"conditions": ready("True"), **parts},
        }
    )


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param({}, False, id="a quiet node"),
        pytest.param({"spec": {"unschedulable": True}}, True, id="kubectl cordon"),
        pytest.param(
            {"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}}, True, id="Karpenter"
        ),
        pytest.param({"spec": {"taints": [{"key": "ToBeDeletedByClusterAutoscaler"}]}}, True, id="cluster-autoscaler"),
        pytest.param(
            {"spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}}, False, id="a GPU node's own"
        ),
        pytest.param({"metadata": {"deletionTimestamp": NOON}}, True, id="being deleted"),
    ],
)
def test_cordoned_and_tainted_nodes_are_marked(parts, expected):
    view = node_view(a_node(**parts))
    assert (view.cordoned, view.notice, view.shut_down) == (expected, False, False)


@pytest.mark.parametrize(
    ("key", "cordoned", "notice"),
    [
        pytest.param("aws-node-termination-handler/spot-itn", True, True, id="AWS takes the spot instance back"),
        pytest.param("aws-node-termination-handler/scheduled-maintenance", True, True, id="AWS maintains the host"),
        pytest.param("aws-node-termination-handler/asg-lifecycle-termination", True, True, id="its AWS group shrinks"),
        pytest.param("cloud.google.com/impending-node-termination", True, True, id="GKE ends the machine"),
        pytest.param("remediator.kubernetes.azure.com/unschedulable", True, True, id="AKS has a scheduled event"),
        pytest.param("remediator.aks.microsoft.com/unschedulable", True, True, id="an older AKS"),
        pytest.param("aws-node-termination-handler/rebalance-recommendation", True, False, id="AWS only advises"),
        pytest.param("cloud.google.com/maintenance-window-started", True, False, id="GKE maintains at some time"),
        pytest.param("karpenter.sh/disrupted", True, False, id="Karpenter waits for the drain"),
        pytest.param("karpenter.sh/disruption", True, False, id="an older Karpenter"),
        pytest.param("ToBeDeletedByClusterAutoscaler", True, False, id="cluster-autoscaler waits for evictions"),
        pytest.param("DeletionCandidateOfClusterAutoscaler", False, False, id="cluster-autoscaler has not decided"),
        pytest.param("kubernetes.azure.com/scalesetpriority", False, False, id="it is a spot node"),
        pytest.param("node.kubernetes.io/not-ready", False, False, id="its Ready condition says it"),
    ],
)
def test_taints_of_nodes_that_are_about_to_end(key, cordoned, notice):
    view = node_view(a_node(spec={"taints": [{"key": key, "effect": "NoSchedule"}]}, conditions=ready("True")))
    assert (view.cordoned, view.notice) == (cordoned, notice)


@pytest.mark.parametrize("key", ["node.kubernetes.io/out-of-service", "node.cloudprovider.kubernetes.io/shutdown"])
@pytest.mark.parametrize(
    ("status", "shut_down"),
    [
        pytest.param("Unknown", True, id="its kubelet is silent, too"),
        pytest.param("True", False, id="its kubelet is back, and the taint not yet removed"),
    ],
)
def test_a_node_that_is_shut_down(key, status, shut_down):
    view = node_view(a_node(spec={"taints": [{"key": key, "effect": "NoExecute"}]}, conditions=ready(status)))
    assert (view.cordoned, view.shut_down) == (True, shut_down)


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        pytest.param(ready("True"), (True, None), id="ready"),
        pytest.param(ready("Unknown"), (False, NOON_SECONDS), id="its kubelet is silent"),
        pytest.param([], (False, None), id="never heard of"),
    ],
)
def test_nodes_that_are_not_ready_have_a_time(conditions, expected):
    view = node_view(a_node(conditions=conditions))
    assert (view.ready, view.unready_since) == expected


def test_the_gpus_a_node_has():
    allocatable = {"nvidia.com/gpu": "8", "cpu": "64", "memory": "1Ti", "hugepages-2Mi": "0"}
    assert node_view(a_node(allocatable=allocatable)).gpus == {"nvidia.com/gpu": 8}


def test_a_stored_revision_is_read_back():
    owner = Owner(ServiceKey("team", "chat"), "0a1b2c3d")
    revision = resolve(a_spec(), owner)
    assert not isinstance(revision, tuple)
    body = controller_revision(owner, revision, 3)
    body["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    stored = owned_revision(RevisionObject.model_validate(body))
    assert stored.revision is not None
    assert (stored.owner_uid, stored.revision.hash, stored.revision.number, stored.engine_version) == (
        "0a1b2c3d",
        revision.hash,
        3,
        "0.32.0",
    )


def test_a_revision_of_another_operator_is_ignored():
    metadata = {"name": "web-5d", "namespace": "team", "uid": "u", "resourceVersion": "1"}
    stored = owned_revision(RevisionObject.model_validate({"metadata": metadata, "data": {"spec": {}}, "revision": 1}))
    assert stored.revision is None


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        pytest.param(None, None, id="nothing known"),
        pytest.param([{"type": "PodScheduled", "status": "False", "lastTransitionTime": NOON}], None, id="not yet"),
        pytest.param(
            [{"type": "PodScheduled", "status": "True", "lastTransitionTime": NOON}], NOON_SECONDS, id="placed"
        ),
        pytest.param([{"type": "PodScheduled", "status": "True"}], None, id="at a time nobody tells"),
    ],
)
def test_the_time_a_pod_was_scheduled(conditions, expected):
    assert pod_view(a_pod(conditions=conditions)).scheduled_at == expected


def test_the_creation_time_of_a_node():
    metadata = {"name": "n1", "uid": "u", "resourceVersion": "1", "creationTimestamp": NOON}
    assert node_view(NodeObject.model_validate({"metadata": metadata})).created_at == NOON_SECONDS
