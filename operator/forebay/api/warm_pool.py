"""WarmPool: GPUs held by placeholder pods for whichever service needs them first."""

import re
from typing import Annotated, Literal

from pydantic import Field

from forebay.api.inference_service import LONGEST_NAME, ObjectMeta
from forebay.api.learned_status import Seconds
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
    """The engine whose image placeholders pull onto their nodes."""

    image: ImageReference | None = None
    """Image to pull. Absent: the image of the version."""
    version: EngineVersion | None = None
    """vLLM version, such as 0.32.0. Absent: the operator's default."""


class PoolSchedule(WindowSpec):
    """Windows of time with more placeholders. They start early enough that all are ready when a window opens."""

    placeholders: Annotated[Count, Field(ge=1, le=MOST_PLACEHOLDERS)]
    """Total number of placeholders from the first minute of a window to its end. It is not added to spec.placeholders
    or to overlapping windows: the largest number counts."""


class PoolSpec(Model):
    """The shape of the placeholders and how many there are."""

    gpu: GpuSpec = GpuSpec()
    """Which GPUs to hold, and on which nodes."""
    gpus_per_pod: Annotated[Count, Field(ge=1, le=MOST_GPUS_PER_POD)] = 1
    """GPUs of one placeholder: as many as one pod of the services that will use them."""
    placeholders: Annotated[Count, Field(ge=0, le=MOST_PLACEHOLDERS)]
    """Placeholders at all times: pods of low priority that serve nothing, hold their GPUs, and are preempted by any
    serving pod."""
    schedules: Annotated[tuple[PoolSchedule, ...], Field(max_length=MOST_SCHEDULES), ListMap("name")] = ()
    """Windows of time with more placeholders."""
    engine: PoolEngine = PoolEngine()
    """The engine whose image placeholders pull onto their nodes."""
    resources: Resources | None = None
    """CPU and memory of one placeholder: as much as the pods of the services ask for."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=16)] = ()
    """Taints that placeholders tolerate, besides that of the GPU's resource."""
    image_pull_secrets: Annotated[tuple[ObjectName, ...], Field(max_length=8), Unique()] = ()
    """Secrets for the registry of the image, in the operator's namespace."""
    runtime_class_name: ObjectName | None = None
    """RuntimeClass of the placeholders."""


class PoolScheduleStatus(WindowStatus):
    """The state of one schedule of a pool."""

    placeholders: Replicas | None = None
    """Placeholders that the window asks for; absent while no window is known."""


class PoolStarts(Model):
    """How long the last placeholders took from creation until they held their GPUs, in seconds, oldest first. A
    restarted operator continues with them."""

    ready_node: Annotated[tuple[Seconds, ...], Field(max_length=32)] = ()
    """Starts on nodes with free GPUs."""
    new_node: Annotated[tuple[Seconds, ...], Field(max_length=32)] = ()
    """Starts on nodes that were added while the placeholder waited."""


class PoolStatus(Model):
    """The state that Forebay reports of a pool."""

    observed_generation: Generation = 0
    """The generation of the spec that this status is about."""
    wanted: Replicas = 0
    """Placeholders to hold, including those of schedules."""
    ready: Replicas = 0
    """Placeholders that run and have pulled the image."""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16), ListMap("type")] = ()
    """Conditions by type: Warm."""
    schedules: Annotated[tuple[PoolScheduleStatus, ...], Field(max_length=MOST_SCHEDULES), ListMap("name")] = ()
    """The state of each schedule."""
    starts: PoolStarts | None = None
    """Learned lead times of placeholders. Absent before the first start is measured."""


class WarmPool(Model):
    """GPUs of one shape that placeholder pods hold for whichever service needs them first. The pods run in the
    operator's namespace."""

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
    """The shape of the placeholders and how many there are."""
    status: PoolStatus | None = None
    """The state that Forebay reports of a pool."""
