"""Pod template: the part of a revision's pods that is the same for every replica.

It is built once, when a spec is resolved, and stored with the revision. So a newer operator that replaces a replica a
year later still creates the same pod.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from forebay.api import labels
from forebay.api.inference_service import GpuSpec, InferenceServiceSpec, PodSpec, Resources, Toleration
from forebay.workloads.canonical_json import present
from forebay.workloads.objects import probes
from forebay.workloads.objects.ownership import Owner
from forebay.workloads.objects.volumes import pod_volumes, volume_mounts
from forebay.workloads.spec.engine_arguments import COMMAND, PORT, engine_arguments, engine_environment, public_name
from forebay.workloads.spec.engine_versions import ResolvedEngine
from forebay.workloads.spec.lifetimes import PRE_STOP_SECONDS, grace_seconds
from forebay.workloads.spec.model_source import SourceParts, source_parts

CONTAINER: Final = "engine"
PRODUCT_LABEL: Final = "nvidia.com/gpu.product"
USER_ID: Final = 1000
POD_SECURITY: Final[Mapping[str, Any]] = {
    "runAsNonRoot": True,
    "runAsUser": USER_ID,
    "runAsGroup": USER_ID,
    "fsGroup": USER_ID,
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY: Final[Mapping[str, Any]] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
"""Together with `POD_SECURITY`: the restricted profile of pod security, and a read-only root filesystem."""

UNDISTURBED: Final[Mapping[str, str]] = {labels.DO_NOT_DISRUPT: "true", labels.SAFE_TO_EVICT: "false"}
"""Annotations that keep node autoscalers from removing a node with running requests. They may ask for a
node; Forebay then moves its replicas."""


def pod_template(
    spec: InferenceServiceSpec, owner: Owner, engine: ResolvedEngine, restarted_at: str | None
) -> dict[str, Any]:
    """`metadata.annotations` and `spec` of the revision's pods of rank 0, before a user's PodTemplate is merged."""
    annotations = {
        **(spec.pod.annotations or {}),
        labels.DEFAULT_CONTAINER: CONTAINER,
        **UNDISTURBED,
    }
    if restarted_at is not None:
        annotations[labels.RESTARTED_AT] = restarted_at
    return {"metadata": {"annotations": annotations}, "spec": present(_pod_spec(spec, owner, engine))}


def node_selector(spec: InferenceServiceSpec) -> dict[str, str]:
    selector = {**(spec.pod.node_selector or {}), **(spec.gpu.node_selector or {})}
    if spec.gpu.product is not None:
        selector[PRODUCT_LABEL] = spec.gpu.product
    return selector


def _pod_spec(spec: InferenceServiceSpec, owner: Owner, engine: ResolvedEngine) -> dict[str, Any]:
    pod = spec.pod
    source = source_parts(spec.model)
    return {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": grace_seconds(spec),
        # A Service called `vllm` would inject VLLM_PORT=tcp://… and break the engine (vllm#15613).
        "enableServiceLinks": False,
        "serviceAccountName": pod.service_account_name,
        "automountServiceAccountToken": pod.service_account_name is not None,
        "imagePullSecrets": [
            {"name": name} for name in dict.fromkeys((*pod.image_pull_secrets, *source.image_pull_secrets))
        ],
        "runtimeClassName": pod.runtime_class_name,
        "priorityClassName": pod.priority_class_name,
        "nodeSelector": node_selector(spec),
        "tolerations": tolerations_of(pod.tolerations, spec.gpu),
        "affinity": pod.affinity.wire() if pod.affinity else None,
        "topologySpreadConstraints": _topology_spread(pod, owner),
        "securityContext": dict(POD_SECURITY),
        "containers": [_container(spec, owner, engine, source)],
        "volumes": pod_volumes(spec, engine, source),
    }


def _container(spec: InferenceServiceSpec, owner: Owner, engine: ResolvedEngine, source: SourceParts) -> dict[str, Any]:
    return present(
        {
            "name": CONTAINER,
            "image": engine.image,
            "imagePullPolicy": "IfNotPresent",
            "command": list(COMMAND),
            "args": engine_arguments(spec, owner.key, engine, source),
            "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
            "env": engine_environment(spec, engine, source),
            "envFrom": _env_from(spec.pod),
            "resources": resources_of(spec.pod.resources, spec.gpu, engine.gpus_per_pod),
            "volumeMounts": volume_mounts(spec, engine, source),
            "startupProbe": probes.startup_probe(spec, PORT, public_name(owner.key)),
            "readinessProbe": probes.readiness_probe(),
            "livenessProbe": probes.liveness_probe(),
            "lifecycle": {"preStop": {"sleep": {"seconds": PRE_STOP_SECONDS}}},
            "securityContext": dict(CONTAINER_SECURITY),
        }
    )


def resources_of(resources: Resources | None, gpu: GpuSpec, gpus: int) -> dict[str, Any]:
    """Resources of the engine. CPU has no limit, since a throttled API server would slow down every stream."""
    requests: dict[str, str] = {}
    limits: dict[str, str] = {gpu.resource_name: str(gpus)}
    if resources is not None and resources.cpu is not None:
        requests["cpu"] = resources.cpu
    if resources is not None and resources.memory is not None:
        requests["memory"] = limits["memory"] = resources.memory
    return present({"requests": requests, "limits": limits})


def tolerations_of(given: Sequence[Toleration], gpu: GpuSpec) -> list[dict[str, Any]]:
    """The given tolerations, and one for the usual taint of GPU nodes, which has the name of the resource."""
    ours = {"key": gpu.resource_name, "operator": "Exists", "effect": "NoSchedule"}
    return [ours, *(toleration.wire() for toleration in given)]


def _topology_spread(pod: PodSpec, owner: Owner) -> list[dict[str, Any]]:
    """Spread constraints that count within one revision, so that old pods do not keep new ones out of a zone."""
    return [
        {
            **constraint.model_dump(by_alias=True, exclude_none=True),
            "labelSelector": {"matchLabels": {labels.SERVICE_UID: owner.uid}},
            "matchLabelKeys": [labels.REVISION],
        }
        for constraint in pod.topology_spread_constraints
    ]


def _env_from(pod: PodSpec) -> list[dict[str, Any]]:
    sources: list[dict[str, Any]] = []
    for source in pod.env_from:
        if source.secret is not None:
            sources.append({"secretRef": {"name": source.secret}})
        if source.config_map is not None:
            sources.append({"configMapRef": {"name": source.config_map}})
    return sources
