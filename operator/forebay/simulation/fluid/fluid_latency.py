"""What requests of a flow are expected to see between tokens, from the state of the replica that takes them.

It is the mean step that a request has lived through, with the spread that the prompts of others bring into so few
steps: prompts come at random, each makes one step longer by `b·I`, so over O steps of T seconds the mean has the
variance `(T − base)·b·E[I²]/E[I]/O`; and the contexts of N others vary, `d²·N·Var[context]`. It is taken as lognormal.
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
    """The normal distribution's share below z; a logistic of a cubic, off by at most 0.0002."""
    share: Floats = 1 / (1 + np.exp(-np.clip(z * (1.5976 + 0.07056 * z * z), -60.0, 60.0)))
    return share


@dataclass(frozen=True, slots=True)
class InterTokenSpread:
    """Spread of a request's mean time between tokens around what the flow says."""

    prompt_spread: float
    """b·E[I²]/E[I] + e·…: by how much one more prompt, met at random, makes a step longer."""
    context_variance: float
    """Of the KV reads of one sequence, in seconds squared."""

    @staticmethod
    def of(profile: EngineProfile, lengths: FlowLengths) -> InterTokenSpread:
        prompts, answers = lengths.prompts, lengths.answers
        seconds = prefill_seconds(profile, prompts, prompts)
        weights = answers / answers.sum()
        context = prompts + answers / 2
        mean = float((weights * context).sum())
        # a sequence is met in proportion to its life, somewhere along its answer
        variance = float((weights * (context - mean) ** 2).sum() + (weights * answers**2).sum() / 12)
        return InterTokenSpread(
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
        return normal_cdf(np.log(limit / mean) / deviation + deviation / 2)


def engine_of(profile: EngineProfile, limits: EngineLimits) -> EngineModel:
    """The true engine as the replica model has it; its whole KV cache, as vLLM fills it."""
    blocks = limits.kv_blocks or profile.kv_tokens // limits.block_size
    return EngineModel(profile, (blocks - 1) * limits.block_size, limits.max_num_seqs, kv_share=1.0)
