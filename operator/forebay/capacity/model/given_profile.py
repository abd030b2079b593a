"""From a PerformanceProfile, in the units that people measure in, to a profile that plans can use."""

from forebay.api.performance_profile import PerformanceProfileSpec
from forebay.capacity.model.engine_profile import EngineProfile
from forebay.capacity.model.profile_choice import GivenProfile


def given_profile(name: str, spec: PerformanceProfileSpec) -> GivenProfile:
    """Its KV cache is left to the memory plan of each service."""
    return GivenProfile(
        name=name,
        source=spec.model,
        product=spec.product,
        profile=EngineProfile(
            step_seconds=spec.step_milliseconds * 1e-3,
            prompt_token_seconds=spec.prompt_token_microseconds * 1e-6,
            sequence_seconds=spec.sequence_microseconds * 1e-6,
            kv_token_seconds=spec.kv_token_nanoseconds * 1e-9,
            kv_tokens=1,
        ),
        bits=spec.weight_bits,
        tensor=spec.tensor_parallel_size,
        pipeline=spec.pipeline_parallel_size,
        engine_version=spec.engine_version,
        overhead_bytes=None if spec.overhead_mebibytes is None else spec.overhead_mebibytes * 2**20,
        usable_share=None if spec.usable_percent is None else spec.usable_percent / 100,
        error_percent=spec.error_percent,
        measured_with=spec.measured_with,
    )
