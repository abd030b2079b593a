"""Chooses the profile that an engine is planned with, and says how exact it is.

A PerformanceProfile of the user comes first, then a built-in profile, then a roofline estimate.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from forebay.api.performance_profile import PerformanceProfileSpec
from forebay.capacity.model import roofline
from forebay.capacity.model.architecture import Architecture
from forebay.capacity.model.engine_profile import BUILT_IN, BuiltIn, EngineProfile
from forebay.capacity.model.gpu_memory import Sizes
from forebay.capacity.model.model_catalogue import Gpu
from forebay.capacity.model.quantization import FULL_BITS, UNQUANTIZED, Quantization, quantized

CARRIED_OVER_ERROR_PERCENT: Final = 15
"""Error that is added when a 16-bit profile is carried over to quantized weights, if the method's effect was
measured."""
UNMEASURED_ERROR_PERCENT: Final = 25
"""Error that is added if the method's effect was not measured."""


class Basis(StrEnum):
    """Where a figure comes from."""

    DECLARED = "declared"
    """A roofline estimate from the GPU's data sheet and the model's shape."""
    PROFILE = "profile"
    """Coefficients measured for this model on this GPU."""
    MEASURED = "measured"
    """Measurements of the service's own replicas."""


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """A model on a GPU, as an engine will run it."""

    source: str
    """Source of the model in the manifest, without a revision."""
    model: str | None
    """Name in the catalogue; None for a model that is not in it or whose shape the manifest overrides."""
    architecture: Architecture
    gpu: Gpu
    quantization: Quantization
    kv_bits: int
    sizes: Sizes
    engine_version: str | None = None


@dataclass(frozen=True, slots=True)
class GivenProfile:
    """A profile that a user measured, and the setups that it applies to; None means any."""

    name: str
    source: str
    product: str
    profile: EngineProfile
    bits: int | None = None
    tensor: int | None = None
    pipeline: int | None = None
    engine_version: str | None = None
    """Major and minor number, such as 0.32."""
    overhead_bytes: int | None = None
    usable_share: float | None = None
    """φ: the share of the mean-value capacity at which the promises still hold."""
    error_percent: int = 10
    measured_with: str | None = None

    def fits(self, setup: EngineSetup) -> bool:
        """Whether the profile applies to this setup."""
        version = setup.engine_version
        return (
            self.source.casefold() == setup.source.casefold()
            and self.product == setup.gpu.product
            and self.bits in (None, setup.quantization.bits)
            and self.tensor in (None, setup.sizes.tensor)
            and self.pipeline in (None, setup.sizes.pipeline)
            and (self.engine_version is None or version is None or f"{version}.".startswith(f"{self.engine_version}."))
        )

    @property
    def specificity(self) -> int:
        """Number of properties of the setup that the profile names."""
        return sum(value is not None for value in (self.bits, self.tensor, self.pipeline, self.engine_version))


@dataclass(frozen=True, slots=True)
class ChosenProfile:
    """The profile of an engine, and how exact it is."""

    profile: EngineProfile
    name: str
    basis: Basis
    error_percent: int
    """How far capacity computed from the profile may be off."""
    notes: tuple[str, ...] = ()
    usable_share: float | None = None


def given_profile(name: str, spec: PerformanceProfileSpec) -> GivenProfile:
    """A PerformanceProfile in the units of the plan; the memory plan of each service gives the KV cache."""
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


def choose_profile(setup: EngineSetup, kv_tokens: int, given: Iterable[GivenProfile] = ()) -> ChosenProfile:
    """The best profile for a setup: a given one, a built-in one, a built-in one carried over from 16 bits, or an
    estimate. `kv_tokens` is the KV cache of one engine by the memory plan, at least 1."""
    fitting = given_for(setup, given)
    if fitting is not None:
        return ChosenProfile(
            profile=replace(fitting.profile, kv_tokens=kv_tokens),
            name=fitting.name,
            basis=Basis.PROFILE,
            error_percent=fitting.error_percent,
            notes=(f"measured with: {fitting.measured_with}",) if fitting.measured_with else (),
            usable_share=fitting.usable_share,
        )
    exact = _built_in(setup, setup.quantization.bits)
    if exact is not None:
        return _with_kv(exact, setup, kv_tokens)
    unquantized = _built_in(setup, FULL_BITS) if setup.quantization.changes_speed else None
    if unquantized is not None:
        return _carried_over(_with_kv(unquantized, setup, kv_tokens), setup)
    return _estimated(setup, kv_tokens)


def given_for(setup: EngineSetup, given: Iterable[GivenProfile]) -> GivenProfile | None:
    """The most specific given profile for this setup; of equally specific ones the first by name."""
    fitting = sorted((profile for profile in given if profile.fits(setup)), key=lambda profile: profile.name)
    return max(fitting, key=lambda profile: profile.specificity, default=None)


def _built_in(setup: EngineSetup, bits: int) -> BuiltIn | None:
    for entry in BUILT_IN.values():
        if (
            setup.model in entry.models
            and setup.gpu.name in entry.gpus
            and entry.bits == bits
            and entry.tensor_parallel_size == setup.sizes.tensor
            and setup.sizes.pipeline == 1
        ):
            return entry
    return None


def _with_kv(entry: BuiltIn, setup: EngineSetup, kv_tokens: int) -> ChosenProfile:
    """The entry's coefficients with the memory plan's KV cache; KV reads are scaled to the precision of the cache."""
    profile, notes = replace(entry.profile, kv_tokens=kv_tokens), [f"measured with: {entry.measured_with}"]
    if setup.kv_bits != FULL_BITS:
        profile = replace(profile, kv_token_seconds=profile.kv_token_seconds * setup.kv_bits / FULL_BITS)
        notes.append(f"KV reads are assumed to take {setup.kv_bits}/{FULL_BITS} of the profile's time (not measured)")
    return ChosenProfile(profile, entry.name, Basis.PROFILE, entry.error_percent, tuple(notes))


def _carried_over(unquantized: ChosenProfile, setup: EngineSetup) -> ChosenProfile:
    quantization = setup.quantization
    added_error = CARRIED_OVER_ERROR_PERCENT if quantization.measured else UNMEASURED_ERROR_PERCENT
    return replace(
        unquantized,
        profile=quantized(unquantized.profile, quantization, setup.gpu),
        name=f"{unquantized.name}, {quantization.method}",
        error_percent=unquantized.error_percent + added_error,
        notes=(*unquantized.notes, f"carried over from 16 bits to {quantization.method}: {quantization.basis}"),
    )


def _estimated(setup: EngineSetup, kv_tokens: int) -> ChosenProfile:
    profile = roofline.estimate(
        setup.architecture,
        setup.gpu,
        setup.sizes,
        quantization=setup.quantization,
        kv_bits=setup.kv_bits,
        kv_tokens=kv_tokens,
    )
    error = roofline.ERROR_PERCENT
    unmeasured = f"there is no profile of this model on {setup.gpu.product} with {setup.sizes}"
    notes = [f"roofline estimate ±{error} % from the data sheet and the efficiency of measured kernels: {unmeasured}"]
    if setup.quantization is not UNQUANTIZED and setup.quantization.changes_speed:
        notes.append(f"{setup.quantization.method}: {setup.quantization.basis}")
    if setup.architecture.experts is not None:
        notes.append("every step is assumed to read all experts, as it does with a few dozen decoding sequences")
    return ChosenProfile(profile, "roofline", Basis.DECLARED, error, tuple(notes))
