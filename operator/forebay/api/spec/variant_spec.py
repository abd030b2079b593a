"""Other ways to run the same service, for when the first cannot be had; the plan sizes and prices each."""

from typing import Annotated, Final

from pydantic import Field

from forebay.api.schema.base_model import Model
from forebay.api.schema.bounded_types import Count, VolumeName
from forebay.api.schema.validation_rules import Rule
from forebay.api.spec.engine_spec import MOST_GPUS_PER_POD, MOST_NODES, GpuSpec, TensorParallelSize

BASE_VARIANT: Final = "base"
"""How the service's own shape is called among its variants."""


class VariantEngine(Model):
    """What a variant runs differently; a field that is absent is that of the service."""

    tensor_parallel_size: TensorParallelSize | None = None
    """GPUs over which each layer is split. Absent: the smallest that fits on the variant's GPU."""
    pipeline_parallel_size: Annotated[Count, Field(ge=1, le=MOST_GPUS_PER_POD)] | None = None
    """Stages into which the layers are split."""
    data_parallel_size: Annotated[Count, Field(ge=1, le=MOST_GPUS_PER_POD)] | None = None
    """Whole copies of the model in one pod."""
    nodes: Annotated[Count, Field(ge=1, le=MOST_NODES)] | None = None
    """Nodes over which one replica is spread, with what holds for them in `engine.nodes`."""
    gpu_memory_utilization_percent: Annotated[Count, Field(ge=10, le=99)] | None = None
    """Share of each GPU's memory that the engine takes."""
    max_num_seqs: Annotated[Count, Field(ge=1, le=16_384)] | None = None
    """Most sequences decoded at once by one engine."""


class VariantSpec(Model):
    """The same model on another GPU, or spread differently."""

    rules = (
        Rule["VariantSpec"](
            cel=f"self.name != '{BASE_VARIANT}'",
            message=f'"{BASE_VARIANT}" is what the service\'s own GPU and sizes are called; give the variant another '
            "name",
            holds=lambda variant: variant.name != BASE_VARIANT,
            at="name",
        ),
    )

    name: VolumeName
    """Tells the variants apart. Pods of a variant carry it as the label `forebay.dev/variant`."""
    gpu: GpuSpec = GpuSpec()
    """Its GPU. Absent: that of the service."""
    engine: VariantEngine = VariantEngine()
    """What its engine runs differently."""
