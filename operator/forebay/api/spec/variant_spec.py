"""Variants: other GPUs or parallel sizes for a service when its own are unavailable. The plan sizes and prices each."""

from typing import Annotated, Final

from pydantic import Field

from forebay.api.schema.base_model import Model
from forebay.api.schema.bounded_types import Count, VolumeName
from forebay.api.schema.validation_rules import Rule
from forebay.api.spec.engine_spec import MOST_GPUS_PER_POD, MOST_NODES, GpuSpec, TensorParallelSize

BASE_VARIANT: Final = "base"
"""Name of the service's own shape among its variants."""


class VariantEngine(Model):
    """The engine's fields that a variant overrides; absent fields are those of the service."""

    tensor_parallel_size: TensorParallelSize | None = None
    """GPUs over which each layer is split. Absent: the smallest that fits on the variant's GPU."""
    pipeline_parallel_size: Annotated[Count, Field(ge=1, le=MOST_GPUS_PER_POD)] | None = None
    """Stages into which the layers are split."""
    data_parallel_size: Annotated[Count, Field(ge=1, le=MOST_GPUS_PER_POD)] | None = None
    """Whole copies of the model in one pod."""
    nodes: Annotated[Count, Field(ge=1, le=MOST_NODES)] | None = None
    """Nodes over which one replica is spread, under the rules of `engine.nodes`."""
    gpu_memory_utilization_percent: Annotated[Count, Field(ge=10, le=99)] | None = None
    """Share of each GPU's memory that the engine uses."""
    max_num_seqs: Annotated[Count, Field(ge=1, le=16_384)] | None = None
    """Sequences that one engine decodes at once, at most."""


class VariantSpec(Model):
    """The same model on another GPU, or with other parallel sizes."""

    rules = (
        Rule["VariantSpec"](
            cel=f"self.name != '{BASE_VARIANT}'",
            message=f'"{BASE_VARIANT}" is the name of the service\'s own shape; give the variant another name',
            holds=lambda variant: variant.name != BASE_VARIANT,
            at="name",
        ),
    )

    name: VolumeName
    """Name of the variant, unique within the service. Its pods have the label `forebay.dev/variant` with this name."""
    gpu: GpuSpec = GpuSpec()
    """GPU of the variant. Absent: the GPU of the service."""
    engine: VariantEngine = VariantEngine()
    """The engine's fields that the variant overrides."""
