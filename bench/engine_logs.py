"""KV cache sizes that vLLM engines logged at start, for comparison with the plan's memory arithmetic."""

from dataclasses import dataclass

from forebay.capacity.model.architecture import gib
from forebay.capacity.model.gpu_memory import Footprint, GpuMemory, Sizes, measure
from forebay.capacity.model.model_catalogue import models


@dataclass(frozen=True)
class EngineLog:
    """The memory figures in the log of one engine's start."""

    name: str
    source: str
    model: str
    """Name in the catalogue."""
    card_gib: str
    utilization_percent: int
    weights_gib: str
    """Weights as logged, including other tensors that remain after loading."""
    overhead_gib: str
    """Everything else that the log subtracts."""
    kv_tokens: int
    """Tokens of KV cache as logged."""
    exact: bool = True
    """Whether the log prints every term; if not, the overhead is the remainder."""

    def computed(self, overhead_gib: str | None = None) -> GpuMemory:
        """The memory as the plan computes it, with the log's own overhead or another one."""
        return measure(
            Footprint(
                architecture=models()[self.model].architecture,
                weight_bytes=gib(self.weights_gib),
                utilization_percent=self.utilization_percent,
                overhead_bytes=gib(overhead_gib or self.overhead_gib),
            ),
            Sizes(),
            gib(self.card_gib),
        )


LOGS = (
    EngineLog(
        name="Llama-2-7B size on an 80 GB card",
        source="vLLM log: 79.19 GiB × 0.90 − 12.55 weights − 0.16 − 2.38; 7,191 blocks of 16",
        model="Llama-2-7B",
        card_gib="79.19",
        utilization_percent=90,
        weights_gib="12.55",
        overhead_gib="2.54",
        kv_tokens=7191 * 16,
    ),
    EngineLog(
        name="Llama-3.1-8B on an H100",
        source="llm-d/llm-d-autoscaling#1198: about 412,000 tokens, 50.3 GiB; the overhead is what is left over",
        model="Llama-3.1-8B",
        card_gib="79.19",
        utilization_percent=90,
        weights_gib="14.96",
        overhead_gib="6.01",
        kv_tokens=412_000,
        exact=False,
    ),
)
