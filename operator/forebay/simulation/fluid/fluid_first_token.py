"""Time to the first token of a fluid's requests, by how busy the replicas are: measured on discrete events.

A fluid knows what came in 2.5 seconds, as a mean over its replicas. What it does not know decides who is late: the
moments within that time, which replica has a long prompt in its batch already, the own prompt. Mean and variance do not
say it (the variance of a step's rest, the own prompt and prompts in the same step gave a third to a fifth of the share
above 500 ms that discrete events have). So a few replicas are played once for every profile and mix of lengths, with
Poisson arrivals, and each request's time is kept with what the fluid would have known of its 2.5 seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np

from forebay.capacity.model.replica_model import EngineModel, Mix, work_seconds
from forebay.simulation.cluster.served_model import prefill_seconds
from forebay.simulation.engine.engine_router import finish_all, route
from forebay.simulation.engine.engine_stats import Completion, EngineRequest
from forebay.simulation.engine.replica_engine import EngineLimits, ReplicaEngine
from forebay.simulation.engine.simulated_profile import EngineProfile
from forebay.simulation.traffic.flow import BIN_SECONDS, FlowLengths
from forebay.simulation.traffic.traces import Floats

MAX_BUSY_SHARE: Final = 0.97
"""Of what is looked up; what is busier shows as waiting in the flow."""
TABLE_POINTS: Final = 65
REPLICAS: Final = 4
"""Behind one router. With twice or half as many the slowest hundredth comes up to a fifth sooner or later."""
LOAD_LEVELS: Final = (0.02, 0.1, 0.25, 0.4, 0.5, 0.6, 0.7, 0.8)
"""Shares of the rate that would fill the replicas."""
REQUESTS_PER_LEVEL: Final = 4_000
"""At each level."""
BUCKETS: Final = 20
_UNBOUNDED_KV_TOKENS: Final = 100_000_000
"""KV tokens: waiting for them is in the flow itself, and not counted twice."""
_Z_P99: Final = 2.3263
_FIT_DEGREE: Final = 3


@dataclass(frozen=True, slots=True)
class FirstTokenTimes:
    """Logarithm of the median and its standard deviation, of a lognormal that has the measured 50 and 99 %."""

    busy: Floats
    """Share of a step that is not fixed cost, 1 − a/T."""
    log_median: Floats
    log_deviation: Floats

    @staticmethod
    def of(profile: EngineProfile, limits: EngineLimits, lengths: FlowLengths) -> FirstTokenTimes:
        """Measured once for the same arguments."""
        return _measured(profile, limits, lengths.prompts.tobytes(), lengths.answers.tobytes())

    def at(self, busy: Floats) -> tuple[Floats, Floats]:
        return np.interp(busy, self.busy, self.log_median), np.interp(busy, self.busy, self.log_deviation)


@cache
def _measured(profile: EngineProfile, limits: EngineLimits, prompts: bytes, answers: bytes) -> FirstTokenTimes:
    lengths = np.stack([np.frombuffer(prompts), np.frombuffer(answers)]).astype(np.int64)
    work = work_seconds(EngineModel(profile, _UNBOUNDED_KV_TOKENS, _UNBOUNDED_KV_TOKENS), Mix.of(lengths.T.tolist()))
    levels = (
        _LoadLevel(profile, limits, lengths, work / level / REPLICAS, round(1000 * level)) for level in LOAD_LEVELS
    )
    samples = np.concatenate([level.samples() for level in levels])
    samples = samples[np.argsort(samples[:, 0], kind="stable")]
    buckets = np.array_split(samples, BUCKETS)
    at = np.array([bucket[:, 0].mean() for bucket in buckets])
    median, slow = np.log([np.quantile(bucket[:, 1], (0.5, 0.99)) for bucket in buckets]).T
    busy = np.linspace(0.0, MAX_BUSY_SHARE, TABLE_POINTS)
    measured = np.clip(busy, at[0], at[-1])
    log_median = np.polyval(np.polyfit(at, median, _FIT_DEGREE), measured)
    log_deviation = np.polyval(np.polyfit(at, (slow - median) / _Z_P99, _FIT_DEGREE), measured)
    # busier than anything seen: all times grow with the length of a step, a/(1 − busy)
    log_median += np.log((1 - at[-1]) / np.minimum(1 - busy, 1 - at[-1]))
    return FirstTokenTimes(busy, np.maximum.accumulate(log_median), np.maximum(log_deviation, 1e-3))


class _LoadLevel:
    """Replicas behind one router at one rate of arrivals."""

    def __init__(
        self, profile: EngineProfile, limits: EngineLimits, lengths: np.ndarray, apart_seconds: float, seed: int
    ) -> None:
        self.profile = profile
        random = np.random.default_rng(seed)
        self.times = np.cumsum(random.exponential(apart_seconds, REQUESTS_PER_LEVEL))
        chosen = random.integers(0, lengths.shape[1], REQUESTS_PER_LEVEL)
        self.prompts, self.answers = np.maximum(1, lengths[:, chosen])
        blocks = _UNBOUNDED_KV_TOKENS // limits.block_size
        roomy = replace(limits, max_num_seqs=limits.max_num_batched_tokens, kv_blocks=blocks)
        self.engines = [ReplicaEngine(profile, roomy, every_histogram=False) for _ in range(REPLICAS)]
        self.kv_tokens = blocks * limits.block_size
        self.decode_seconds: list[float] = []
        """Seconds of a step that only decodes, mean over the replicas, at the beginning of each 2.5 s."""

    def samples(self) -> Floats:
        """(how busy the replicas were in its 2.5 s, seconds to the first token) of each request."""
        arrivals = (self.times / BIN_SECONDS).astype(np.int64)
        first = np.full(REQUESTS_PER_LEVEL, np.nan)
        for done in self._play():
            first[int(done.request.id)] = done.first_token_seconds
        prompts = self.prompts.astype(float)
        share = np.bincount(arrivals, prefill_seconds(self.profile, prompts, prompts)) / REPLICAS / BIN_SECONDS
        token = np.array(self.decode_seconds) / np.maximum(1 - share, 1 - MAX_BUSY_SHARE)
        busy = np.clip(1 - self.profile.step_seconds / token, 0.0, MAX_BUSY_SHARE)
        return np.stack([busy[arrivals], first], axis=1)

    def _play(self) -> Iterator[Completion]:
        for number, (now, prompt, answer) in enumerate(zip(self.times, self.prompts, self.answers, strict=True)):
            time = float(now)
            while len(self.decode_seconds) * BIN_SECONDS <= time:
                for engine in self.engines:
                    yield from engine.advance(len(self.decode_seconds) * BIN_SECONDS)
                self._measure_decoding()
            yield from route(self.engines, EngineRequest(str(number), int(prompt), int(answer), time))
        yield from finish_all(self.engines)

    def _measure_decoding(self) -> None:
        profile = self.profile
        sequences = sum(engine.running for engine in self.engines) / REPLICAS
        held = sum(engine.kv_fraction for engine in self.engines) * self.kv_tokens / REPLICAS
        self.decode_seconds.append(
            profile.step_seconds + profile.sequence_seconds * sequences + profile.kv_token_seconds * held
        )
