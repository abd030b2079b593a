"""Time to the first token of a fluid's requests, by how busy the replicas are, measured on discrete events.

A fluid knows the arrivals of 2.5 seconds as a mean over its replicas. Which requests are late depends on what it does
not know: the arrival times within the 2.5 seconds, which replica already has a long prompt in its batch, and the
request's own prompt. Mean and variance do not suffice: a formula from the variance of a step's rest, the own prompt and
prompts in the same step gave only a third to a fifth of the share above 500 ms that discrete events have. So for every
profile and mix of lengths, a few replicas are simulated once with Poisson arrivals. Each request's time to the first
token is recorded together with what the fluid would know of its 2.5 seconds.
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
"""The highest busy share in the table; beyond it, requests wait in the fluid's queue instead."""
TABLE_POINTS: Final = 65
REPLICAS: Final = 4
"""Replicas behind the router. With half or twice as many, the slowest 1 % of first tokens differs by up to a fifth."""
LOAD_LEVELS: Final = (0.02, 0.1, 0.25, 0.4, 0.5, 0.6, 0.7, 0.8)
"""Rates of arrival, as shares of the rate that would fill the replicas."""
REQUESTS_PER_LEVEL: Final = 4_000
BUCKETS: Final = 20
_UNBOUNDED_KV_TOKENS: Final = 100_000_000
"""KV tokens of the measured engines. The fluid itself models waiting for KV blocks, so it is not measured here."""
_Z_P99: Final = 2.3263
_FIT_DEGREE: Final = 3


@dataclass(frozen=True, slots=True)
class FirstTokenTimes:
    """Table of log-normal distributions that have the measured 50 % and 99 % quantiles, by busy share."""

    busy: Floats
    """Busy share: the part of an engine step of T seconds that is not its fixed cost a, 1 − a/T."""
    log_median: Floats
    log_deviation: Floats

    @staticmethod
    def of(profile: EngineProfile, limits: EngineLimits, lengths: FlowLengths) -> FirstTokenTimes:
        """The table for a profile, limits and lengths; measured once and cached."""
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
    # beyond the busiest measured bucket, all times grow with the length of a step, a/(1 − busy)
    log_median += np.log((1 - at[-1]) / np.minimum(1 - busy, 1 - at[-1]))
    return FirstTokenTimes(busy, np.maximum.accumulate(log_median), np.maximum(log_deviation, 1e-3))


class _LoadLevel:
    """A measurement: replicas behind one router at one rate of arrivals."""

    def __init__(
        self, profile: EngineProfile, limits: EngineLimits, lengths: np.ndarray, interval_seconds: float, seed: int
    ) -> None:
        self.profile = profile
        random = np.random.default_rng(seed)
        self.times = np.cumsum(random.exponential(interval_seconds, REQUESTS_PER_LEVEL))
        sampled = random.integers(0, lengths.shape[1], REQUESTS_PER_LEVEL)
        self.prompts, self.answers = np.maximum(1, lengths[:, sampled])
        blocks = _UNBOUNDED_KV_TOKENS // limits.block_size
        unbounded_limits = replace(limits, max_num_seqs=limits.max_num_batched_tokens, kv_blocks=blocks)
        self.engines = [ReplicaEngine(profile, unbounded_limits, every_histogram=False) for _ in range(REPLICAS)]
        self.kv_tokens = blocks * limits.block_size
        self.decode_seconds: list[float] = []
        """Duration of a decode-only step, as a mean over the replicas, at the beginning of each 2.5 s."""

    def samples(self) -> Floats:
        """(busy share of the replicas in its 2.5 s, seconds to the first token) of each request."""
        arrivals = (self.times / BIN_SECONDS).astype(np.int64)
        first = np.full(REQUESTS_PER_LEVEL, np.nan)
        for done in self._run():
            first[int(done.request.id)] = done.first_token_seconds
        prompts = self.prompts.astype(float)
        share = np.bincount(arrivals, prefill_seconds(self.profile, prompts, prompts)) / REPLICAS / BIN_SECONDS
        token = np.array(self.decode_seconds) / np.maximum(1 - share, 1 - MAX_BUSY_SHARE)
        busy = np.clip(1 - self.profile.step_seconds / token, 0.0, MAX_BUSY_SHARE)
        return np.stack([busy[arrivals], first], axis=1)

    def _run(self) -> Iterator[Completion]:
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
