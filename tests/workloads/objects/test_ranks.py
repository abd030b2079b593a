"""The pods of a replica of several pods: the same command, with the arguments of each rank."""

import json
from typing import Any

import pytest

from forebay.api.inference_service import InferenceServiceSpec, InferenceServiceStatus
from forebay.api.labels import GROUP_GATE
from forebay.cluster.read.projections import PodObject, Reader
from forebay.cluster.read.views import pod_view
from forebay.workloads.objects.child_objects import wanted_children
from forebay.workloads.objects.disruption_budget import min_available
from forebay.workloads.objects.ranks_service import ranks_service_body
from forebay.workloads.objects.service import service_body
from forebay.world.world import ServiceView
from tests.workloads.specs import CHAT, a_pod, a_revision, a_spec, engine_of

SPREAD = {"tensorParallelSize": 8, "pipelineParallelSize": 2, "nodes": 2}


def a_rank(number: int, pod: dict[str, Any] | None = None, template: dict[str, Any] | None = None, **engine: Any):
    spec = a_spec(engine=SPREAD | engine, pod=pod or {})
    return a_pod(spec, template, rank=number)


def test_each_pod_gets_its_share_of_the_gpus():
    limits = [engine_of(a_rank(number))["resources"]["limits"] for number in (0, 1)]
    assert limits == [{"nvidia.com/gpu": "8"}] * 2
    shape = a_revision(a_spec(engine=SPREAD)).shape
    assert (shape.pods, shape.gpus_per_pod, shape.gpus) == (2, 8, 16)


@pytest.mark.parametrize("number", [0, 1])
def test_all_ranks_connect_to_rank_0_by_its_dns_name(number):
    leader, service = a_rank(0), ranks_service_body(CHAT)
    address = f"{leader['spec']['hostname']}.{service['metadata']['name']}"
    assert f"--master-addr={address}" in engine_of(a_rank(number))["args"]
    assert f"--node-rank={number}" in engine_of(a_rank(number))["args"]
    pod = a_rank(number)
    assert pod["spec"]["hostname"] == pod["metadata"]["name"]
    assert pod["spec"]["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()


def test_only_rank_0_has_clients_and_probes():
    leader, worker = engine_of(a_rank(0)), engine_of(a_rank(1))
    assert "--headless" in worker["args"]
    assert "--headless" not in leader["args"]
    assert {"startupProbe", "readinessProbe", "livenessProbe", "ports"} <= leader.keys()
    assert not {"startupProbe", "readinessProbe", "livenessProbe", "ports"} & worker.keys()
    selector = service_body(CHAT)["spec"]["selector"].items()
    assert selector <= a_rank(0)["metadata"]["labels"].items()
    assert not selector <= a_rank(1)["metadata"]["labels"].items()


def test_template_probes_are_removed_from_headless_ranks():
    template = {"spec": {"containers": [{"name": "engine", "startupProbe": {"exec": {"command": ["true"]}}}]}}
    assert "startupProbe" not in engine_of(a_rank(1, {"templateRef": "ours"}, template))


@pytest.mark.parametrize("given", [["--api-server-count=4"], ["--api_server_count", "4"]])
def test_api_server_count_is_kept_only_on_rank_0(given):
    arguments = ["--seed=1", *given, "--enforce-eager"]
    assert set(arguments) <= set(engine_of(a_rank(0, extraArgs=arguments))["args"])
    worker = engine_of(a_rank(1, extraArgs=arguments))["args"]
    assert {"--seed=1", "--enforce-eager"} <= set(worker)
    assert not set(given) & set(worker)


def test_ranks_get_anti_affinity_besides_the_users():
    theirs = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "noisy"}}}
    pod = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [theirs]}}}
    terms = a_rank(1, pod)["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert len(terms) == 2
    labels = a_rank(0, pod)["metadata"]["labels"]
    assert terms[1]["topologyKey"] == "kubernetes.io/hostname"
    assert terms[1]["labelSelector"]["matchLabels"].items() <= labels.items()
    assert "forebay.dev/rank" not in terms[1]["labelSelector"]["matchLabels"]


def test_the_group_gate_is_added_to_the_users_gates():
    template = {"spec": {"schedulingGates": [{"name": "example.com/wait"}]}}
    pod = a_rank(0, {"templateRef": "ours"}, template)
    pod["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    view = pod_view(Reader(PodObject).one(json.dumps(pod).encode()))
    assert view.gates == (GROUP_GATE, "example.com/wait")
    assert view.gated


def test_a_replica_of_one_pod_has_no_rank_fields():
    pod = a_pod(a_spec())
    assert not {"schedulingGates", "hostname", "subdomain", "affinity"} & pod["spec"].keys()
    assert not any("node-rank" in argument or "nnodes" in argument for argument in engine_of(pod)["args"])


def test_the_budget_counts_every_rank():
    spec = a_spec(engine=SPREAD, scaling={"maxReplicas": 3}, rollout={"maxSurge": 1})
    assert min_available(spec, a_revision(spec).shape) == 8


@pytest.mark.parametrize(("engine", "services"), [(SPREAD, 2), ({}, 1)], ids=["two nodes", "one"])
def test_only_replicas_of_several_pods_have_a_ranks_service(engine, services):
    spec = a_spec(engine=engine)
    view = a_view(spec)
    assert [child.kind for child in wanted_children(view)].count("Service") == services


def a_view(spec: InferenceServiceSpec) -> ServiceView:
    return ServiceView(CHAT.key, CHAT.uid, 1, 0.0, False, spec, InferenceServiceStatus(), a_revision(spec))
