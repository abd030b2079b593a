"""Builders for the specs of services to plan."""

from typing import Any

from forebay.api.inference_service import InferenceServiceSpec

H100 = "NVIDIA-H100-80GB-HBM3"
LLAMA_8B = "hf://meta-llama/Llama-3.1-8B-Instruct"
LLAMA_70B = "hf://meta-llama/Llama-3.1-70B-Instruct"
LLAMA_2_7B = "hf://meta-llama/Llama-2-7b-hf"
RPS_100 = 100 * 30 * 24 * 3600
"""Requests per month at a rate of 100 per second."""


def traffic(
    requests: int = RPS_100, peak: float = 1, prompt: int = 500, output: int = 200, headroom: float = 1
) -> dict[str, Any]:
    return {
        "requestsPerMonth": requests,
        "peakFactor": peak,
        "promptTokens": prompt,
        "outputTokens": output,
        "headroom": headroom,
    }


def a_spec(source: str = LLAMA_8B, product: str | None = H100, /, **blocks: Any) -> InferenceServiceSpec:
    """The spec of a service with 100 requests per second and no headroom; a block of None is left out."""
    model = {"source": source} | blocks.pop("model", {})
    gpu = {"product": product} if product else {}
    filled = {"model": model, "gpu": gpu, "traffic": traffic()} | blocks
    return InferenceServiceSpec.model_validate({key: block for key, block in filled.items() if block is not None})
