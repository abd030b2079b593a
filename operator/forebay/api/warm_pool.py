"""WarmPool: GPU places held for whichever service needs them first."""

import re
from typing import Annotated, Literal

from pydantic import Field

from forebay.api.inference_service import LONGEST_NAME, ObjectMeta
from forebay.api.schema.base_model import Model
from forebay.api.schema.bounded_types import Count, ListMap, ObjectName, Unique
from forebay.api.schema.validation_rules import Rule
from forebay.api.spec.engine_spec import MOST_GPUS_PER_POD, EngineVersion, GpuSpec, ImageReference
from forebay.api.spec.pod_spec import Resources, Toleration
from forebay.api.spec.schedule_spec import MOST_SCHEDULES, WindowSpec
from forebay.api.status import Condition, Generation, Replicas, WindowStatus

WARM_POOL_KIND = "WarmPool"
MOST_PLACEHOLDERS = 1000


class PoolEngine(Model):
    """The engine whose image is pulled on the nodes that are held."""

    image: ImageReference | None = None
    """Image to have there. Absent: the image of the version."""
    version: EngineVersion | None = None
    """vLLM version, such as 0.32.0. Absent: the operator's default."""


class PoolSchedule(WindowSpec):
    """Windows of time for which more places are held, warmed so that all of them are there when a window opens."""

    placeholders: Annotated[Count, Field(ge=1, le=MOST_PLACEHOLDERS)]
    """Places that are held from the first minute of a window to its end, all in all. They do not add up, neither with
    spec.placeholders nor with those of windows that overlap: the largest number counts."""


class PoolSpec(Model):
    """Places of one shape, and how many of them are held."""

    gpu: GpuSpec = GpuSpec()
    """Which GPUs, on which nodes."""
    gpus_per_pod: Annotated[Count, Field(ge=1, le=MOST_GPUS_PER_POD)] = 1
    """GPUs of one place: as many as a replica of the services that should fit."""
    placeholders: Annotated[Count, Field(ge=0, le=MOST_PLACEHOLDERS)]
    """Places that are held at all times, by pods of low priority that serve nothing and give way to any serving
    pod."""
    schedules: Annotated[tuple[PoolSchedule, ...], Field(max_length=MOST_SCHEDULES), ListMap("name")] = ()
    """Windows of time with more places than that."""
    engine: PoolEngine = PoolEngine()
    """The engine whose image is pulled there."""
    resources: Resources | None = None
    """CPU and memory of one place: what the services' pods ask for."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=16)] = ()
    """Taints that placeholders put up with, besides that of the GPU's resource."""
    image_pull_secrets: Annotated[tuple[ObjectName, ...], Field(max_length=8), Unique()] = ()
    """Secrets for the registry of the image, in the operator's namespace."""
    runtime_class_name: ObjectName | None = None
    """RuntimeClass of the placeholders."""


class PoolScheduleStatus(WindowStatus):
    """One schedule of a pool."""

    placeholders: Replicas | None = None
    """Places that are asked for; absent while no window can be told."""


class PoolStatus(Model):
    """What Forebay reports of a pool."""

    observed_generation: Generation = 0
    """The generation of the spec that this status is about."""
    wanted: Replicas = 0
    """Places to hold, those of schedules included."""
    ready: Replicas = 0
    """Places that are held, with the image pulled."""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16), ListMap("type")] = ()
    """Conditions by type: Warm."""
    schedules: Annotated[tuple[PoolScheduleStatus, ...], Field(max_length=MOST_SCHEDULES), ListMap("name")] = ()
    """How it stands with each schedule."""


class WarmPool(Model):
    """Places of one shape, held for whichever service needs them first. The pods are in the operator's namespace."""

    rules = (
        Rule["WarmPool"](
            cel=f"self.metadata.name.size() <= {LONGEST_NAME}"
            " && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            message='metadata.name "$metadata.name" does not fit into names of pods; use at most '
            f"{LONGEST_NAME} lower case letters, digits and '-', beginning with a letter",
            holds=lambda pool: (
                len(pool.metadata.name) <= LONGEST_NAME
                and re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", pool.metadata.name) is not None
            ),
            at="metadata.name",
        ),
    )

    api_version: Literal["forebay.dev/v1alpha1"]
    """Always forebay.dev/v1alpha1."""
    kind: Literal["WarmPool"]
    """Always WarmPool, of the group forebay.dev."""
    metadata: ObjectMeta
    """Standard metadata."""
    spec: PoolSpec
    """Places of one shape, and how many of them are held."""
    status: PoolStatus | None = None
    """What Forebay reports of a pool."""
