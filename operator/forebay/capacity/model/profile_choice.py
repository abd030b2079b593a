"""Which profile an engine is planned with: one that was given, a built-in one, or a roofline estimate; and how sure it
is.
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
"""What carrying a 16-bit profile over to quantized weights adds, where the effect of the method was measured."""
UNMEASURED_ERROR_PERCENT: Final = 25
"""The same where it was not."""


class Basis(StrEnum):
    """What a figure rests on."""

    DECLARED = "declared"
    """The card's data sheet and the model's shape: a roofline estimate."""
    PROFILE = "profile"
    """Coefficients measured for this model on this GPU."""
    MEASURED = "measured"
    """What the service's own replicas have shown."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """A model on a GPU, as an engine will run it."""

    source: str
    """As the manifest names it, without a revision."""
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
    """A profile that somebody measured, and what for; None means any."""

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
    """φ."""
    error_percent: int = 10
    measured_with: str | None = None

    def fits(self, pairing: Pairing) -> bool:
        version = pairing.engine_version
        return (
            self.source.casefold() == pairing.source.casefold()
            and self.product == pairing.gpu.product
            and self.bits in (None, pairing.quantization.bits)
            and self.tensor in (None, pairing.sizes.tensor)
            and self.pipeline in (None, pairing.sizes.pipeline)
            and (self.engine_version is None or version is None or f"{version}.".startswith(f"{self.engine_version}."))
        )

    @property
    def narrowness(self) -> int:
        """How much it says of what it was measured for."""
        return sum(value is not None for value in (self.bits, self.tensor, self.pipeline, self.engine_version))


@dataclass(frozen=True, slots=True)
class ChosenProfile:
    profile: EngineProfile
    name: str
    basis: Basis
    error_percent: int
    """How far capacity computed from it may be off."""
    notes: tuple[str, ...] = ()
    usable_share: float | None = None


def given_profile(name: str, spec: PerformanceProfileSpec) -> GivenProfile:
    """A PerformanceProfile in the units of the plan; its KV cache is left to the memory plan of each service."""
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


def choose(pairing: Pairing, kv_tokens: int, given: Iterable[GivenProfile] = ()) -> ChosenProfile:
    """The best there is, in this order; `kv_tokens` are what the memory plan found for one engine, at least 1."""
    found = given_for(pairing, given)
    if found is not None:
        return ChosenProfile(
            profile=replace(found.profile, kv_tokens=kv_tokens),
            name=found.name,
            basis=Basis.PROFILE,
            error_percent=found.error_percent,
            notes=(f"measured with: {found.measured_with}",) if found.measured_with else (),
            usable_share=found.usable_share,
        )
    exact = _built_in(pairing, pairing.quantization.bits)
    if exact is not None:
        return _with_kv(exact, pairing, kv_tokens)
    full = _built_in(pairing, FULL_BITS) if pairing.quantization.changes_speed else None
    if full is not None:
        return _carried_over(_with_kv(full, pairing, kv_tokens), pairing)
    return _estimated(pairing, kv_tokens)


def given_for(pairing: Pairing, given: Iterable[GivenProfile]) -> GivenProfile | None:
    """The given profile that says most of this pairing; the first by name of equals."""
    fitting = sorted((profile for profile in given if profile.fits(pairing)), key=lambda profile: profile.name)
    return max(fitting, key=lambda profile: profile.narrowness, default=None)


def _built_in(pairing: Pairing, bits: int) -> BuiltIn | None:
    for entry in BUILT_IN.values():
        if (
            pairing.model in entry.models
            and pairing.gpu.name in entry.gpus
            and entry.bits == bits
            and entry.tensor_parallel_size == pairing.sizes.tensor
            and pairing.sizes.pipeline == 1
        ):
            return entry
    return None


def _with_kv(entry: BuiltIn, pairing: Pairing, kv_tokens: int) -> ChosenProfile:
    """The entry's coefficients with the memory plan's KV cache; its reads follow the precision of the cache."""
    profile, notes = replace(entry.profile, kv_tokens=kv_tokens), [f"measured with: {entry.measured_with}"]
    if pairing.kv_bits != FULL_BITS:
        profile = replace(profile, kv_token_seconds=profile.kv_token_seconds * pairing.kv_bits / FULL_BITS)
        notes.append(f"KV reads are taken as {pairing.kv_bits}/{FULL_BITS} of the profile's; that was not measured")
    return ChosenProfile(profile, entry.name, Basis.PROFILE, entry.error_percent, tuple(notes))


def _carried_over(full: ChosenProfile, pairing: Pairing) -> ChosenProfile:
    quantization = pairing.quantization
    added = CARRIED_OVER_ERROR_PERCENT if quantization.measured else UNMEASURED_ERROR_PERCENT
    return replace(
        full,
        profile=quantized(full.profile, quantization, pairing.gpu),
        name=f"{full.name}, {quantization.method}",
        error_percent=full.error_percent + added,
        notes=(*full.notes, f"carried over from 16 bits to {quantization.method}: {quantization.basis}"),
    )


def _estimated(pairing: Pairing, kv_tokens: int) -> ChosenProfile:
    profile = roofline.estimate(
        pairing.architecture,
        pairing.gpu,
        pairing.sizes,
        quantization=pairing.quantization,
        kv_bits=pairing.kv_bits,
        kv_tokens=kv_tokens,
    )
    error = roofline.ERROR_PERCENT
    unmeasured = f"no profile of this model on {pairing.gpu.product} as {pairing.sizes}"
    notes = [f"roofline estimate ±{error} %: {unmeasured}; from the data sheet and the efficiency of measured kernels"]
    if pairing.quantization is not UNQUANTIZED and pairing.quantization.changes_speed:
        notes.append(f"{pairing.quantization.method}: {pairing.quantization.basis}")
    if pairing.architecture.experts is not None:
        notes.append("every step is taken to read all experts, as it does once some dozens of sequences decode")
    return ChosenProfile(profile, "roofline", Basis.DECLARED, error, tuple(notes))
