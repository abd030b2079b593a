"""What requests of a flow are expected to see, from the state of the replica that takes them.

First token: after the time a request waits in the flow's own queue, a lognormal around the median that
`capacity.latency.expected` gives for the steady rate which would make steps as long as they are now, `rate = (1 −
a/T)/s`. Its variance is that of the rest of a step, `T²/12`, of the prompt itself, and of those that came in the same
step, `rate·T·E[prompt²]`; spells in which more comes than usual are in the flow itself, so the 95 % quantile of
`expected`, which is that of an engine alone in such a spell, is not used.

Between tokens: the mean step that a request has lived through, with the spread that the prompts of others
bring into so few steps: prompts come at random, each makes one step longer by `b·I`, so over O steps of T seconds the
mean has the variance `(T − base)·b·E[I²]/E[I]/O`; and the contexts of N others vary, `d²·N·Var[context]`. It is taken
as lognormal, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from forebay.capacity.latency import expected
from forebay.capacity.replica_model import Engine, work_seconds
from forebay.simulation.engine_profile import EngineProfile
from forebay.simulation.flow import Lengths
from forebay.simulation.replica_engine import EngineLimits
from forebay.simulation.traces import Floats

POINTS: Final = 65
UNBOUNDED: Final = 1_000_000_000
"""Places in the batch and KV tokens: waiting for them is in the flow itself, and not counted twice."""
BUSIEST: Final = 0.97
"""Of a steady state that is looked up; what is busier shows as waiting in the flow."""


def below(z: Floats) -> Floats:
    """The normal distribution's share below z; a logistic of a cubic, off by at most 0.0002."""
    share: Floats = 1 / (1 + np.exp(-np.clip(z * (1.5976 + 0.07056 * z * z), -60.0, 60.0)))
    return share


@dataclass(frozen=True, slots=True)
class FirstToken:
    """Logarithm of the median and its standard deviation, by how busy a replica is."""

    busy: Floats
    log_median: Floats
    log_deviation: Floats

    @staticmethod
    def of(profile: EngineProfile, limits: EngineLimits, lengths: Lengths) -> FirstToken:
        engine = Engine(profile, UNBOUNDED, UNBOUNDED)
        mix = lengths.mix
        work = work_seconds(engine, mix)
        busy = np.linspace(0.0, BUSIEST, POINTS)
        rate = np.maximum(busy, 1e-6) / work
        seen = [expected(engine, mix, each, limits.max_num_batched_tokens) for each in rate.tolist()]
        median = np.array([each.first_token_p50 for each in seen])
        prompt = profile.prompt_token_seconds * lengths.prompts + profile.prompt_square_seconds * lengths.prompts**2
        token = profile.step_seconds / (1 - busy)
        others = rate * token
        variance = token**2 / 12 + prompt.var() + others * float((prompt**2).mean())
        squared = np.log1p(variance / median**2)
        squared = np.log1p(variance / (median**2 * np.exp(squared)))  # the mean is above the median
        return FirstToken(busy, np.log(median), np.sqrt(np.maximum(squared, 1e-6)))

    def at(self, busy: Floats) -> tuple[Floats, Floats]:
        return np.interp(busy, self.busy, self.log_median), np.interp(busy, self.busy, self.log_deviation)


@dataclass(frozen=True, slots=True)
class BetweenTokens:
    """Spread of a request's mean time between tokens around what the flow says."""

    prompt_spread: float
    """b·E[I²]/E[I] + e·…: by how much one more prompt, met at random, makes a step longer."""
    context_variance: float
    """Of the KV reads of one sequence, in seconds squared."""

    @staticmethod
    def of(profile: EngineProfile, lengths: Lengths) -> BetweenTokens:
        prompts, answers = lengths.prompts, lengths.answers
        seconds = profile.prompt_token_seconds * prompts + profile.prompt_square_seconds * prompts**2
        weights = answers / answers.sum()
        context = prompts + answers / 2
        mean = float((weights * context).sum())
        # a sequence is met in proportion to its life, somewhere along its answer
        variance = float((weights * (context - mean) ** 2).sum() + (weights * answers**2).sum() / 12)
        return BetweenTokens(
            float((seconds**2).mean() / max(seconds.mean(), 1e-12)), profile.kv_token_seconds**2 * variance
        )

    def deviation(self, mean: Floats, base: Floats, sequences: Floats, steps: Floats) -> Floats:
        """Of the logarithm of requests' mean times between tokens; rows are replicas, columns classes of answers."""
        prefill = np.maximum(mean - base, 0.0)
        variance = prefill * self.prompt_spread / steps + self.context_variance * sequences
        found: Floats = np.sqrt(np.maximum(np.log1p(variance / mean**2), 1e-12))
        return found

    def in_time(self, mean: Floats, deviation: Floats, limit: Floats) -> Floats:
        """Share of the requests whose own mean is within `limit`."""
        return below(np.log(limit / mean) / deviation + deviation / 2)


def engine_of(profile: EngineProfile, limits: EngineLimits) -> Engine:
    """The true engine as the replica model has it; its whole KV cache, as vLLM fills it."""
    blocks = limits.kv_blocks or profile.kv_tokens // limits.block_size
    return Engine(profile, (blocks - 1) * limits.block_size, limits.max_num_seqs, kv_share=1.0)
