"""Quantization: how many bits a weight has, and how that changes the speed of an engine."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from forebay.capacity.model.engine_profile import DATA, EngineProfile
from forebay.capacity.model.model_catalogue import Gpu

HOST_SECONDS: Final = 0.001
"""Time of each step outside kernels: launches, sampling and the scheduler (1 to 2 ms beside measured kernels)."""
FULL_BITS: Final = 16


class MethodRecord(BaseModel):
    """One entry of `data/quantization.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, alias_generator=to_camel)

    method: Annotated[str, Field(min_length=1)]
    """Name of the method in `model.quantization`."""
    bits: Annotated[int, Field(ge=2, le=16)] | None
    """Bits per weight; None if the method allows several."""
    weight_efficiency: Annotated[float, Field(gt=0, le=1)]
    """Bandwidth that the method's kernels reach, as a share of what 16-bit kernels reach."""
    compute_bits: Annotated[int, Field(ge=4, le=16)]
    """Width of the operands that are multiplied."""
    compute_efficiency: Annotated[float, Field(gt=0, le=1)]
    """Share of peak operations that the method's kernels reach, relative to 16-bit kernels."""
    measured: bool
    basis: Annotated[str, Field(min_length=1)]
    """Source of the efficiencies."""


class MethodsFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    methods: list[MethodRecord]


@dataclass(frozen=True, slots=True)
class Quantization:
    """Weights of `bits`, and the efficiency of their kernels relative to 16-bit kernels."""

    method: str
    bits: int
    weight_efficiency: float = 1.0
    compute_bits: int = FULL_BITS
    compute_efficiency: float = 1.0
    measured: bool = True
    basis: str = "weights as they were trained"

    @property
    def changes_speed(self) -> bool:
        return self.method != "none"


UNQUANTIZED: Final = Quantization("none", FULL_BITS)


@cache
def methods() -> Mapping[str, MethodRecord]:
    """The methods by their name in `model.quantization`."""
    text = (DATA / "quantization.json").read_text(encoding="utf-8")
    return {record.method: record for record in MethodsFile.model_validate(json.loads(text)).methods}


def quantization_of(method: str | None, checkpoint_bits: int | None, stated_bits: int | None) -> Quantization | None:
    """The quantization of a service; None if the bits per weight are unknown.

    `method` is the value of `model.quantization`. `stated_bits` from `model.architecture` take precedence over
    `checkpoint_bits` from the catalogue or a config.json. Without a method the checkpoint decides: 8 bits count as fp8,
    and fewer bits as 4-bit weights with 16-bit operands, which is how nearly all of them are served.
    """
    if method == "none":
        return UNQUANTIZED
    if method is None:
        bits = stated_bits or checkpoint_bits
        if bits is None:
            return None
        if bits >= FULL_BITS:
            return replace(UNQUANTIZED, bits=bits)
        return replace(_from(methods()["fp8" if bits == 8 else "awq"], bits), method=f"{bits}-bit checkpoint")
    record = methods()[method]
    bits = stated_bits or record.bits
    return None if bits is None else _from(record, bits)


def quantized(profile: EngineProfile, quantization: Quantization, gpu: Gpu) -> EngineProfile:
    """The profile of an engine with 16-bit weights, carried over to quantized weights.

    The time to read the weights is scaled by their bits and the kernels' efficiency. The time to compute prompts and
    sequences is scaled by the GPU's speed for operands of the method's width and by the kernels' efficiency.
    """
    read_factor = quantization.bits / FULL_BITS / quantization.weight_efficiency
    compute_factor = gpu.flops_at(FULL_BITS) / gpu.flops_at(quantization.compute_bits) / quantization.compute_efficiency
    weight_seconds = max(0.0, profile.step_seconds - HOST_SECONDS)
    return replace(
        profile,
        step_seconds=profile.step_seconds - weight_seconds + weight_seconds * read_factor,
        prompt_token_seconds=profile.prompt_token_seconds * compute_factor,
        sequence_seconds=profile.sequence_seconds * compute_factor,
    )


def _from(record: MethodRecord, bits: int) -> Quantization:
    return Quantization(
        method=record.method,
        bits=bits,
        weight_efficiency=record.weight_efficiency,
        compute_bits=record.compute_bits,
        compute_efficiency=record.compute_efficiency,
        measured=record.measured,
        basis=record.basis,
    )
