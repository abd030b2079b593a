"""InferenceService: the model that a team wants served. The current replica count is in `status`, never in `spec`."""

import re
from typing import Annotated, Literal

from pydantic import Field

from forebay.api.schema.base_model import Model
from forebay.api.schema.bounded_types import ListMap
from forebay.api.schema.validation_rules import Rule, literal
from forebay.api.spec.affinity import Affinity
from forebay.api.spec.architecture_spec import ArchitectureSpec, ExpertsSpec, MlaSpec, SlidingWindowSpec
from forebay.api.spec.engine_spec import (
    EngineSpec,
    EnvVar,
    GpuSpec,
    KvCacheDtype,
    ModelSpec,
    Quantization,
    SecretRef,
    WeightCache,
)
from forebay.api.spec.pod_spec import EnvFrom, PodSpec, PodVolume, Resources, Toleration, TopologySpread
from forebay.api.spec.scaling_spec import (
    EndToEnd,
    InterTokenLatency,
    QueueWait,
    RolloutSpec,
    ScalingMode,
    ScalingSpec,
    SloSpec,
    Targets,
    TimeToFirstToken,
    WarmPoolSpec,
    WhenNoSpare,
)
from forebay.api.spec.schedule_spec import MOST_SCHEDULES, ScheduleFloor, ScheduleSpec, ScheduleState
from forebay.api.spec.speculative_spec import SpeculativeSpec
from forebay.api.spec.traffic_spec import TrafficSpec
from forebay.api.spec.variant_spec import VariantEngine, VariantSpec
from forebay.api.status import (
    Condition,
    DecisionStatus,
    InferenceServiceStatus,
    LoadStatus,
    ReplicaStatus,
    ScheduleStatus,
)

__all__ = [
    "Affinity",
    "ArchitectureSpec",
    "Condition",
    "DecisionStatus",
    "EndToEnd",
    "EngineSpec",
    "EnvFrom",
    "EnvVar",
    "ExpertsSpec",
    "GpuSpec",
    "InferenceService",
    "InferenceServiceSpec",
    "InferenceServiceStatus",
    "InterTokenLatency",
    "KvCacheDtype",
    "LoadStatus",
    "MlaSpec",
    "ModelSpec",
    "ObjectMeta",
    "PodSpec",
    "PodVolume",
    "Quantization",
    "QueueWait",
    "ReplicaStatus",
    "Resources",
    "RolloutSpec",
    "ScalingMode",
    "ScalingSpec",
    "ScheduleFloor",
    "ScheduleSpec",
    "ScheduleState",
    "ScheduleStatus",
    "SecretRef",
    "SlidingWindowSpec",
    "SloSpec",
    "SpeculativeSpec",
    "Targets",
    "TimeToFirstToken",
    "Toleration",
    "TopologySpread",
    "TrafficSpec",
    "VariantEngine",
    "VariantSpec",
    "WarmPoolSpec",
    "WeightCache",
    "WhenNoSpare",
]

KIND = "InferenceService"
LONGEST_NAME = 40
"""Pod names add a uid, a revision, an ordinal and a rank, and must stay within the 63 characters of a host name."""
_PRODUCT = "nvidia.com/gpu.product"


def _selectors_agree(spec: "InferenceServiceSpec") -> bool:
    gpu, pod = spec.gpu.node_selector or {}, spec.pod.node_selector or {}
    return all(pod[key] == gpu[key] for key in pod.keys() & gpu.keys())


def _products_agree(spec: "InferenceServiceSpec") -> bool:
    selected = (spec.pod.node_selector or {}).get(_PRODUCT)
    return spec.gpu.product is None or selected is None or selected == spec.gpu.product


class InferenceServiceSpec(Model):
    """The service that a team asks for: the model, its engine and GPUs, and how it scales."""

    rules = (
        Rule["InferenceServiceSpec"](
            cel="$warmPool.replicas <= $scaling.maxReplicas",
            message="warmPool.replicas $warmPool.replicas is above scaling.maxReplicas $scaling.maxReplicas, which "
            "counts warm replicas too; raise maxReplicas or lower warmPool.replicas",
            holds=lambda spec: spec.warm_pool.replicas <= spec.scaling.max_replicas,
            at="warmPool.replicas",
        ),
        Rule["InferenceServiceSpec"](
            cel="!has(self.schedules) || self.schedules.all(schedule, !has(schedule.floor.replicas)"
            " || schedule.floor.replicas <= $scaling.maxReplicas)",
            message="a schedule's floor.replicas is above scaling.maxReplicas $scaling.maxReplicas; raise maxReplicas "
            "or lower the floor",
            holds=lambda spec: all(
                (schedule.floor.replicas or 0) <= spec.scaling.max_replicas for schedule in spec.schedules
            ),
            at="schedules",
        ),
        Rule["InferenceServiceSpec"](
            cel="$scaling.minReplicas > 0 || $warmPool.replicas == 0",
            message="warmPool.replicas $warmPool.replicas keeps replicas loaded at all times, but scaling.minReplicas "
            "is 0; set warmPool.replicas to 0 or scaling.minReplicas to 1",
            holds=lambda spec: spec.scaling.min_replicas > 0 or spec.warm_pool.replicas == 0,
            at="warmPool.replicas",
        ),
        Rule["InferenceServiceSpec"](
            cel="!(has(self.gpu) && has(self.gpu.nodeSelector) && has(self.pod) && has(self.pod.nodeSelector))"
            " || self.pod.nodeSelector.all(key, !(key in self.gpu.nodeSelector)"
            " || self.gpu.nodeSelector[key] == self.pod.nodeSelector[key])",
            message="pod.nodeSelector and gpu.nodeSelector require different values of the same label; keep one of "
            "them",
            holds=_selectors_agree,
            at="pod.nodeSelector",
        ),
        Rule["InferenceServiceSpec"](
            cel="!(has(self.gpu) && has(self.gpu.product) && has(self.pod) && has(self.pod.nodeSelector)"
            f" && {literal(_PRODUCT)} in self.pod.nodeSelector)"
            f" || self.pod.nodeSelector[{literal(_PRODUCT)}] == self.gpu.product",
            message=f"pod.nodeSelector requires another {_PRODUCT} than gpu.product; keep gpu.product",
            holds=_products_agree,
            at="pod.nodeSelector",
        ),
    )

    model: ModelSpec
    """The weights to serve, their source and their precision."""
    engine: EngineSpec = EngineSpec()
    """How vLLM is run."""
    gpu: GpuSpec = GpuSpec()
    """The GPUs to use. The parallel sizes determine how many each pod gets."""
    variants: Annotated[tuple[VariantSpec, ...], Field(max_length=8), ListMap("name")] = ()
    """Other GPUs or parallel sizes to fall back to, in order of preference. New replicas use the first shape that is
    available, beginning with the service's own, and move back when a preferred shape becomes available again. The
    replicas of each variant count by their own capacity."""
    slo: SloSpec = SloSpec()
    """The latency promised to users. Capacity is planned for it, and guards add replicas when it is broken."""
    traffic: TrafficSpec | None = None
    """The traffic to plan capacity for. Absent: the plan only says what one replica carries. Scaling never reads it."""
    scaling: ScalingSpec = ScalingSpec()
    """Bounds of the replica count, and how fast it changes."""
    warm_pool: WarmPoolSpec = WarmPoolSpec()
    """Capacity that is loaded before it is needed."""
    schedules: Annotated[tuple[ScheduleSpec, ...], Field(max_length=MOST_SCHEDULES), ListMap("name")] = ()
    """Windows of time with a floor of their own. The floor is ready when the window starts."""
    rollout: RolloutSpec = RolloutSpec()
    """How pods are replaced and drained."""
    pod: PodSpec = PodSpec()
    """The fields of the pod that users may override."""


class ObjectMeta(Model):
    """The only field of an object's metadata that this API validates."""

    name: Annotated[str, Field(max_length=253)]
    """Name of the object."""


class InferenceService(Model):
    """A model served by GPU pods that Forebay sizes, creates, drains and replaces."""

    rules = (
        Rule["InferenceService"](
            cel=f"self.metadata.name.size() <= {LONGEST_NAME}"
            " && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            message='metadata.name "$metadata.name" does not fit into names of pods and Services; use at most '
            f"{LONGEST_NAME} lower case letters, digits and '-', beginning with a letter",
            holds=lambda service: (
                len(service.metadata.name) <= LONGEST_NAME
                and re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", service.metadata.name) is not None
            ),
            at="metadata.name",
        ),
    )

    api_version: Literal["forebay.dev/v1alpha1"]
    """Always forebay.dev/v1alpha1."""
    kind: Literal["InferenceService"]
    """Always InferenceService, of the group forebay.dev."""
    metadata: ObjectMeta
    """Standard metadata."""
    spec: InferenceServiceSpec
    """The service that a team asks for."""
    status: InferenceServiceStatus | None = None
    """The state that Forebay reports."""
