"""The replica model: how much traffic one engine can carry within its latency promises.

A step that computes P prompt tokens and decodes B sequences over K tokens of KV cache takes `T = a + b·P + c·B + d·K`.
A request with I prompt and O answer tokens costs `s = b·I + O·(c + d·(I + O/2))` GPU seconds. `u` is the share of each
second that the engine may spend on such work. The time between tokens limits it, and so does the number of sequences
that the engine can hold. All values are per engine; a replica with data parallelism has several engines.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from forebay.capacity.model.engine_profile import EngineProfile
from forebay.capacity.model.speculation import Speculation
from forebay.capacity.model.usable_share import usable_share

KV_TARGET_MARGIN: Final = 0.9
"""κ, the planned share of the KV cache, is this share of the guards' KV target, so that plans stay below it."""


@dataclass(frozen=True, slots=True)
class Mix:
    """The lengths of requests: means, and means of products, which are larger for lengths that differ."""

    prompt_tokens: float
    output_tokens: float
    output_p95: float
    reads: float
    """KV tokens that decoding one request reads in total: the mean over requests of O × (I + O/2)."""
    prompt_square: float
    """Mean of I² over requests."""

    @property
    def tokens(self) -> float:
        return self.prompt_tokens + self.output_tokens

    @property
    def held_tokens(self) -> float:
        """KV tokens that a sequence holds on average while it decodes."""
        return self.reads / self.output_tokens

    @property
    def prompt_spread(self) -> float:
        """Variance of prompt lengths over their squared mean; 0 if all have the same length."""
        return max(0.0, self.prompt_square / self.prompt_tokens**2 - 1) if self.prompt_tokens else 0.0

    @staticmethod
    def fixed(prompt_tokens: float, output_tokens: float, tokens_read: Callable[[float], float] = float) -> "Mix":
        """The mix of requests of one length; `tokens_read` gives the part of a context that attention windows cover."""
        tokens = tokens_read(prompt_tokens + output_tokens / 2)
        return Mix(prompt_tokens, output_tokens, output_tokens, output_tokens * tokens, prompt_tokens**2)

    @staticmethod
    def of(lengths: Iterable[tuple[float, float]], tokens_read: Callable[[float], float] = float) -> "Mix":
        """The mix of recorded requests, given as (prompt, answer) tokens; at least one of them has an answer."""
        pairs = [(prompt, output) for prompt, output in lengths if output > 0]
        count = len(pairs)
        outputs = sorted(output for _, output in pairs)
        return Mix(
            prompt_tokens=sum(prompt for prompt, _ in pairs) / count,
            output_tokens=sum(outputs) / count,
            output_p95=outputs[min(count - 1, int(0.95 * count))],
            reads=sum(output * tokens_read(prompt + output / 2) for prompt, output in pairs) / count,
            prompt_square=sum(prompt**2 for prompt, _ in pairs) / count,
        )


@dataclass(frozen=True, slots=True)
class Promise:
    """The latency targets of a service's SLO, in seconds."""

    time_to_first_token: float
    """Kept by 95 of 100 requests."""
    inter_token_latency: float
    """Mean time between tokens."""
    end_to_end: float | None = None
    """Kept by 95 of 100 requests."""

    def inter_token_limit(self, mix: Mix) -> float:
        """ITL*: the limit of the time between tokens, lowered so that the longest answers end in time. The promise is
        impossible to keep if it is not above 0."""
        if self.end_to_end is None or mix.output_p95 <= 1:
            return self.inter_token_latency
        spread = (self.end_to_end - self.time_to_first_token) / (mix.output_p95 - 1)
        return min(self.inter_token_latency, spread)


@dataclass(frozen=True, slots=True)
class EngineModel:
    """The properties of one engine that the model needs."""

    profile: EngineProfile
    kv_tokens: int
    max_num_seqs: int = 256
    kv_share: float = KV_TARGET_MARGIN * 0.8
    """κ: the share of the KV cache that plans use."""
    usable_share: float | None = None
    """φ, the usable share of the mean-value capacity, if it was measured for this engine and its traffic; None: the
    mix of requests determines it."""
    speculation: Speculation | None = None

    @property
    def tokens_per_step(self) -> float:
        return self.speculation.tokens_per_step if self.speculation else 1.0

    @property
    def step_profile(self) -> EngineProfile:
        """Coefficients of a step with speculation: each guess costs time and adds a token to check."""
        guess = self.speculation
        if guess is None:
            return self.profile
        return replace(
            self.profile,
            step_seconds=self.profile.step_seconds * guess.step_factor,
            sequence_seconds=self.profile.sequence_seconds * guess.checked,
        )


class Bound(StrEnum):
    """The limit that an engine reaches first."""

    ITL = "ITL"
    """The time between tokens."""
    KV = "KV"
    """The size of the KV cache."""
    SEQUENCES = "sequences"
    """The engine's own limit on sequences."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """The traffic of a mix that one engine can carry within a promise."""

    work_seconds: float
    """s: GPU seconds that one request costs."""
    usable: float
    """u: the share of each second that the engine may spend on requests."""
    bound: Bound
    latency_share: float
    """Upper limit of u by the time between tokens: φ·(1 − a/ITL*). Not above 0 if an empty step takes too long."""
    memory_share: float
    """Upper limit of u by the number of sequences: s·Bmax / (O·a + s·Bmax)."""
    inter_token_limit: float
    """ITL*: the limit of the time between tokens, in seconds."""
    most_sequences: float
    """Bmax: the number of sequences that the engine holds at once."""
    tokens: float
    """Tokens of one request."""
    usable_share: float
    """φ: the usable share of the mean-value capacity."""

    @property
    def requests_per_second(self) -> float:
        return self.usable / self.work_seconds

    @property
    def tokens_per_minute(self) -> float:
        return 60 * self.tokens * self.requests_per_second


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """The state of an engine at a rate of requests that it can carry."""

    step_seconds: float
    token_seconds: float
    """Mean time between two tokens of an answer."""
    sequences: float
    """Sequences that decode at once."""
    kv_tokens: float
    """KV tokens that these sequences hold."""


def prompt_seconds(engine: EngineModel, mix: Mix) -> float:
    """Seconds that one prompt adds to the steps that compute it."""
    step = engine.step_profile
    return step.prompt_token_seconds * mix.prompt_tokens + step.prompt_square_seconds * mix.prompt_square


def work_seconds(engine: EngineModel, mix: Mix) -> float:
    """s: GPU seconds of one request. With speculation it takes fewer steps, each of which costs more."""
    step = engine.step_profile
    prefill = prompt_seconds(engine, mix)
    decode = step.sequence_seconds * mix.output_tokens + step.kv_token_seconds * mix.reads
    return prefill + decode / engine.tokens_per_step


def capacity(engine: EngineModel, mix: Mix, promise: Promise) -> Capacity:
    """The traffic that the engine can carry; `usable` is 0 or less if the promise cannot be kept at all."""
    step = engine.step_profile
    work = work_seconds(engine, mix)
    limit = promise.inter_token_limit(mix)
    share = _usable_share(engine, mix, limit)
    latency_share = share * (1 - step.step_seconds / (limit * engine.tokens_per_step)) if limit > 0 else 0.0
    sequences_in_cache = engine.kv_share * engine.kv_tokens / mix.held_tokens
    sequences = min(engine.max_num_seqs, sequences_in_cache)
    busy = work * sequences
    idle = mix.output_tokens / engine.tokens_per_step * step.step_seconds
    memory_share = busy / (idle + busy)
    memory_bound = Bound.KV if sequences_in_cache <= engine.max_num_seqs else Bound.SEQUENCES
    return Capacity(
        work_seconds=work,
        usable=min(latency_share, memory_share),
        bound=Bound.ITL if latency_share <= memory_share else memory_bound,
        latency_share=latency_share,
        memory_share=memory_share,
        inter_token_limit=limit,
        most_sequences=sequences,
        tokens=mix.tokens,
        usable_share=share,
    )


def _usable_share(engine: EngineModel, mix: Mix, limit: float) -> float:
    """φ: the share of the mean-value capacity at which nearly every request, not only the average one, keeps the
    limit."""
    if engine.usable_share is not None:
        return engine.usable_share
    step, step_limit = engine.step_profile, limit * engine.tokens_per_step
    work_times_steps = work_seconds(engine, mix) * mix.output_tokens / engine.tokens_per_step
    if step_limit <= 0 or work_times_steps <= 0:
        return 0.0
    prompt = step.prompt_token_seconds * mix.prompt_tokens
    return usable_share(prompt**2 / (work_times_steps * step_limit), step.step_seconds / step_limit, mix.prompt_spread)


def load(engine: EngineModel, mix: Mix, requests_per_second: float) -> EngineLoad:
    """The load at λ requests per second, by `T = a / (1 − λ·s)`. Raises ValueError if λ·s is not below 1."""
    busy = requests_per_second * work_seconds(engine, mix)
    if busy >= 1:
        raise ValueError(f"{requests_per_second} requests per second need {busy} GPU seconds per second; use fewer")
    step = engine.step_profile.step_seconds / (1 - busy)
    token = step / engine.tokens_per_step
    sequences = requests_per_second * mix.output_tokens * token
    return EngineLoad(
        step_seconds=step, token_seconds=token, sequences=sequences, kv_tokens=sequences * mix.held_tokens
    )


def batched_tokens(engine: EngineModel, mix: Mix, promise: Promise, most: int) -> int:
    """`--max-num-batched-tokens`: the prompt tokens of a step that leave every other sequence's next token in time.

    At the planned load (B sequences that hold K tokens) these are (ITL* − a − c·B − d·K)/b, at most `most` and never
    below max_num_seqs, which vLLM requires.
    """
    planned = capacity(engine, mix, promise)
    planned_load = load(engine, mix, planned.requests_per_second)
    step = engine.step_profile
    limit = planned.inter_token_limit * engine.tokens_per_step
    decoding = step.sequence_seconds * planned_load.sequences
    kv_reads = step.kv_token_seconds * planned_load.kv_tokens
    remaining = limit - step.step_seconds - decoding - kv_reads
    prompt_token = step.prompt_token_seconds
    prompt_tokens = int(remaining / prompt_token) if prompt_token > 0 else most
    return max(engine.max_num_seqs, min(most, prompt_tokens))
