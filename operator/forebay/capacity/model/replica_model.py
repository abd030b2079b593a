"""The replica model: how much work one engine can give while it keeps its promises.

One step takes `T = a + b·P + c·B + d·K`. A request with I prompt and O answer tokens costs `s = b·I + O·(c + d·(I +
O/2))` seconds of GPU; of each second the engine may give `u` to such work: no more than keeps the time between tokens,
and no more than the sequences it can hold turn over. Everything is per engine; a replica with data parallelism is
several of them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from forebay.capacity.model.engine_profile import EngineProfile
from forebay.capacity.model.speculation import Speculation
from forebay.capacity.model.usable_share import usable_share

KV_TARGET_MARGIN: Final = 0.9
"""κ is this share of the KV target: what is planned stays below what the guards act on."""


@dataclass(frozen=True, slots=True)
class Mix:
    """What requests look like: means, and the means of products that a spread of lengths makes larger."""

    prompt_tokens: float
    output_tokens: float
    output_p95: float
    reads: float
    """Mean over requests of O × (I + O/2): KV tokens that decoding a request reads in all."""
    prompt_square: float
    """Mean of I²."""

    @property
    def tokens(self) -> float:
        return self.prompt_tokens + self.output_tokens

    @property
    def held_tokens(self) -> float:
        """KV tokens that a sequence holds on average while it decodes."""
        return self.reads / self.output_tokens

    @property
    def prompt_spread(self) -> float:
        """Variance of prompts over their squared mean; 0 for one length."""
        return max(0.0, self.prompt_square / self.prompt_tokens**2 - 1) if self.prompt_tokens else 0.0

    @staticmethod
    def fixed(prompt_tokens: float, output_tokens: float, tokens_read: Callable[[float], float] = float) -> "Mix":
        """All requests of one length; `tokens_read` says what a window leaves of a context."""
        held = tokens_read(prompt_tokens + output_tokens / 2)
        return Mix(prompt_tokens, output_tokens, output_tokens, output_tokens * held, prompt_tokens**2)

    @staticmethod
    def of(lengths: Iterable[tuple[float, float]], tokens_read: Callable[[float], float] = float) -> "Mix":
        """Of recorded requests, (prompt, answer) tokens each; at least one of them answers."""
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
    """What users are told to expect, in seconds."""

    time_to_first_token: float
    """95 of 100 requests."""
    inter_token_latency: float
    """Mean."""
    end_to_end: float | None = None
    """95 of 100 requests."""

    def inter_token_limit(self, mix: Mix) -> float:
        """ITL*: what is left between two tokens once the longest answers must end in time. Not above 0: impossible."""
        if self.end_to_end is None or mix.output_p95 <= 1:
            return self.inter_token_latency
        spread = (self.end_to_end - self.time_to_first_token) / (mix.output_p95 - 1)
        return min(self.inter_token_latency, spread)


@dataclass(frozen=True, slots=True)
class EngineModel:
    """One engine as the model sees it."""

    profile: EngineProfile
    kv_tokens: int
    max_num_seqs: int = 256
    kv_share: float = KV_TARGET_MARGIN * 0.8
    """κ: the share of the KV cache that is planned to be in use."""
    usable_share: float | None = None
    """φ, where it was measured for this engine and its traffic; None: by the mix."""
    speculation: Speculation | None = None

    @property
    def tokens_per_step(self) -> float:
        return self.speculation.tokens_per_step if self.speculation else 1.0

    @property
    def step_profile(self) -> EngineProfile:
        """Coefficients of a step with guesses in it: each costs time, and each is a token more to check."""
        guess = self.speculation
        if guess is None:
            return self.profile
        return replace(
            self.profile,
            step_seconds=self.profile.step_seconds * guess.step_factor,
            sequence_seconds=self.profile.sequence_seconds * guess.checked,
        )


class Bound(StrEnum):
    """What an engine runs out of first."""

    ITL = "ITL"
    """The time between tokens."""
    KV = "KV"
    """Room in the KV cache."""
    SEQUENCES = "sequences"
    """The engine's own limit on sequences."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What one engine can carry of a mix within a promise."""

    work_seconds: float
    """s: seconds of GPU that one request costs."""
    usable: float
    """u: share of each second that may go to such work."""
    bound: Bound
    latency_share: float
    """φ·(1 − a/ITL*); not above 0 when a step without any work already takes too long."""
    memory_share: float
    """s·Bmax / (O·a + s·Bmax)."""
    inter_token_limit: float
    """ITL*, seconds."""
    most_sequences: float
    """Bmax."""
    tokens: float
    """Of one request."""
    usable_share: float
    """φ."""

    @property
    def requests_per_second(self) -> float:
        return self.usable / self.work_seconds

    @property
    def tokens_per_minute(self) -> float:
        return 60 * self.tokens * self.requests_per_second


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """What an engine does at a rate it can carry."""

    step_seconds: float
    token_seconds: float
    """Mean time between two tokens of an answer."""
    sequences: float
    """That decode at once."""
    kv_tokens: float
    """That they hold."""


def prompt_seconds(engine: EngineModel, mix: Mix) -> float:
    """What a prompt adds to the steps that compute it."""
    step = engine.step_profile
    return step.prompt_token_seconds * mix.prompt_tokens + step.prompt_square_seconds * mix.prompt_square


def work_seconds(engine: EngineModel, mix: Mix) -> float:
    """s: with speculation a request takes fewer steps, and each is dearer."""
    step = engine.step_profile
    prefill = prompt_seconds(engine, mix)
    decode = step.sequence_seconds * mix.output_tokens + step.kv_token_seconds * mix.reads
    return prefill + decode / engine.tokens_per_step


def capacity(engine: EngineModel, mix: Mix, promise: Promise) -> Capacity:
    """What the engine can carry; `usable` is not above 0 when the promise cannot be kept at all."""
    step = engine.step_profile
    work = work_seconds(engine, mix)
    limit = promise.inter_token_limit(mix)
    share = _usable_share(engine, mix, limit)
    latency = share * (1 - step.step_seconds / (limit * engine.tokens_per_step)) if limit > 0 else 0.0
    held = engine.kv_share * engine.kv_tokens / mix.held_tokens
    sequences = min(engine.max_num_seqs, held)
    busy = work * sequences
    idle = mix.output_tokens / engine.tokens_per_step * step.step_seconds
    memory = busy / (idle + busy)
    full = Bound.KV if held <= engine.max_num_seqs else Bound.SEQUENCES
    return Capacity(
        work_seconds=work,
        usable=min(latency, memory),
        bound=Bound.ITL if latency <= memory else full,
        latency_share=latency,
        memory_share=memory,
        inter_token_limit=limit,
        most_sequences=sequences,
        tokens=mix.tokens,
        usable_share=share,
    )


def _usable_share(engine: EngineModel, mix: Mix, limit: float) -> float:
    """φ: the time between tokens of nearly every request, not of the average one, within the limit."""
    if engine.usable_share is not None:
        return engine.usable_share
    step, step_limit = engine.step_profile, limit * engine.tokens_per_step
    answered = work_seconds(engine, mix) * mix.output_tokens / engine.tokens_per_step
    if step_limit <= 0 or answered <= 0:
        return 0.0
    prompt = step.prompt_token_seconds * mix.prompt_tokens
    return usable_share(prompt**2 / (answered * step_limit), step.step_seconds / step_limit, mix.prompt_spread)


def load(engine: EngineModel, mix: Mix, requests_per_second: float) -> EngineLoad:
    """`T = a / (1 − λ·s)`. Raises ValueError for a rate whose work does not fit into a second."""
    busy = requests_per_second * work_seconds(engine, mix)
    if busy >= 1:
        raise ValueError(f"{requests_per_second} requests a second are {busy} seconds of work in each; less than 1 fit")
    step = engine.step_profile.step_seconds / (1 - busy)
    token = step / engine.tokens_per_step
    sequences = requests_per_second * mix.output_tokens * token
    return EngineLoad(
        step_seconds=step, token_seconds=token, sequences=sequences, kv_tokens=sequences * mix.held_tokens
    )


def batched_tokens(engine: EngineModel, mix: Mix, promise: Promise, most: int) -> int:
    """`--max-num-batched-tokens`: what one step may compute of prompts while everyone else's next token stays in time.

    At the planned load (B sequences, K tokens held) that is (ITL − a − c·B − d·K)/b, at most vLLM's own default and
    never below max_num_seqs, which vLLM requires.
    """
    planned = capacity(engine, mix, promise)
    at = load(engine, mix, planned.requests_per_second)
    step = engine.step_profile
    limit = planned.inter_token_limit * engine.tokens_per_step
    left = limit - step.step_seconds - step.sequence_seconds * at.sequences - step.kv_token_seconds * at.kv_tokens
    prompt = step.prompt_token_seconds
    room = int(left / prompt) if prompt > 0 else most
    return max(engine.max_num_seqs, min(most, room))
