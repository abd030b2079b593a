"""Rendered objects, stored as golden files and reviewed as diffs."""

import pytest
import yaml

from forebay.workloads.objects.controller_revision import controller_revision
from forebay.workloads.objects.disruption_budget import disruption_budget_body
from forebay.workloads.objects.placeholder import build_placeholder
from forebay.workloads.objects.ranks_service import ranks_service_body
from forebay.workloads.objects.service import service_body
from tests.workloads.manifests import MANIFESTS
from tests.workloads.specs import CHAT, a_pod, a_revision, a_spec

POD_TEMPLATE = yaml.safe_load("""
    metadata:
      labels: {app.kubernetes.io/instance: prod}
      annotations: {example.com/owner: platform, karpenter.sh/do-not-disrupt: "false"}
    spec:
      hostNetwork: false
      terminationGracePeriodSeconds: 5
      dnsPolicy: ClusterFirst
      tolerations: [{key: spot, operator: Exists}]
      securityContext: {supplementalGroups: [2000], runAsNonRoot: false}
      containers:
        - name: tracing
          image: registry.example.com/tracing:1
        - name: engine
          image: registry.example.com/other:1
          args: [--uds]
          env: [{name: NCCL_DEBUG, value: INFO}, {name: VLLM_NO_USAGE_STATS, value: "0"}]
          volumeMounts: [{name: fabric, mountPath: /fabric}]
          resources: {limits: {rdma/hca: "1", nvidia.com/gpu: "8"}}
      initContainers:
        - name: tune
          image: registry.example.com/tune:1
      volumes: [{name: fabric, emptyDir: {}}, {name: tmp, emptyDir: {medium: Memory}}]
""")


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_rendered_pod_of_each_manifest(name, golden):
    golden(name, a_pod(a_spec(MANIFESTS[name])))


def test_the_pod_with_a_pod_template(golden):
    golden("pod-template", a_pod(a_spec(pod={"templateRef": "gpu-pods"}), template=POD_TEMPLATE))


def test_the_pod_that_avoids_nodes(golden):
    golden("avoid-nodes", a_pod(a_spec(MANIFESTS["pod-block"]), avoid_nodes=["gpu-7", "gpu-3", "gpu-7"]))


@pytest.mark.parametrize("name", ["tensor-parallel", "pod-block"])
def test_the_rendered_placeholder_of_each_manifest(name, golden):
    place = a_revision(a_spec(MANIFESTS[name])).place
    assert place is not None
    golden(f"placeholder-{name}", build_placeholder(CHAT, place, "chat-a1b2c-placeholder-0", "forebay-placeholder"))


SPREAD = """
    engine: {tensorParallelSize: 8, pipelineParallelSize: 2, nodes: 2, extraArgs: [--api-server-count, "2", --seed=1]}
    pod: {affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}}
"""


@pytest.mark.parametrize("rank", [0, 1])
def test_the_pods_of_a_replica_of_two_nodes(golden, rank):
    golden(f"two-nodes-rank-{rank}", a_pod(a_spec(SPREAD), rank=rank))


def test_the_service_by_which_ranks_find_each_other(golden):
    golden("ranks-service", ranks_service_body(CHAT))


def test_the_controller_revision(golden):
    golden("controller-revision", controller_revision(CHAT, a_revision(a_spec(), "2026-03-01T10:00:00Z"), 3))


def test_the_service(golden):
    golden("service", service_body(CHAT))


def test_the_disruption_budget(golden):
    golden("disruption-budget", disruption_budget_body(CHAT, 9))
