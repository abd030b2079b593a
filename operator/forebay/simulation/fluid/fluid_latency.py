"""The expected time between tokens of requests in a flow, and its spread.

The mean is that of the engine steps during the request. Two effects spread it, and the result is taken as log-normal:

- Prompts of other requests arrive at random, and a prompt of I tokens makes one step longer by `b·I` seconds (b:
  seconds per prompt token). Over O steps of T seconds, of which `base` is the time of a decode-only step, the mean has
  the variance `(T − base)·b·E[I²]/E[I]/O`.
- The contexts of the N other sequences vary, which adds `d²·N·Var[context]` (d: seconds per KV token).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forebay.capacity.model.replica_model import EngineModel
from forebay.simulation.cluster.served_model import prefill_seconds
from forebay.simulation.engine.replica_engine import EngineLimits
from forebay.simulation.engine.simulated_profile import EngineProfile
from forebay.simulation.traffic.flow import FlowLengths
from forebay.simulation.traffic.traces import Floats


def normal_cdf(z: Floats) -> Floats:
    """The cumulative standard normal distribution, approximated by a logistic of a cubic to within 0.0002."""
    share: Floats = 1 / (1 + np.exp(-np.clip(z * (1.5976 + 0.07056 * z * z), -60.0, 60.0)))
    return share


@dataclass(frozen=True, slots=True)
class InterTokenSpread:
    """Spread of requests' mean times between tokens around the mean of the fluid."""

    prompt_spread: float
    """Seconds by which a randomly met prompt makes a step longer: E[p²]/E[p] for prefill times p = b·I + e·I²."""
    context_variance: float
    """Variance of the KV read time of one sequence, in seconds squared."""

    @staticmethod
    def of(profile: EngineProfile, lengths: FlowLengths) -> InterTokenSpread:
        prompts, answers = lengths.prompts, lengths.answers
        seconds = prefill_seconds(profile, prompts, prompts)
        weights = answers / answers.sum()
        context = prompts + answers / 2
        mean = float((weights * context).sum())
        # the chance to meet a sequence is proportional to its answer, at any position in it
        variance = float((weights * (context - mean) ** 2).sum() + (weights * answers**2).sum() / 12)
        return InterTokenSpread(
            float((seconds**2).mean() / max(seconds.mean(), 1e-12)), profile.kv_token_seconds**2 * variance
        )

    def deviation(self, mean: Floats, base: Floats, sequences: Floats, steps: Floats) -> Floats:
        """Standard deviation of the logarithm of requests' mean times between tokens.

        Rows are replicas, columns are classes of answers.
        """
        prefill = np.maximum(mean - base, 0.0)
        variance = prefill * self.prompt_spread / steps + self.context_variance * sequences
        deviation: Floats = np.sqrt(np.maximum(np.log1p(variance / mean**2), 1e-12))
        return deviation

    def in_time(self, mean: Floats, deviation: Floats, limit: Floats) -> Floats:
        """Share of the requests whose own mean is within `limit`."""
        return normal_cdf(np.log(limit / mean) / deviation + deviation / 2)


def engine_of(profile: EngineProfile, limits: EngineLimits) -> EngineModel:
    """The replica model's view of the true engine, with its whole KV cache usable, as vLLM uses it."""
    blocks = limits.kv_blocks or profile.kv_tokens // limits.block_size
    return EngineModel(profile, (blocks - 1) * limits.block_size, limits.max_num_seqs, kv_share=1.0)
