"""The fields of a pod that users may override. Other fields come from a PodTemplate or are decided by Forebay."""

from typing import Annotated, Literal

from pydantic import Field

from forebay.api import labels
from forebay.api.schema.base_model import GROUP, Model
from forebay.api.schema.bounded_types import (
    LABEL_KEYS,
    Count,
    Flag,
    LabelKey,
    LabelValue,
    ListMap,
    NodeLabels,
    ObjectName,
    Quantity,
    Unique,
    VolumeName,
    none_of,
    text,
)
from forebay.api.schema.validation_rules import CheckedBy, Rule, literal
from forebay.api.spec.affinity import Affinity
from forebay.api.spec.pod_paths import RESERVED_DIRECTORIES, RESERVED_TREES, RESERVED_VOLUMES


class Resources(Model):
    """CPU and memory of the engine; the parallel sizes determine the GPUs."""

    cpu: Quantity | None = None
    """CPU request, such as 8 or 500m. There is no CPU limit, because it would stall the engine's scheduler."""
    memory: Quantity | None = None
    """Memory request and limit, such as 64Gi. It must hold the weights while they load."""


class Toleration(Model):
    """A taint that pods tolerate, so that they may run on nodes reserved for GPUs."""

    rules = (
        Rule["Toleration"](
            cel="!(has(self.operator) && self.operator == 'Exists' && has(self.value) && self.value != '')",
            message='operator Exists matches any value, so value "$value" has no effect; remove it or use Equal',
            holds=lambda toleration: toleration.operator != "Exists" or not toleration.value,
            at="value",
        ),
        Rule["Toleration"](
            cel="has(self.key) || (has(self.operator) && self.operator == 'Exists')",
            message="a toleration without a key matches every taint and needs operator Exists; set a key or Exists",
            holds=lambda toleration: toleration.key is not None or toleration.operator == "Exists",
            at="key",
        ),
        Rule["Toleration"](
            cel="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            message="tolerationSeconds needs effect NoExecute; set it or remove the seconds",
            holds=lambda toleration: toleration.toleration_seconds is None or toleration.effect == "NoExecute",
            at="tolerationSeconds",
        ),
    )

    key: LabelKey | None = None
    """Key of the taint."""
    operator: Literal["Exists", "Equal"] | None = None
    """`Equal` compares the value, `Exists` does not. Absent: Equal."""
    value: LabelValue | None = None
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint. Absent: all."""
    toleration_seconds: Annotated[Count, Field(ge=0, le=86_400)] | None = None
    """How long a running pod stays after such a taint appears. Absent: forever."""


_OPEN_ROOTS = f"!(self in [{', '.join(literal(path) for path in RESERVED_DIRECTORIES)}])"
_OPEN_TREES = (
    f"![{', '.join(literal(path) for path in RESERVED_TREES)}]"
    ".exists(path, self == path || self.startsWith(path + '/') || path.startsWith(self + '/'))"
)


def _is_open(path: str) -> bool:
    inside = any(f"{path}/".startswith(f"{tree}/") or tree.startswith(f"{path}/") for tree in RESERVED_TREES)
    return path not in RESERVED_DIRECTORIES and not inside


MountPath = Annotated[
    str,
    Field(max_length=256),
    CheckedBy(
        text(
            r"(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+",
            'is not a mount path; write an absolute path below "/", without ".."',
        ),
        Rule(
            cel=f"{_OPEN_ROOTS} && {_OPEN_TREES}",
            message='"$self" is used by the engine or by Forebay; use another path, such as /data',
            holds=_is_open,
        ),
    ),
]


class PodVolume(Model):
    """A volume with exactly one source, and where it is mounted."""

    rules = (
        Rule["PodVolume"](
            cel="[has(self.pvc), has(self.secret), has(self.configMap), has(self.emptyDir) && self.emptyDir]"
            ".filter(source, source).size() == 1",
            message='volume "$name" needs exactly one source; set one of pvc, secret, configMap or emptyDir: true',
            holds=lambda volume: (
                sum(
                    (volume.pvc is not None, volume.secret is not None, volume.config_map is not None, volume.empty_dir)
                )
                == 1
            ),
        ),
    )

    name: Annotated[
        VolumeName, CheckedBy(none_of(RESERVED_VOLUMES, "is the name of one of Forebay's volumes; use another"))
    ]
    """Name of the volume."""
    mount_path: MountPath
    """Path of the volume in the engine's container."""
    read_only: Flag = False
    """Whether the engine may only read it."""
    pvc: ObjectName | None = None
    """A PersistentVolumeClaim of the same namespace."""
    secret: ObjectName | None = None
    """A Secret of the same namespace."""
    config_map: ObjectName | None = None
    """A ConfigMap of the same namespace."""
    empty_dir: Flag = False
    """An empty directory that lives as long as the pod."""


class EnvFrom(Model):
    """Environment variables from all keys of a Secret or ConfigMap."""

    rules = (
        Rule["EnvFrom"](
            cel="has(self.secret) != has(self.configMap)",
            message="an entry needs exactly one of secret and configMap; use two entries for both",
            holds=lambda source: (source.secret is None) != (source.config_map is None),
        ),
    )

    secret: ObjectName | None = None
    """A Secret of the same namespace."""
    config_map: ObjectName | None = None
    """A ConfigMap of the same namespace."""


class TopologySpread(Model):
    """How the service's pods spread over zones or nodes."""

    max_skew: Annotated[Count, Field(ge=1, le=1000)] = 1
    """Largest difference between the numbers of pods in two domains."""
    topology_key: LabelKey
    """Node label that defines the domains, such as topology.kubernetes.io/zone: nodes with the same value are one
    domain."""
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"] = "ScheduleAnyway"
    """Whether a pod that would exceed the skew waits (DoNotSchedule) or runs anyway."""


def _mounts_are_apart(pod: "PodSpec") -> bool:
    return len({volume.mount_path for volume in pod.volumes}) == len(pod.volumes)


_FREE_ANNOTATIONS = (
    Rule[dict[str, str]](
        cel=f"self.all(key, !key.startsWith({literal(f'{GROUP}/')}))",
        message=f"annotations with the prefix {GROUP}/ are reserved for Forebay; choose another prefix",
        holds=lambda value: not any(key.startswith(f"{GROUP}/") for key in value),
    ),
    Rule[dict[str, str]](
        cel=f"self.all(key, !(key in [{', '.join(literal(name) for name in labels.POD_ANNOTATIONS)}]))",
        message=f"Forebay sets {', '.join(labels.POD_ANNOTATIONS)} itself; remove them",
        holds=lambda value: value.keys().isdisjoint(labels.POD_ANNOTATIONS),
    ),
)


class PodSpec(Model):
    """The fields of the pod that users may override."""

    rules = (
        Rule["PodSpec"](
            cel="!has(self.volumes) || self.volumes.all(a, self.volumes.exists_one(b, b.mountPath == a.mountPath))",
            message="two volumes have the same mountPath; give each its own",
            holds=_mounts_are_apart,
            at="volumes",
        ),
    )

    resources: Resources | None = None
    """CPU and memory of the engine; the parallel sizes determine the GPUs."""
    node_selector: NodeLabels | None = None
    """Labels that a node must have, besides those of spec.gpu."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=16)] = ()
    """Taints that pods tolerate."""
    affinity: Affinity | None = None
    """Where pods are scheduled."""
    topology_spread_constraints: Annotated[tuple[TopologySpread, ...], Field(max_length=4)] = ()
    """How the service's pods spread over zones or nodes."""
    service_account_name: ObjectName | None = None
    """ServiceAccount of the pods, for sources that need no Secret. Absent: the namespace's default."""
    image_pull_secrets: Annotated[tuple[ObjectName, ...], Field(max_length=8), Unique()] = ()
    """Secrets for the registry of the engine's image."""
    runtime_class_name: ObjectName | None = None
    """RuntimeClass of the pods."""
    priority_class_name: ObjectName | None = None
    """PriorityClass of the pods."""
    volumes: Annotated[tuple[PodVolume, ...], Field(max_length=16), ListMap("name")] = ()
    """More volumes, each with its mount path."""
    env_from: Annotated[tuple[EnvFrom, ...], Field(max_length=16)] = ()
    """Environment variables from Secrets and ConfigMaps."""
    annotations: (
        Annotated[
            dict[str, Annotated[str, Field(max_length=4096)]],
            Field(max_length=32),
            CheckedBy(LABEL_KEYS, *_FREE_ANNOTATIONS),
        ]
        | None
    ) = None
    """More annotations for the pods."""
    template_ref: ObjectName | None = None
    """Name of a core PodTemplate in the same namespace that provides all other fields of the pod."""
