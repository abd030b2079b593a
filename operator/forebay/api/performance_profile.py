"""PerformanceProfile: how fast a model runs on a GPU, as a user measured it. It takes precedence over the built-in
table."""

from typing import Annotated, Literal

from pydantic import Field

from forebay.api.inference_service import ObjectMeta
from forebay.api.schema.base_model import Model
from forebay.api.schema.bounded_types import Count, LabelValue, Number, text
from forebay.api.schema.validation_rules import CheckedBy, Rule
from forebay.api.spec.engine_spec import MOST_GPUS_PER_POD, ModelSource, TensorParallelSize

PROFILE_KIND = "PerformanceProfile"

Coefficient = Annotated[Number, Field(ge=0, le=1_000_000)]


class PerformanceProfileSpec(Model):
    """Coefficients of one engine's step time and what they were measured for. A step that computes P prompt tokens and
    decodes B sequences over K tokens of KV cache takes `T = a + b·P + c·B + d·K`."""

    rules = (
        Rule["PerformanceProfileSpec"](
            cel="!self.model.contains('@')",
            message='"$model" names a revision, but a profile applies to all revisions; remove the part from @ on',
            holds=lambda profile: "@" not in profile.model,
            at="model",
        ),
    )

    model: ModelSource
    """The services' `model.source`, without a revision."""
    product: Annotated[LabelValue, Field(min_length=1)]
    """Value of the node label `nvidia.com/gpu.product`."""
    weight_bits: Annotated[Count, Field(ge=2, le=32)] | None = None
    """Bits per weight. Absent: every precision."""
    tensor_parallel_size: TensorParallelSize | None = None
    """GPUs over which each layer is split. Absent: every size."""
    pipeline_parallel_size: Annotated[Count, Field(ge=1, le=MOST_GPUS_PER_POD)] | None = None
    """Stages into which the layers are split. Absent: every size."""
    engine_version: (
        Annotated[
            str,
            Field(max_length=9),
            CheckedBy(text(r"[0-9]{1,4}\.[0-9]{1,4}", "is not a minor version of vLLM; write it as 0.32")),
        ]
        | None
    ) = None
    """Minor version of vLLM, such as 0.32. Absent: every version."""
    step_milliseconds: Annotated[Number, Field(ge=0.001, le=600_000)]
    """a: milliseconds that a step without any work takes."""
    prompt_token_microseconds: Coefficient
    """b: microseconds that one prompt token adds to a step."""
    sequence_microseconds: Coefficient
    """c: microseconds that one decoding sequence adds to a step."""
    kv_token_nanoseconds: Coefficient
    """d: nanoseconds that reading one token of the KV cache adds to a step."""
    overhead_mebibytes: Annotated[Count, Field(ge=0, le=1_000_000)] | None = None
    """Memory of each GPU that neither weights nor KV cache use. Absent: 4096."""
    usable_percent: Annotated[Count, Field(ge=1, le=100)] | None = None
    """Share of the mean-value capacity at which the SLO still holds. Absent: computed from the lengths of requests."""
    error_percent: Annotated[Count, Field(ge=0, le=100)] = 10
    """How far capacity computed from this profile may be off."""
    measured_with: Annotated[str, Field(max_length=512)] | None = None
    """Tool, load and date of the measurement, shown in plans."""


class PerformanceProfile(Model):
    """How fast a model runs on a GPU, as you measured it. Plans prefer it to the built-in table and to estimates."""

    api_version: Literal["forebay.dev/v1alpha1"]
    """Always forebay.dev/v1alpha1."""
    kind: Literal["PerformanceProfile"]
    """Always PerformanceProfile, of the group forebay.dev."""
    metadata: ObjectMeta
    """Standard metadata."""
    spec: PerformanceProfileSpec
    """The measured coefficients and what they were measured for."""
