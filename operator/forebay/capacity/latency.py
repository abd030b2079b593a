"""Latency: what requests are expected to see at a load, from the steps they have to wait for.

A request waits for the rest of the step under way; then its prompt is computed in the steps after it, together with
prompts that came meanwhile, as far as one step may compute prompts at all; and before that it waits for a place in the
batch when all are taken. Each of these is a mean and a variance, from queues that are known in closed form; their sum
is taken as lognormal. Held against the simulated engine in docs/capacity.md.
"""

from dataclasses import dataclass
from math import erf, exp, log, pi, sqrt
from typing import Final

from forebay.capacity.replica_model import Engine, Load, Mix, load, work_seconds

_Z_P95: Final = 1.6449
"""How many standard deviations above the mean 95 % of a normal spread lie."""
_FULL: Final = 0.999
"""A queue is never taken to be busier than this: beyond it there is no steady state to speak of."""


@dataclass(frozen=True, slots=True)
class Expected:
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


def expected(engine: Engine, mix: Mix, requests_per_second: float, batched_tokens: int) -> Expected:
    """At so many requests a second for one engine. Raises ValueError for more than fit into a second."""
    at = load(engine, mix, requests_per_second)
    computing = _prefill(engine, mix, at, requests_per_second, batched_tokens)
    waiting = _batch_wait(engine, mix, at, requests_per_second)
    first = computing + waiting
    whole = first + _decoding(engine, mix, at, requests_per_second)
    p50, p95 = first.quantiles()
    return Expected(
        first_token_p50=p50,
        first_token_p95=p95,
        inter_token_mean=at.token_seconds,
        end_to_end_mean=whole.mean,
        end_to_end_p95=whole.quantiles()[1],
    )


def _prefill(engine: Engine, mix: Mix, at: Load, rate: float, batched_tokens: int) -> Spread:
    """From arrival to the first token of a request that finds a place.

    A step is under way when anybody else is there, which at random arrivals follows from how many are on average.
    Prompts in a step are those that came during the step before, whose length they set in turn. Where a step may not
    hold them all they queue: a server that needs `prompt` seconds and its share of the steps' fixed time for each.
    """
    step = engine.step_profile
    prompt = step.prompt_token_seconds * mix.prompt_tokens + step.prompt_square_seconds * mix.prompt_square
    base = step.step_seconds + step.sequence_seconds * at.sequences + step.kv_token_seconds * at.kv_tokens
    gain = min(rate * prompt, _FULL)
    variance = prompt**2 * rate * at.step_seconds / (1 - gain**2)
    before = at.step_seconds + variance / at.step_seconds  # the step an arrival falls into is a long one
    others = rate * before
    under_way = 1 - exp(-at.sequences)
    rest = under_way * before / 2
    rest_squared = under_way * (before**2 + variance) / 3
    chunks = max(1.0, mix.prompt_tokens / batched_tokens)
    service = prompt + base * mix.prompt_tokens / batched_tokens
    queue = _queue(min(rate * service, _FULL), service, _prompt_variation(mix))
    return Spread(
        step.request_overhead_seconds + rest + base * chunks + prompt * (1 + others),
        rest_squared - rest**2 + prompt**2 * (others + _prompt_variation(mix)),
    ) + Spread(max(0.0, queue.mean - others * service), queue.variance)


def _queue(busy: float, service: float, variation: float) -> Spread:
    """Waiting time of random arrivals at one server (Pollaczek and Khinchine), its tail exponential."""
    tail = service * (1 + variation) / (2 * (1 - busy))
    return Spread(busy * tail, busy * (2 - busy) * tail**2)


def _decoding(engine: Engine, mix: Mix, at: Load, rate: float) -> Spread:
    """From the first token to the last.

    Steps are as long as the load of the moment makes them. Over one answer the arrivals vary by the root of their
    number, and the step by u/(1 − u) times as much.
    """
    mean = (mix.output_tokens - 1) * at.token_seconds
    arrivals = rate * mix.output_tokens * at.token_seconds
    busy = 1 - engine.step_profile.step_seconds / at.step_seconds
    swing = min(1.0, busy / (1 - busy) / sqrt(arrivals)) if arrivals > 0 else 0.0
    lengths = (mix.output_p95 - mix.output_tokens) * at.token_seconds / _Z_P95
    return Spread(mean, (mean * swing) ** 2 + lengths**2)


def _batch_wait(engine: Engine, mix: Mix, at: Load, rate: float) -> Spread:
    """For a place in the batch: a queue at as many servers as sequences fit (Halfin and Whitt).

    A fuller batch makes every step longer, so places are free only as far as the rate is below the one that fills them
    all, which is less than what is free on average. Answers of one length leave as regularly as they came, which halves
    the wait.
    """
    places = min(engine.max_num_seqs, engine.kv_tokens / mix.held_tokens)
    sequences = min(at.sequences, _FULL * places)
    if sequences <= 0:
        return Spread(0.0, 0.0)
    work = work_seconds(engine, mix)
    idle = mix.output_tokens / engine.tokens_per_step * engine.step_profile.step_seconds
    most = places / (idle + work * places)
    spare = places * max(1 - _FULL, 1 - rate / most)
    slack = spare / sqrt(sequences)
    density = exp(-(slack**2) / 2) / sqrt(2 * pi)
    below = (1 + erf(slack / sqrt(2))) / 2
    chance = density / (density + slack * below) if slack < 30 else 0.0
    tail = mix.output_tokens * at.token_seconds / spare / 2
    return Spread(chance * tail, chance * (2 - chance) * tail**2)


def _prompt_variation(mix: Mix) -> float:
    """Squared coefficient of variation of prompt lengths; 0 for one length."""
    return max(0.0, mix.prompt_square / mix.prompt_tokens**2 - 1) if mix.prompt_tokens else 0.0
