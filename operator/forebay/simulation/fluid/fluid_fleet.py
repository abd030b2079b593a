"""The replicas of one service as fluids: how many sequences run and wait, and how far their answers are.

Time advances in intervals of 2.5 s, the steps of a `Flow`. In each, a replica is solved from the time of an engine
step, `T = a + b·P + c·B + d·K`, where P is the prompt tokens computed, B the decoding sequences, K the KV tokens they
hold, and a to d the coefficients of the profile. In an interval of S seconds the prompts that arrived take `b·P`
seconds; the rest of the interval holds `(S − b·P)/(a + c·B + d·K)` engine steps, each at most `max_num_batched_tokens`
wide. Requests that do not fit wait.

The sequences of a class of answers pass through three stages of equal length, at the rate of the engine steps: an
answer of O tokens needs O − 1 steps after its first token. The passage is solved exactly within the interval. What is
known of sequences (prompt tokens held, time and steps so far, whether the first token was in time) moves with them in
proportion.

A row of the arrays is a replica, so an interval costs the same few array operations for any number of replicas.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from forebay.capacity.model.replica_model import Promise
from forebay.simulation.cluster.served_model import ServedModel
from forebay.simulation.fluid.fluid_counters import FluidCounters, StepWork
from forebay.simulation.fluid.fluid_first_token import MAX_BUSY_SHARE, FirstTokenTimes
from forebay.simulation.fluid.fluid_latency import InterTokenSpread, engine_of, normal_cdf
from forebay.simulation.traffic.flow import FlowLengths
from forebay.simulation.traffic.traces import Floats

STAGES: Final = 3
EPSILON: Final = 1e-9
"""Added to divisors; smaller numbers of requests count as none."""
MIN_QUEUE: Final = 0.01
"""Waiting requests that count as a queue."""
MIN_TIMED_ANSWER: Final = 1.5
"""Mean answer in tokens from which on a class has a time between tokens."""


class BatchColumn(IntEnum):
    """The quantities that are tracked for sequences in the batch."""

    SEQUENCES = 0
    PROMPTS = 1
    """Prompt tokens that the sequences hold."""
    SECONDS = 2
    """Time since the first token, summed over the sequences."""
    STEPS = 3
    """Engine steps since the first token, summed over the sequences."""
    IN_TIME = 4
    """Sequences whose first token was in time."""
    BATCH = 5
    """Sequences of batch work."""
    BATCH_IN_TIME = 6
    """Sequences of batch work whose first token was in time."""


class QueueColumn(IntEnum):
    """The quantities that are tracked for waiting requests."""

    REQUESTS = 0
    PROMPTS = 1
    """Prompt tokens."""
    BATCH = 2
    """Requests of batch work."""
    COMPUTED = 3
    """Prompt tokens that no prefix cache has."""


@dataclass(frozen=True, slots=True)
class EndedRequests:
    """Requests of all replicas that ended within an interval."""

    requests: float
    in_time: float
    batch: float
    batch_in_time: float


class FluidFleet:
    """The state of all replicas. `start` allocates a row for a replica, `stop` frees it."""

    def __init__(self, model: ServedModel, lengths: FlowLengths, promise: Promise, step_seconds: float) -> None:
        self.profile, self.limits, self.promise = model.profile, model.limits, promise
        self.kv_tokens = engine_of(model.profile, model.limits).kv_tokens
        self.first = FirstTokenTimes.of(model.profile, model.limits, lengths)
        self.between = InterTokenSpread.of(model.profile, lengths)
        self.outputs = lengths.outputs
        self.steps_per_answer = np.maximum(lengths.outputs - 1, 0.3)
        self.progress = lengths.outputs[:, None] * (np.arange(STAGES) + 0.5) / STAGES
        prefill = model.prefill_seconds(lengths.prompts, lengths.prompts)
        self.prompt_seconds = float(prefill.sum() / max(1.0, lengths.prompts.sum()))
        """Seconds per prompt token, including the extra cost of long prompts."""
        self.counters = FluidCounters(step_seconds, np.quantile(prefill, (0.125, 0.375, 0.625, 0.875)))
        self.rows = 0
        self.held = np.zeros((len(BatchColumn), 0, len(lengths.outputs), STAGES))
        self.queue = np.zeros((len(QueueColumn), 0, len(lengths.outputs)))
        self.arrived = np.zeros(0)
        self.leaving = np.zeros(0)
        """Sequences that ended in the last interval, by row."""
        self._weights = np.stack([np.ones(self.progress.size), self.progress.ravel()], axis=1)
        self._measure()
        self._queues: dict[int, deque[tuple[float, float]]] = {}
        """(time, requests that had arrived by then) of the intervals whose requests still wait, by row."""
        self._free: list[int] = []

    # Rows

    def start(self) -> int:
        """Allocate a row for a replica with empty counters."""
        if self._free:
            return self._free.pop()
        row = self.rows
        self.rows += 1
        self.held = _with_a_row(self.held, 1)
        self.queue = _with_a_row(self.queue, 1)
        self.arrived, self.leaving = _with_a_row(self.arrived, 0), _with_a_row(self.leaving, 0)
        self.counters.add_row()
        self._measure()
        return row

    def stop(self, row: int) -> float:
        """Free the row of a replica; return the number of requests that were lost with it."""
        lost = float(self.outstanding[row])
        self.held[:, row] = 0.0
        self.queue[:, row] = 0.0
        self.arrived[row] = self.leaving[row] = 0.0
        self.counters.clear_row(row)
        self._measure()
        self._queues.pop(row, None)
        self._free.append(row)
        return lost

    # Totals per replica, updated by every interval

    def _measure(self) -> None:
        held = self.held[BatchColumn.SEQUENCES].reshape(self.rows, self.progress.size) @ self._weights
        self.sequences = held[:, 0]
        self.held_tokens = held[:, 1] + self.held[BatchColumn.PROMPTS].sum(axis=(1, 2))
        self.waiting = self.queue[QueueColumn.REQUESTS].sum(axis=1)
        self.outstanding = self.sequences + self.waiting

    # One interval

    def step(self, now: float, seconds: float, arrivals: Floats, new_share: float = 1.0) -> EndedRequests:
        """Advance all replicas by `seconds`, up to `now`; return the requests that ended.

        `arrivals` are the requests that arrive in the interval, by [QueueColumn, row, class]. `new_share` is the share
        of them that the gateway did not hold before.
        """
        self.queue += arrivals
        self.arrived += arrivals[QueueColumn.REQUESTS].sum(axis=1)
        sequences, profile = self.sequences, self.profile
        base = profile.step_seconds + profile.sequence_seconds * sequences + profile.kv_token_seconds * self.held_tokens
        steps, computed = self._prefill(seconds, base)
        leaving = self._advance_stages(seconds, steps)
        new = self.queue * np.minimum(computed, self._free_slot_share())[:, None]
        self.queue -= new
        sums = new.sum(axis=2)
        token = seconds / steps
        wait = self._waits(now)
        median, deviation = self.first.at(np.clip(1 - profile.step_seconds / token, 0.0, MAX_BUSY_SHARE))
        time_left = np.log(np.maximum(self.promise.time_to_first_token - wait, 1e-9))
        in_time = new_share * normal_cdf((time_left - median) / deviation)
        leaving += self._start_new(self._new_sequences(new, in_time, seconds, steps), steps)
        ended, token_times = self._ended(leaving, base, token, sequences, wait + np.exp(median))
        self._preempt()
        admitted = sums[QueueColumn.REQUESTS]
        self.counters.note(
            StepWork(
                admitted=admitted,
                wait=wait,
                median=median,
                deviation=deviation,
                steps=steps,
                base=base,
                sequences=(sequences + self.sequences) / 2,
                prefilled=sums[QueueColumn.COMPUTED],
                ended=self.leaving,
                ended_share=np.minimum(1.0, self.leaving / np.maximum(sequences + admitted, EPSILON)),
                ended_prompts=leaving[BatchColumn.PROMPTS].sum(axis=1),
                ended_outputs=leaving[BatchColumn.SEQUENCES] @ self.outputs,
                ended_by_class=leaving[BatchColumn.SEQUENCES],
                token_seconds=token_times[0],
                token_deviation=token_times[1],
            )
        )
        return ended

    def _prefill(self, seconds: float, base: Floats) -> tuple[Floats, Floats]:
        """Engine steps in the interval, and the share of the waiting requests that the engine can prefill in it.

        Both the step budget and the free KV cache limit that share. The number of prompts to compute is estimated from
        the batch slots that became free in the last interval.
        """
        sums = self.queue.sum(axis=2)
        tokens, sequences = sums[QueueColumn.COMPUTED], self.sequences
        slots = np.maximum(0.0, self.limits.max_num_seqs - sequences + self.leaving)
        free_kv = np.maximum(0.0, self.kv_tokens - self.held_tokens)
        fitting = np.minimum(1.0, free_kv / (sums[QueueColumn.PROMPTS] + EPSILON))
        wanted = tokens * np.minimum(fitting, slots / (sums[QueueColumn.REQUESTS] + EPSILON))
        budget = np.maximum(1.0, self.limits.max_num_batched_tokens - sequences)
        unlimited_steps = (seconds - self.prompt_seconds * wanted) / base
        fits = wanted <= unlimited_steps * budget
        if fits.all():
            return unlimited_steps, fitting
        full_steps = seconds / (base + self.prompt_seconds * budget)
        computed = np.minimum(fitting, full_steps * budget / np.maximum(tokens, EPSILON))
        return np.where(fits, unlimited_steps, full_steps), np.where(fits, fitting, computed)

    def _waits(self, now: float) -> Floats:
        """How long the requests that enter the batch now have waited, first come first served."""
        waits = np.zeros(self.rows)
        queued: Floats = self.queue[QueueColumn.REQUESTS].sum(axis=1)
        for row in {*np.flatnonzero(queued > MIN_QUEUE).tolist(), *self._queues}:
            intervals = self._queues.setdefault(row, deque())
            intervals.append((now, float(self.arrived[row])))
            served = self.arrived[row] - queued[row]
            while len(intervals) > 1 and intervals[0][1] <= served + EPSILON:
                intervals.popleft()
            waits[row] = max(0.0, now - intervals[0][0])
            if queued[row] <= MIN_QUEUE:
                del self._queues[row]
        return waits

    def _new_sequences(self, new: Floats, in_time: Floats, seconds: float, steps: Floats) -> Floats:
        """The sequences that enter the batch, by [BatchColumn, row, class]; each at a random time in the interval."""
        count, batch = new[QueueColumn.REQUESTS], new[QueueColumn.BATCH]
        share = in_time[:, None]
        return np.stack(
            [
                count,
                new[QueueColumn.PROMPTS],
                count * seconds / 2,
                count * steps[:, None] / 2,
                count * share,
                batch,
                batch * share,
            ]
        )

    def _free_slot_share(self) -> Floats:
        """Share of the waiting requests for which the batch has free slots."""
        free = np.maximum(0.0, self.limits.max_num_seqs - self.held[BatchColumn.SEQUENCES].sum(axis=(1, 2)))
        share: Floats = np.minimum(1.0, free / (self.queue[QueueColumn.REQUESTS].sum(axis=1) + EPSILON))
        return share

    def _advance_stages(self, seconds: float, steps: Floats) -> Floats:
        """Move sequences through their stages; return those that have left the last one."""
        held = self.held
        held[BatchColumn.SECONDS] += held[BatchColumn.SEQUENCES] * seconds
        held[BatchColumn.STEPS] += held[BatchColumn.SEQUENCES] * steps[:, None, None]
        before = held.sum(axis=3)
        x = STAGES * steps[:, None] / self.steps_per_answer
        stay = np.exp(-x)
        once, twice = x * stay, x * x / 2 * stay
        first, second, third = held[..., 0], held[..., 1], held[..., 2]
        held[..., 2] = third * stay + second * once + first * twice
        held[..., 1] = second * stay + first * once
        held[..., 0] = first * stay
        leaving: Floats = np.maximum(before - held.sum(axis=3), 0.0)
        return leaving

    def _start_new(self, entering: Floats, steps: Floats) -> Floats:
        """Add new sequences, spread over the interval; return those of them that have ended already."""
        x = np.maximum(STAGES * steps[:, None] / self.steps_per_answer, 1e-6)
        stay = np.exp(-x)
        once, twice = x * stay, x * x / 2 * stay
        whole = 1 - stay
        shares = np.stack([whole, whole - once, whole - once - twice], axis=-1) / x[..., None]
        self.held += entering[..., None] * shares
        leaving: Floats = entering * np.maximum(0.0, 1 - shares.sum(axis=-1))
        return leaving

    def _preempt(self) -> None:
        """If the KV cache is too full, move the newest sequences back to the queue, to be computed again."""
        self._measure()
        over = self.held_tokens - self.kv_tokens
        if not len(over) or over.max() <= 0:
            return
        newest = self.held[..., 0]
        tokens = newest[BatchColumn.PROMPTS] + newest[BatchColumn.SEQUENCES] * self.progress[:, 0]
        share = np.clip(over / np.maximum(tokens.sum(axis=1), EPSILON), 0.0, 1.0)[:, None]
        self.queue[QueueColumn.REQUESTS] += newest[BatchColumn.SEQUENCES] * share
        self.queue[QueueColumn.PROMPTS] += newest[BatchColumn.PROMPTS] * share
        self.queue[QueueColumn.COMPUTED] += newest[BatchColumn.PROMPTS] * share
        self.queue[QueueColumn.BATCH] += newest[BatchColumn.BATCH] * share
        self.counters.preempted((newest[BatchColumn.SEQUENCES] * share).sum(axis=1))
        newest *= 1 - share
        self._measure()

    def _ended(
        self, leaving: Floats, base: Floats, token: Floats, sequences: Floats, first: Floats
    ) -> tuple[EndedRequests, tuple[Floats, Floats]]:
        """The requests that ended, and their time between tokens by row and class: (mean, deviation of its log)."""
        self.leaving = leaving[BatchColumn.SEQUENCES].sum(axis=1)
        steps = leaving[BatchColumn.STEPS]
        mean = np.where(steps > EPSILON, leaving[BatchColumn.SECONDS] / np.maximum(steps, EPSILON), token[:, None])
        limit: Floats = np.array(self.promise.inter_token_latency)
        if self.promise.end_to_end is not None:
            limit = np.minimum(
                limit, np.maximum(1e-6, self.promise.end_to_end - first[:, None]) / self.steps_per_answer
            )
        deviation = self.between.deviation(mean, base[:, None], sequences[:, None], self.steps_per_answer)
        kept = np.where(self.outputs > MIN_TIMED_ANSWER, self.between.in_time(mean, deviation, limit), 1.0)
        return (
            EndedRequests(
                float(self.leaving.sum()),
                float((leaving[BatchColumn.IN_TIME] * kept).sum()),
                float(leaving[BatchColumn.BATCH].sum()),
                float((leaving[BatchColumn.BATCH_IN_TIME] * kept).sum()),
            ),
            (mean, deviation),
        )


def _with_a_row(array: Floats, axis: int) -> Floats:
    shape = list(array.shape)
    shape[axis] = 1
    return np.concatenate([array, np.zeros(shape)], axis=axis)
