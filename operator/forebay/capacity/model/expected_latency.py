"""Latency: what requests are expected to see at a load, from the steps they have to wait for.

A request waits for the rest of the step under way; then its prompt is computed in the steps after it, together with
prompts that came meanwhile, as far as one step may compute prompts at all; and before that it waits for a place in the
batch when all are taken. The median is that of the usual load. The slowest 5 % are those of a spell in which prompts
are computed without a break: then every step is a long one, answers stay longer, more of them decode at once, and
prompts take longer again. Held against the simulated engine in docs/capacity.md.
"""

from dataclasses import dataclass
from math import erf, exp, log, pi, sqrt
from typing import Final

from forebay.capacity.model.replica_model import EngineLoad, EngineModel, Mix, load, prompt_seconds, work_seconds

_Z_P95: Final = 1.6449
"""How many standard deviations above the mean 95 % of a normal spread lie."""
_FULL: Final = 0.999
"""A queue is never taken to be busier than this: beyond it there is no steady state to speak of."""
_SETTLED: Final = 1e-3
"""Sequences in a busy spell are found to this share of themselves."""
_ROUNDS: Final = 60


@dataclass(frozen=True, slots=True)
class ExpectedLatency:
    """Seconds."""

    first_token_p50: float
    first_token_p95: float
    inter_token_mean: float
    end_to_end_mean: float
    end_to_end_p95: float


@dataclass(frozen=True, slots=True)
class Spread:
    """A time as far as sums of times go."""

    mean: float
    variance: float

    def __add__(self, other: "Spread") -> "Spread":
        return Spread(self.mean + other.mean, self.variance + other.variance)

    def quantiles(self) -> tuple[float, float]:
        """Median and 95 %, of a lognormal."""
        squared = 1 + self.variance / self.mean**2
        median = self.mean / sqrt(squared)
        return median, median * exp(_Z_P95 * sqrt(log(squared)))


@dataclass(frozen=True, slots=True)
class Wait:
    """In a queue: with some chance at all, and then exponentially long."""

    chance: float
    tail: float
    """Seconds, mean of those who wait."""

    @property
    def spread(self) -> Spread:
        return Spread(self.chance * self.tail, self.chance * (2 - self.chance) * self.tail**2)

    @property
    def p95(self) -> float:
        return self.tail * log(max(1.0, self.chance / 0.05))


@dataclass(frozen=True, slots=True)
class Prefill:
    """From arrival to the first token of a request that finds a place."""

    alone: Spread
    """Without prompts before it."""
    together: Spread
    """What prompts add that came in the same step."""
    queue: Wait
    """Behind prompts that do not fit into one step with it."""

    @property
    def spread(self) -> Spread:
        """Who shares a step is not also queued for."""
        queued = self.queue.spread
        behind = Spread(max(0.0, queued.mean - self.together.mean), queued.variance)
        return self.alone + self.together + behind


def expected(engine: EngineModel, mix: Mix, requests_per_second: float, batched_tokens: int) -> ExpectedLatency:
    """At so many requests a second for one engine. Raises ValueError for more than fit into a second."""
    rate = requests_per_second
    at = load(engine, mix, rate)
    token = _token_seconds(engine, mix, at, rate)
    usual = _prefill(engine, mix, at, rate, batched_tokens, at.sequences)
    crowded = _sequences_in_a_busy_spell(engine, mix, at, rate, batched_tokens)
    spell = _prefill(engine, mix, at, rate, batched_tokens, crowded)
    place = _batch_wait(engine, mix, token, rate)
    first = usual.spread + place.spread
    late = max(
        spell.spread.quantiles()[1],
        spell.alone.mean + spell.queue.p95,
        spell.alone.mean + spell.together.mean + place.p95,
    )
    whole = first + _decoding(engine, mix, at, token, rate)
    return ExpectedLatency(
        first_token_p50=first.quantiles()[0],
        first_token_p95=late,
        inter_token_mean=token,
        end_to_end_mean=whole.mean,
        end_to_end_p95=whole.quantiles()[1],
    )


def _token_seconds(engine: EngineModel, mix: Mix, at: EngineLoad, rate: float) -> float:
    """Mean time between two tokens as an answer sees it, which is more than the mean step.

    Sequences share the engine, and what is there when one more comes is the usual load and that one: of a shared server
    with a fixed part of each step, a + its own work takes the place of a (product form of a state-dependent processor
    sharing queue). Its own prompt delays it only by way of those that then decode beside it.
    """
    step = engine.step_profile
    busy = 1 - step.step_seconds / at.step_seconds
    prompt = prompt_seconds(engine, mix)
    steps = mix.output_tokens / engine.tokens_per_step
    own = (work_seconds(engine, mix) - prompt + busy * prompt) / steps
    return (1 + own / step.step_seconds) * at.token_seconds


def _prompt_step(engine: EngineModel, mix: Mix, batched_tokens: int, sequences: float) -> tuple[float, float, float]:
    """Of one prompt: its own seconds, the seconds that a step takes besides, and how many steps it fills.

    What decodes takes its tokens from those that a step may compute.
    """
    step = engine.step_profile
    prompt = prompt_seconds(engine, mix)
    base = step.step_seconds + sequences * (step.sequence_seconds + step.kv_token_seconds * mix.held_tokens)
    return prompt, base, mix.prompt_tokens / max(1.0, batched_tokens - sequences)


def _sequences_in_a_busy_spell(
    engine: EngineModel, mix: Mix, at: EngineLoad, rate: float, batched_tokens: int
) -> float:
    """How many decode while prompts are computed without a break.

    Were that so for good, one would join every `chunks` steps and stay for as many as it has tokens. It is so for the
    share of the time that prompts keep the steps busy, which the more sequences raise in turn.
    """
    places = min(engine.max_num_seqs, engine.kv_tokens / mix.held_tokens)
    sequences = at.sequences
    for _ in range(_ROUNDS):
        prompt, base, chunks = _prompt_step(engine, mix, batched_tokens, sequences)
        busy = min(1.0, rate * (prompt + base * chunks))
        joined = mix.output_tokens / engine.tokens_per_step / chunks if chunks else places
        found = at.sequences + max(0.0, min(places, joined) - at.sequences) * busy
        if abs(found - sequences) <= _SETTLED * found:
            return found
        sequences = found
    return sequences


def _prefill(
    engine: EngineModel, mix: Mix, at: EngineLoad, rate: float, batched_tokens: int, sequences: float
) -> Prefill:
    """With so many sequences that decode.

    A step is under way when anybody else is there, which at random arrivals follows from how many are on average.
    Prompts in a step are those that came during the step before, whose length they set in turn. Where a step may not
    hold them all they queue: a server that needs `prompt` seconds and its share of the steps' fixed time for each
    (Pollaczek and Khinchine), its tail exponential.
    """
    prompt, base, chunks = _prompt_step(engine, mix, batched_tokens, sequences)
    gain = min(rate * prompt, _FULL)
    variance = prompt**2 * rate * at.step_seconds / (1 - gain**2)
    before = at.step_seconds + variance / at.step_seconds  # the step an arrival falls into is a long one
    others = rate * before
    under_way = 1 - exp(-at.sequences)
    rest = under_way * before / 2
    rest_squared = under_way * (before**2 + variance) / 3
    variation = max(0.0, mix.prompt_square / mix.prompt_tokens**2 - 1) if mix.prompt_tokens else 0.0
    service = prompt + base * chunks
    busy = min(rate * service, _FULL)
    overhead = engine.step_profile.request_overhead_seconds
    return Prefill(
        alone=Spread(
            overhead + rest + base * max(1.0, chunks) + prompt, rest_squared - rest**2 + prompt**2 * variation
        ),
        together=Spread(prompt * others, prompt**2 * others),
        queue=Wait(busy, service * (1 + variation) / (2 * (1 - busy))),
    )


def _decoding(engine: EngineModel, mix: Mix, at: EngineLoad, token_seconds: float, rate: float) -> Spread:
    """From the first token to the last.

    Steps are as long as the load of the moment makes them. Over one answer the arrivals vary by the root of their
    number, and the step by u/(1 − u) times as much.
    """
    mean = (mix.output_tokens - 1) * token_seconds
    arrivals = rate * mix.output_tokens * token_seconds
    busy = 1 - engine.step_profile.step_seconds / at.step_seconds
    swing = min(1.0, busy / (1 - busy) / sqrt(arrivals)) if arrivals > 0 else 0.0
    lengths = (mix.output_p95 - mix.output_tokens) * token_seconds / _Z_P95
    return Spread(mean, (mean * swing) ** 2 + lengths**2)


def _batch_wait(engine: EngineModel, mix: Mix, token_seconds: float, rate: float) -> Wait:
    """For a place in the batch: a queue at as many servers as sequences fit (Halfin and Whitt).

    A fuller batch makes every step longer, so places are free only as far as the rate is below the one that fills them
    all, which is less than what is free on average.
    """
    places = min(engine.max_num_seqs, engine.kv_tokens / mix.held_tokens)
    sequences = min(rate * mix.output_tokens * token_seconds, _FULL * places)
    if sequences <= 0:
        return Wait(0.0, 0.0)
    work = work_seconds(engine, mix)
    idle = mix.output_tokens / engine.tokens_per_step * engine.step_profile.step_seconds
    most = places / (idle + work * places)
    spare = places * max(1 - _FULL, 1 - rate / most)
    slack = spare / sqrt(sequences)
    density = exp(-(slack**2) / 2) / sqrt(2 * pi)
    below = (1 + erf(slack / sqrt(2))) / 2
    chance = density / (density + slack * below) if slack < 30 else 0.0
    return Wait(chance, mix.output_tokens * token_seconds / spare)
