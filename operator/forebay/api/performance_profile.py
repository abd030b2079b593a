"""PerformanceProfile: how fast a model runs on a GPU, as somebody measured it. Wins over the built-in table."""

from typing import Annotated, Literal

from pydantic import Field

from forebay.api.inference_service import ObjectMeta
from forebay.api.schema.base_model import Model
from forebay.api.schema.bounded_types import Count, LabelValue, Number, text
from forebay.api.schema.validation_rules import Obeys, Rule
from forebay.api.spec.engine_spec import MOST_GPUS_PER_POD, ModelSource, TensorParallelSize

PROFILE_KIND = "PerformanceProfile"

Coefficient = Annotated[Number, Field(ge=0, le=1_000_000)]


class PerformanceProfileSpec(Model):
    """Coefficients of one engine's step, `T = a + b·P + c·B + d·K`, and what they were measured for."""

    rules = (
        Rule["PerformanceProfileSpec"](
            cel="!self.model.contains('@')",
            message='"$model" names a revision; a profile is of a model, so leave out what begins with @',
            holds=lambda profile: "@" not in profile.model,
            at="model",
        ),
    )

    model: ModelSource
    """The services' `model.source`, without a revision."""
    product: Annotated[LabelValue, Field(min_length=1)]
    """Value of the node label `nvidia.com/gpu.product`."""
    weight_bits: Annotated[Count, Field(ge=2, le=32)] | None = None
    """Bits per weight. Absent: whatever the precision."""
    tensor_parallel_size: TensorParallelSize | None = None
    """Absent: however the layers are split."""
    pipeline_parallel_size: Annotated[Count, Field(ge=1, le=MOST_GPUS_PER_POD)] | None = None
    """Absent: however the layers are chained."""
    engine_version: (
        Annotated[
            str,
            Field(max_length=9),
            Obeys(text(r"[0-9]{1,4}\.[0-9]{1,4}", "is not a minor version of vLLM; write it as 0.32")),
        ]
        | None
    ) = None
    """Minor version of vLLM, such as 0.32. Absent: every version."""
    step_milliseconds: Annotated[Number, Field(ge=0.001, le=600_000)]
    """a: a step without any work, in milliseconds."""
    prompt_token_microseconds: Coefficient
    """b: one prompt token, in microseconds."""
    sequence_microseconds: Coefficient
    """c: one decoding sequence, in microseconds."""
    kv_token_nanoseconds: Coefficient
    """d: reading one token of the KV cache, in nanoseconds."""
    overhead_mebibytes: Annotated[Count, Field(ge=0, le=1_000_000)] | None = None
    """Memory of each GPU beside weights and KV cache. Absent: 4096."""
    usable_percent: Annotated[Count, Field(ge=1, le=100)] | None = None
    """Share of the mean-value capacity at which the promises still hold. Absent: by the mix."""
    error_percent: Annotated[Count, Field(ge=0, le=100)] = 10
    """How far capacity computed from it may be off."""
    measured_with: Annotated[str, Field(max_length=512)] | None = None
    """Tool, load and date, for those who read a plan."""


class PerformanceProfile(Model):
    """How fast a model runs on a GPU, as you measured it; plans use it before the built-in table and estimates."""

    api_version: Literal["forebay.dev/v1alpha1"]
    """Always forebay.dev/v1alpha1."""
    kind: Literal["PerformanceProfile"]
    """Always PerformanceProfile, of the group forebay.dev."""
    metadata: ObjectMeta
    """Standard metadata."""
    spec: PerformanceProfileSpec
    """What was measured, and for what."""
