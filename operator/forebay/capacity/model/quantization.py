"""Quantization: how many bits a weight has, and what that is known to do to the speed of an engine."""

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
"""Of each step, what no kernel takes: launches, sampling, the scheduler (1 to 2 ms beside measured kernels)."""
FULL_BITS: Final = 16


class MethodRecord(BaseModel):
    """One entry of `data/quantization.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, alias_generator=to_camel)

    method: Annotated[str, Field(min_length=1)]
    """As `model.quantization` names it."""
    bits: Annotated[int, Field(ge=2, le=16)] | None
    """Bits per weight; None: the method does not say."""
    weight_efficiency: Annotated[float, Field(gt=0, le=1)]
    """How near its kernels come to the bandwidth that 16-bit kernels reach."""
    compute_bits: Annotated[int, Field(ge=4, le=16)]
    """Width of the operands that are multiplied."""
    compute_efficiency: Annotated[float, Field(gt=0, le=1)]
    """How near its kernels come to the share of peak operations that 16-bit kernels reach."""
    measured: bool
    basis: Annotated[str, Field(min_length=1)]
    """What the efficiencies rest on."""


class MethodsFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    methods: list[MethodRecord]


@dataclass(frozen=True, slots=True)
class Quantization:
    """Weights of `bits`, and the efficiency of their kernels beside those for 16 bits."""

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
    """By the name that `model.quantization` uses."""
    text = (DATA / "quantization.json").read_text(encoding="utf-8")
    return {record.method: record for record in MethodsFile.model_validate(json.loads(text)).methods}


def quantization_of(method: str | None, checkpoint_bits: int | None, stated_bits: int | None) -> Quantization | None:
    """What `model.quantization` means; None when nothing says how many bits a weight has.

    `checkpoint_bits` are those of the catalogue or a config.json, `stated_bits` those of `model.architecture`, which
    win. Without a method the checkpoint decides: 8 bits are taken for fp8 and fewer for 4-bit weights of 16-bit
    operands, which is how nearly all of them are served.
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
    """The profile of an engine with 16-bit weights, carried over to quantized ones.

    The weights are read faster by their bits and the kernels' efficiency; prompts and sequences are computed faster
    where the card has operations for operands as narrow as theirs.
    """
    reading = quantization.bits / FULL_BITS / quantization.weight_efficiency
    computing = gpu.flops_at(FULL_BITS) / gpu.flops_at(quantization.compute_bits) / quantization.compute_efficiency
    weights = max(0.0, profile.step_seconds - HOST_SECONDS)
    return replace(
        profile,
        step_seconds=profile.step_seconds - weights + weights * reading,
        prompt_token_seconds=profile.prompt_token_seconds * computing,
        sequence_seconds=profile.sequence_seconds * computing,
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
