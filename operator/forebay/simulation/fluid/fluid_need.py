"""The oracle for flows: the fewest replicas that would keep the promise for the true arrivals, by the fluid's formulas.

A replica may be busy up to the share at which its steady state still serves in time 99.5 % of the requests that a
nearly idle replica serves in time. This follows from the formulas of `fluid_latency` with the true coefficients, and
from the limits of the batch and the KV cache. need(t) is the work that arrives around t, divided by that share. The
work is averaged over the lifetime of a request, since that is what loads a replica, and its maximum over t ± 30 s is
taken.
"""

from __future__ import annotations

from math import ceil
from typing import Final

import numpy as np

from forebay.capacity.model.replica_model import Promise, work_seconds
from forebay.simulation.cluster.served_model import ServedModel
from forebay.simulation.compare.oracle import IN_TIME, WINDOW_SECONDS, Needs
from forebay.simulation.fluid.fluid_first_token import MAX_BUSY_SHARE, FirstTokenTimes
from forebay.simulation.fluid.fluid_latency import InterTokenSpread, engine_of, normal_cdf
from forebay.simulation.traffic.flow import BIN_SECONDS, Flow, FlowLengths
from forebay.simulation.traffic.traces import Floats

_BUSY_SHARES: Final = np.linspace(0.01, MAX_BUSY_SHARE, 193)


def usable_busy_share(model: ServedModel, lengths: FlowLengths, promise: Promise) -> float:
    """The highest busy share of a replica (the part of a step that is not fixed cost) that keeps the promise."""
    profile, engine, mix = model.profile, engine_of(model.profile, model.limits), lengths.mix
    rate = _BUSY_SHARES / work_seconds(engine, mix)
    token = profile.step_seconds / (1 - _BUSY_SHARES)
    sequences = rate * mix.output_tokens * token
    held = sequences * mix.held_tokens
    base = profile.step_seconds + profile.sequence_seconds * sequences + profile.kv_token_seconds * held
    median, deviation = FirstTokenTimes.of(profile, model.limits, lengths).at(_BUSY_SHARES)
    first = normal_cdf((np.log(promise.time_to_first_token) - median) / deviation)
    between = InterTokenSpread.of(profile, lengths)
    steps = np.maximum(lengths.outputs - 1, 0.3)
    mean, deviations = token[:, None], between.deviation(token[:, None], base[:, None], sequences[:, None], steps)
    kept = first * between.in_time(mean, deviations, np.array(promise.inter_token_limit(mix))).mean(axis=1)
    fits = (sequences <= model.limits.max_num_seqs) & (held <= engine.kv_tokens)
    good = np.flatnonzero((kept >= IN_TIME * kept[0]) & fits)
    return float(_BUSY_SHARES[good[-1]]) if len(good) else float(_BUSY_SHARES[0])


def flow_needs(
    flow: Flow,
    model: ServedModel,
    promise: Promise,
    *,
    seconds: float,
    min_replicas: int,
    max_replicas: int,
    step_seconds: float = 30.0,
) -> Needs:
    """need(t) at 0, step, 2·step, … seconds, within the bounds of the service."""
    lifetime = max(1, round(flow.mix.output_tokens * promise.inter_token_latency / BIN_SECONDS))
    load = _trailing_mean(_work(flow, model), lifetime) / usable_busy_share(model, flow.lengths, promise)
    half = round(WINDOW_SECONDS / 2 / BIN_SECONDS)
    counts = []
    for index in range(ceil(seconds / step_seconds)):
        middle = round((index + 0.5) * step_seconds / BIN_SECONDS)
        window = load[max(0, middle - half) : middle + half]
        need = ceil(float(window.max()) - 1e-9) if len(window) else min_replicas
        counts.append(min(max_replicas, max(min_replicas, need)))
    return Needs(step_seconds, tuple(counts))


def _work(flow: Flow, model: ServedModel) -> Floats:
    """GPU-seconds of work that arrive per second, by step of the flow."""
    profile, outputs = model.profile, flow.lengths.outputs
    prompts, square = flow.lengths.prompts, profile.prompt_square_seconds
    square_term = 1 + square * float((prompts**2).sum() / prompts.sum()) / profile.prompt_token_seconds
    prefill = profile.prompt_token_seconds * square_term * flow.prompts.sum(axis=1) * flow.computed
    decode = flow.requests @ (outputs * (profile.sequence_seconds + profile.kv_token_seconds * outputs / 2))
    reads: Floats = profile.kv_token_seconds * (flow.prompts @ outputs)
    work: Floats = (prefill + decode + reads) / BIN_SECONDS
    return work


def _trailing_mean(values: Floats, bins: int) -> Floats:
    """The mean of each value and the `bins − 1` values before it."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    begin = np.maximum(0, np.arange(1, len(values) + 1) - bins)
    means: Floats = (sums[1:] - sums[begin]) / (np.arange(1, len(values) + 1) - begin)
    return means
