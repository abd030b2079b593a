"""Published measurements, and what the replica model computes for them.

A row is `fitted` if the profile's coefficients were chosen to match it; its error may be 5 %. All other rows are
predictions, whose error may be 25 %. Rows whose load is not published are listed with the reason instead of a guess.
"""

from dataclasses import dataclass

from forebay.capacity.model.engine_profile import BUILT_IN
from forebay.capacity.model.expected_latency import expected_latency
from forebay.capacity.model.replica_model import EngineModel, Mix, load

FITTED, PREDICTED = 0.05, 0.25
DEFAULT_CHUNK = 8192


@dataclass(frozen=True)
class Figures:
    """The figures of a load tool whose streams each send their next request when the last one is done."""

    requests_per_second: float
    tokens_per_second: float
    first_token_ms: float
    token_ms: float


@dataclass(frozen=True)
class Row:
    """One published figure, and the load at which it was measured."""

    name: str
    profile: str
    streams: int
    prompt: int
    output: int
    figure: str
    """Name of the field of `Figures`."""
    published: float
    fitted: bool
    source: str

    @property
    def model(self) -> float:
        value: float = getattr(closed_loop(self.profile, self.streams, self.prompt, self.output), self.figure)
        return value

    @property
    def error(self) -> float:
        return self.model / self.published - 1

    @property
    def within(self) -> float:
        return FITTED if self.fitted else PREDICTED


@dataclass(frozen=True)
class Unmodelled:
    """A published measurement that cannot be computed, and why."""

    name: str
    published: str
    why: str


def closed_loop(profile: str, streams: int, prompt: int, output: int) -> Figures:
    """The figures at the rate that this number of streams produces; the rate is found by bisection.

    A request of one stream meets only the other streams, so its first token waits as at the rate of one stream less.
    """
    entry = BUILT_IN[profile].profile
    engine, mix = EngineModel(entry, entry.kv_tokens, max_num_seqs=1024), Mix.fixed(prompt, output)
    low, high = 0.0, 0.999 / entry.work_seconds(prompt, output)
    for _ in range(60):
        rate = (low + high) / 2
        seconds = _first_token(engine, mix, rate, streams) + (output - 1) * load(engine, mix, rate).token_seconds
        low, high = (rate, high) if rate * seconds < streams else (low, rate)
    return Figures(
        requests_per_second=low,
        tokens_per_second=low * output,
        first_token_ms=_first_token(engine, mix, low, streams) * 1000,
        token_ms=load(engine, mix, low).token_seconds * 1000,
    )


def _first_token(engine: EngineModel, mix: Mix, rate: float, streams: int) -> float:
    others = max(rate * (streams - 1) / streams, 1e-9)
    return expected_latency(engine, mix, others, DEFAULT_CHUNK).first_token_p50


_WVA = "tutorial of llm-d's workload-variant-autoscaler, 128 + 128 tokens; the GPU is not named"
_A100 = "sweep of vLLM 0.23, 1,024 + 128 tokens, on an A100 of 40 GB"
_REAL = "vLLM 0.15.1, lowest load"
ROWS = (
    Row("8B, H100, 1 stream, tokens/s", "8b-h100", 1, 128, 128, "tokens_per_second", 140.7, True, _WVA),
    Row("8B, H100, 1 stream, TTFT ms", "8b-h100", 1, 128, 128, "first_token_ms", 15.0, True, _WVA),
    Row("8B, H100, 1 stream, ITL ms", "8b-h100", 1, 128, 128, "token_ms", 7.0, True, _WVA),
    Row("8B, H100, 64 streams, requests/s", "8b-h100", 64, 128, 128, "requests_per_second", 56.65, True, _WVA),
    Row("8B, H100, 64 streams, tokens/s", "8b-h100", 64, 128, 128, "tokens_per_second", 7252, True, _WVA),
    Row("8B, H100, 64 streams, TTFT ms", "8b-h100", 64, 128, 128, "first_token_ms", 26.0, False, _WVA),
    Row("8B, H100, 64 streams, ITL ms", "8b-h100", 64, 128, 128, "token_ms", 8.7, True, _WVA),
    Row("8B, A100, 1 stream, tokens/s", "8b-a100", 1, 1024, 128, "tokens_per_second", 75, True, _A100),
    Row("8B, A100, 8 streams, tokens/s", "8b-a100", 8, 1024, 128, "tokens_per_second", 6.6 * 75, False, _A100),
    Row("70B, 4 H100, ITL ms", "70b-h100-tp4", 1, 500, 128, "token_ms", 17.1, False, _REAL),
)
UNMODELLED = (
    Unmodelled(
        "70B, 4 H100, other than the lowest ITL",
        "ITL up to 20.4 ms, TTFT 52 to 60 ms, p99 66 to 88 ms",
        "neither the loads nor the lengths of prompts are published",
    ),
    Unmodelled("Qwen2.5-7B, H100", "ITL 7.0 ms, TTFT 26.7 ms", "neither load nor prompt lengths are published"),
    Unmodelled(
        "Qwen3-32B, one replica, 1,000 + 1,000 tokens",
        "knee at 2 requests/s, peak of 1,901 tokens/s",
        "neither the GPU nor the parallel sizes are published",
    ),
    Unmodelled(
        "Llama-2-70B, 4 H100 (Splitwise)",
        "29.7 ms a token at batch 1, 36.9 at 32, 52.4 at 64",
        "an older engine, whose step takes twice as long as today's",
    ),
)
