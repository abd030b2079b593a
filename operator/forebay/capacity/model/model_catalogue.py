"""The catalogue: models by the source of their weights, and GPUs by the product label of their nodes.

Both are data files in `data/`; the record classes are their schema. Each figure names its source.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from forebay.capacity.model.architecture import Architecture, Experts, Mla, SlidingWindow, gib
from forebay.capacity.model.engine_profile import DATA

PRODUCT_LABELS: Final = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "beta.amd.com/gpu.product-name")
"""Node labels with the GPU's product name, set by the vendors' feature discovery."""
_SHARED: Final = "-SHARED"
"""Suffix that GPU feature discovery adds to the product of a time-sliced GPU; the card is the same."""

_Positive = Annotated[int, Field(gt=0)]
_Number = Annotated[float, Field(gt=0)]
_Text = Annotated[str, Field(min_length=1)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, alias_generator=to_camel)


class MlaRecord(_Record):
    kv_lora_rank: _Positive
    rope_dim: _Positive


class SlidingWindowRecord(_Record):
    size: _Positive
    layers: _Positive


class ExpertsRecord(_Record):
    count: _Positive
    active: _Positive


class ModelRecord(_Record):
    """One entry of `data/models.json`."""

    name: _Text
    sources: Annotated[list[Annotated[str, Field(pattern=r"^[^/]+/[^/]+$")]], Field(min_length=1)]
    """Repositories on the model hub, organization/name."""
    parameters: _Positive
    """Exact number of parameters, counted from the shapes."""
    nominal_parameters: _Positive
    """Number of parameters in the model's name."""
    active_parameters: _Positive | None = None
    layers: _Positive
    attention_heads: _Positive
    kv_heads: _Positive
    head_dim: _Positive
    hidden_size: _Positive
    mla: MlaRecord | None = None
    sliding_window: SlidingWindowRecord | None = None
    experts: ExpertsRecord | None = None
    context_tokens: _Positive
    bits: Annotated[int, Field(ge=2, le=32)]
    """Bits per weight in the checkpoint."""
    shapes_from: _Text


class GpuRecord(_Record):
    """One entry of `data/gpus.json`."""

    name: _Text
    products: Annotated[list[_Text], Field(min_length=1)]
    """Values of the product label."""
    nominal_gigabytes: _Positive
    memory_gib: _Number
    memory_from: _Text
    bandwidth_terabytes_per_second: _Number
    dense_teraflops: dict[Annotated[str, Field(pattern="^(4|8|16)$")], _Number]
    """Teraflops by bits of the operands, without sparsity. The GPU has no fast path for a precision that is missing."""
    speed_from: _Text


class ModelsFile(_Record):
    models: list[ModelRecord]


class GpusFile(_Record):
    gpus: list[GpuRecord]


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """A model of the catalogue."""

    name: str
    architecture: Architecture
    nominal_parameters: int
    bits: int
    """Bits per weight in the checkpoint."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of the catalogue."""

    name: str
    product: str
    """Value of the nodes' product label; the first one, if several are in use."""
    nominal_bytes: int
    memory_bytes: int
    """Memory that an engine finds, which is less than the nominal memory."""
    bandwidth: float
    """Memory bandwidth in bytes per second."""
    flops: Mapping[int, float]
    """Dense operations per second, by bits of the operands."""

    @property
    def vendor(self) -> str:
        return "AMD" if self.product.startswith("AMD") else "NVIDIA"

    def flops_at(self, bits: int) -> float:
        """Operations per second with operands of this many bits, or with wider operands if those are the fastest."""
        return max(rate for width, rate in self.flops.items() if width >= bits)


@cache
def models() -> Mapping[str, CatalogueModel]:
    """The models by name."""
    records = ModelsFile.model_validate(_load("models.json")).models
    return {record.name: _model(record) for record in records}


@cache
def gpus() -> Mapping[str, Gpu]:
    """The GPUs by name."""
    records = GpusFile.model_validate(_load("gpus.json")).gpus
    return {record.name: _gpu(record) for record in records}


def model_of(source: str) -> CatalogueModel | None:
    """The model of an `hf://organization/name[@revision]` source; case does not matter on the hub."""
    repository = _repository(source)
    return _by_source().get(repository) if repository else None


def models_like(source: str) -> list[str]:
    """Known sources that are similar to a mistyped one, best first."""
    repository = _repository(source)
    similar = get_close_matches(repository, _by_source(), n=2, cutoff=0.8) if repository else []
    return [f"hf://{_spelling()[name]}" for name in similar]


def gpu_of(product: str) -> Gpu | None:
    """The GPU with this value of the product label."""
    return _by_product().get(product.removesuffix(_SHARED))


def product_of(labels: Mapping[str, str]) -> str | None:
    """The GPU product in a set of node labels."""
    return next((labels[label] for label in PRODUCT_LABELS if label in labels), None)


def larger_than(card: Gpu) -> Iterable[Gpu]:
    """GPUs with more memory: those of the same vendor first, then by memory, then the faster first."""
    larger = [gpu for gpu in gpus().values() if gpu.memory_bytes > card.memory_bytes]
    return sorted(larger, key=lambda gpu: (gpu.vendor != card.vendor, gpu.memory_bytes, -gpu.bandwidth))


def faster_than(card: Gpu) -> Iterable[Gpu]:
    """GPUs with more bandwidth and no less memory: those of the same vendor first, then the slowest first."""
    faster = [
        gpu for gpu in gpus().values() if gpu.bandwidth > card.bandwidth and gpu.memory_bytes >= card.memory_bytes
    ]
    return sorted(faster, key=lambda gpu: (gpu.vendor != card.vendor, gpu.bandwidth))


def _load(name: str) -> object:
    return json.loads((DATA / name).read_text(encoding="utf-8"))


def _repository(source: str) -> str | None:
    if not source.startswith("hf://"):
        return None
    return source.removeprefix("hf://").partition("@")[0].casefold()


@cache
def _by_source() -> Mapping[str, CatalogueModel]:
    records = ModelsFile.model_validate(_load("models.json")).models
    return {source.casefold(): models()[record.name] for record in records for source in record.sources}


@cache
def _spelling() -> Mapping[str, str]:
    records = ModelsFile.model_validate(_load("models.json")).models
    return {source.casefold(): source for record in records for source in record.sources}


@cache
def _by_product() -> Mapping[str, Gpu]:
    records = GpusFile.model_validate(_load("gpus.json")).gpus
    return {product: gpus()[record.name] for record in records for product in record.products}


def _model(record: ModelRecord) -> CatalogueModel:
    window, mla, experts = record.sliding_window, record.mla, record.experts
    return CatalogueModel(
        name=record.name,
        architecture=Architecture(
            parameters=record.parameters,
            active_parameters=record.active_parameters,
            layers=record.layers,
            attention_heads=record.attention_heads,
            kv_heads=record.kv_heads,
            head_dim=record.head_dim,
            hidden_size=record.hidden_size,
            mla=Mla(mla.kv_lora_rank, mla.rope_dim) if mla else None,
            sliding_window=SlidingWindow(window.size, window.layers) if window else None,
            experts=Experts(experts.count, experts.active) if experts else None,
            context_tokens=record.context_tokens,
        ),
        nominal_parameters=record.nominal_parameters,
        bits=record.bits,
    )


def _gpu(record: GpuRecord) -> Gpu:
    return Gpu(
        name=record.name,
        product=record.products[0],
        nominal_bytes=record.nominal_gigabytes * 10**9,
        memory_bytes=gib(record.memory_gib),
        bandwidth=record.bandwidth_terabytes_per_second * 1e12,
        flops={int(bits): teraflops * 1e12 for bits, teraflops in record.dense_teraflops.items()},
    )
