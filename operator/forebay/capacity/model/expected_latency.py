"""Expected latency: the latency of requests at a load, computed from the steps that they wait for.

If the batch is full, a request first waits for a slot. It then waits for the rest of the current step. The next steps
compute its prompt, together with the prompts that arrived in the meantime, up to the limit of prompt tokens per step.

The median is that of the mean load. The slowest 5 % of requests arrive in a busy period, in which every step computes
prompts: steps are longer, answers stay longer, more of them decode at once, and prompts take longer in turn.
docs/capacity.md compares the results with the simulated engine.
"""

from dataclasses import dataclass
from math import erf, exp, log, pi, sqrt
from typing import Final

from forebay.capacity.model.replica_model import EngineLoad, EngineModel, Mix, load, prompt_seconds, work_seconds

_Z_P95: Final = 1.6449
"""The 95 % quantile of a normal distribution, in standard deviations above the mean."""
_LARGEST_UTILIZATION: Final = 0.999
"""Upper bound of a queue's utilization, because a fuller queue has no steady state."""
_CONVERGED: Final = 1e-3
"""Relative error at which the number of sequences in a busy period has converged."""
_MAX_ITERATIONS: Final = 60


@dataclass(frozen=True, slots=True)
class ExpectedLatency:
    """Latencies of an engine's requests, in seconds."""

    first_token_p50: float
    first_token_p95: float
    inter_token_mean: float
    end_to_end_mean: float
    end_to_end_p95: float


@dataclass(frozen=True, slots=True)
class MeanAndVariance:
    """Mean and variance of a random time; sums are those of independent times."""

    mean: float
    variance: float

    def __add__(self, other: "MeanAndVariance") -> "MeanAndVariance":
        return MeanAndVariance(self.mean + other.mean, self.variance + other.variance)

    def quantiles(self) -> tuple[float, float]:
        """Median and 95 % quantile of the lognormal distribution with this mean and variance."""
        squared = 1 + self.variance / self.mean**2
        median = self.mean / sqrt(squared)
        return median, median * exp(_Z_P95 * sqrt(log(squared)))


@dataclass(frozen=True, slots=True)
class QueueDelay:
    """Time in a queue: zero for some requests, and exponentially distributed for the others."""

    probability: float
    """Probability that a request has to wait."""
    mean_wait: float
    """Mean wait of the requests that have to wait, in seconds."""

    @property
    def spread(self) -> MeanAndVariance:
        mean, probability = self.mean_wait, self.probability
        return MeanAndVariance(probability * mean, probability * (2 - probability) * mean**2)

    @property
    def p95(self) -> float:
        return self.mean_wait * log(max(1.0, self.probability / 0.05))


@dataclass(frozen=True, slots=True)
class PrefillTime:
    """Time from arrival to the first token, for a request that finds a slot in the batch."""

    alone: MeanAndVariance
    """Time without other prompts."""
    together: MeanAndVariance
    """Time of other prompts in the same step."""
    queue: QueueDelay
    """Wait for prompts that do not fit into the same step."""

    @property
    def spread(self) -> MeanAndVariance:
        """The whole time. Prompts in the same step are taken off the wait, so that they do not count twice."""
        queued = self.queue.spread
        behind = MeanAndVariance(max(0.0, queued.mean - self.together.mean), queued.variance)
        return self.alone + self.together + behind


def expected_latency(engine: EngineModel, mix: Mix, requests_per_second: float, batched_tokens: int) -> ExpectedLatency:
    """The latency of one engine at a rate of requests. Raises ValueError if their work does not fit into a second."""
    rate = requests_per_second
    mean_load = load(engine, mix, rate)
    token = _token_seconds(engine, mix, mean_load, rate)
    usual = _prefill(engine, mix, mean_load, rate, batched_tokens, mean_load.sequences)
    busy_sequences = _sequences_in_busy_period(engine, mix, mean_load, rate, batched_tokens)
    busy = _prefill(engine, mix, mean_load, rate, batched_tokens, busy_sequences)
    slot_wait = _batch_wait(engine, mix, token, rate)
    first_token = usual.spread + slot_wait.spread
    first_token_p95 = max(
        busy.spread.quantiles()[1],
        busy.alone.mean + busy.queue.p95,
        busy.alone.mean + busy.together.mean + slot_wait.p95,
    )
    end_to_end = first_token + _decoding(engine, mix, mean_load, token, rate)
    return ExpectedLatency(
        first_token_p50=first_token.quantiles()[0],
        first_token_p95=first_token_p95,
        inter_token_mean=token,
        end_to_end_mean=end_to_end.mean,
        end_to_end_p95=end_to_end.quantiles()[1],
    )


def _token_seconds(engine: EngineModel, mix: Mix, mean_load: EngineLoad, rate: float) -> float:
    """Mean time between two tokens of an answer, which is more than the mean step.

    A sequence sees the mean load and itself. In the product form of a state-dependent processor-sharing queue, a + its
    own work therefore takes the place of a, the fixed part of each step. The sequence's own prompt delays it only
    through the other sequences that then decode beside it.
    """
    step = engine.step_profile
    utilization = 1 - step.step_seconds / mean_load.step_seconds
    prompt = prompt_seconds(engine, mix)
    steps = mix.output_tokens / engine.tokens_per_step
    own_work = (work_seconds(engine, mix) - prompt + utilization * prompt) / steps
    return (1 + own_work / step.step_seconds) * mean_load.token_seconds


def _prompt_step(engine: EngineModel, mix: Mix, batched_tokens: int, sequences: float) -> tuple[float, float, float]:
    """For one prompt: its own seconds, the other seconds of a step, and the number of steps that it fills.

    Decoding sequences use up a part of the tokens that a step may compute.
    """
    step = engine.step_profile
    prompt = prompt_seconds(engine, mix)
    base = step.step_seconds + sequences * (step.sequence_seconds + step.kv_token_seconds * mix.held_tokens)
    return prompt, base, mix.prompt_tokens / max(1.0, batched_tokens - sequences)


def _sequences_in_busy_period(
    engine: EngineModel, mix: Mix, mean_load: EngineLoad, rate: float, batched_tokens: int
) -> float:
    """Sequences that decode while every step computes prompts.

    In an endless busy period one sequence would join every `chunks` steps and stay for as many steps as its answer
    needs. The result lies between the mean load and that, by the share of time in which steps compute prompts. More
    sequences raise this share in turn, so the number is found by iteration.
    """
    slots = min(engine.max_num_seqs, engine.kv_tokens / mix.held_tokens)
    sequences = mean_load.sequences
    for _ in range(_MAX_ITERATIONS):
        prompt, base, chunks = _prompt_step(engine, mix, batched_tokens, sequences)
        busy_share = min(1.0, rate * (prompt + base * chunks))
        endless = mix.output_tokens / engine.tokens_per_step / chunks if chunks else slots
        estimate = mean_load.sequences + max(0.0, min(slots, endless) - mean_load.sequences) * busy_share
        if abs(estimate - sequences) <= _CONVERGED * estimate:
            return estimate
        sequences = estimate
    return sequences


def _prefill(
    engine: EngineModel, mix: Mix, mean_load: EngineLoad, rate: float, batched_tokens: int, sequences: float
) -> PrefillTime:
    """The time to the first token while `sequences` sequences decode.

    A request meets a running step if any other sequence is in the engine; with random arrivals the probability follows
    from the mean number of sequences. The prompts of a step are those that arrived during the step before, and they
    determine the length of the next one in turn. Prompts that do not fit into a step queue for a server that needs
    `prompt` seconds and a share of the steps' fixed time for each (Pollaczek and Khinchine, with an exponential tail).
    """
    prompt, base, chunks = _prompt_step(engine, mix, batched_tokens, sequences)
    gain = min(rate * prompt, _LARGEST_UTILIZATION)
    variance = prompt**2 * rate * mean_load.step_seconds / (1 - gain**2)
    # A request is more likely to arrive in a long step, so the step that it meets is longer than the mean.
    met_step = mean_load.step_seconds + variance / mean_load.step_seconds
    other_prompts = rate * met_step
    step_running = 1 - exp(-mean_load.sequences)
    rest = step_running * met_step / 2
    rest_squared = step_running * (met_step**2 + variance) / 3
    variation = max(0.0, mix.prompt_square / mix.prompt_tokens**2 - 1) if mix.prompt_tokens else 0.0
    service = prompt + base * chunks
    utilization = min(rate * service, _LARGEST_UTILIZATION)
    overhead = engine.step_profile.request_overhead_seconds
    return PrefillTime(
        alone=MeanAndVariance(
            overhead + rest + base * max(1.0, chunks) + prompt, rest_squared - rest**2 + prompt**2 * variation
        ),
        together=MeanAndVariance(prompt * other_prompts, prompt**2 * other_prompts),
        queue=QueueDelay(utilization, service * (1 + variation) / (2 * (1 - utilization))),
    )


def _decoding(
    engine: EngineModel, mix: Mix, mean_load: EngineLoad, token_seconds: float, rate: float
) -> MeanAndVariance:
    """The time from the first token to the last.

    The length of a step follows the momentary load. The standard deviation of the arrivals during one answer is the
    root of their number, and the step varies u/(1 − u) times as much, where u is the engine's utilization.
    """
    mean = (mix.output_tokens - 1) * token_seconds
    arrivals = rate * mix.output_tokens * token_seconds
    utilization = 1 - engine.step_profile.step_seconds / mean_load.step_seconds
    step_deviation = min(1.0, utilization / (1 - utilization) / sqrt(arrivals)) if arrivals > 0 else 0.0
    length_deviation = (mix.output_p95 - mix.output_tokens) * token_seconds / _Z_P95
    return MeanAndVariance(mean, (mean * step_deviation) ** 2 + length_deviation**2)


def _batch_wait(engine: EngineModel, mix: Mix, token_seconds: float, rate: float) -> QueueDelay:
    """The wait for a slot in the batch: a queue with one server for each sequence that fits (Halfin and Whitt).

    A fuller batch makes every step longer. The free slots are therefore computed from the distance of the rate to the
    rate that fills the batch; fewer are free than the mean number of sequences suggests.
    """
    slots = min(engine.max_num_seqs, engine.kv_tokens / mix.held_tokens)
    sequences = min(rate * mix.output_tokens * token_seconds, _LARGEST_UTILIZATION * slots)
    if sequences <= 0:
        return QueueDelay(0.0, 0.0)
    work = work_seconds(engine, mix)
    idle = mix.output_tokens / engine.tokens_per_step * engine.step_profile.step_seconds
    full_batch_rate = slots / (idle + work * slots)
    free_slots = slots * max(1 - _LARGEST_UTILIZATION, 1 - rate / full_batch_rate)
    slack = free_slots / sqrt(sequences)
    density = exp(-(slack**2) / 2) / sqrt(2 * pi)
    distribution = (1 + erf(slack / sqrt(2))) / 2
    probability = density / (density + slack * distribution) if slack < 30 else 0.0
    return QueueDelay(probability, mix.output_tokens * token_seconds / free_slots)
