"""The replicas of one service as fluids: how many sequences run, wait, and where in their answers they are.

Every second of a replica is solved from `T = a + b·P + c·B + d·K`. The prompts that came take `b·P` of the second, the
rest holds `(1 − b·P)/(a + c·B + d·K)` steps, at most `max_num_batched_tokens` wide; what does not fit waits. Sequences
of a class of answers pass three stages of equal length, as many as its steps carry (an answer of O tokens needs O − 1
steps more), which is solved exactly within the second. What is known of sequences (prompt tokens held, time and steps
lived through, whether the first token was in time) moves along with them in proportion.

A row of the arrays is a replica, so that a second of a fleet costs the same few operations on arrays whatever its size.
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
"""Requests: less than that is none."""
MIN_QUEUE: Final = 0.01
"""Requests that wait: fewer are no queue."""
MIN_TIMED_ANSWER: Final = 1.5
"""A mean answer below that has no time between tokens."""


class BatchColumn(IntEnum):
    """What is known of sequences in the batch."""

    SEQUENCES = 0
    PROMPTS = 1
    """Prompt tokens that they hold."""
    SECONDS = 2
    """Lived through."""
    STEPS = 3
    IN_TIME = 4
    """Whose first token came in time."""
    BATCH = 5
    BATCH_IN_TIME = 6


class QueueColumn(IntEnum):
    """What is known of requests that wait."""

    REQUESTS = 0
    PROMPTS = 1
    BATCH = 2
    COMPUTED = 3
    """Prompt tokens that no cache spares."""


@dataclass(frozen=True, slots=True)
class EndedRequests:
    """Requests that ended within a step, of all replicas."""

    requests: float
    in_time: float
    batch: float
    batch_in_time: float


class FluidFleet:
    """Rows are taken with `start` and given back with `stop`."""

    def __init__(self, model: ServedModel, lengths: FlowLengths, promise: Promise, step_seconds: float) -> None:
        self.profile, self.limits, self.promise = model.profile, model.limits, promise
        self.kv_tokens = engine_of(model.profile, model.limits).kv_tokens
        self.first = FirstTokenTimes.of(model.profile, model.limits, lengths)
        self.between = InterTokenSpread.of(model.profile, lengths)
        self.outputs = lengths.outputs
        self.steps_each = np.maximum(lengths.outputs - 1, 0.3)
        self.progress = lengths.outputs[:, None] * (np.arange(STAGES) + 0.5) / STAGES
        prefill = model.prefill_seconds(lengths.prompts, lengths.prompts)
        self.prompt_seconds = float(prefill.sum() / max(1.0, lengths.prompts.sum()))
        """Of one prompt token, what longer prompts cost more included."""
        self.counters = FluidCounters(step_seconds, np.quantile(prefill, (0.125, 0.375, 0.625, 0.875)))
        self.rows = 0
        self.held = np.zeros((len(BatchColumn), 0, len(lengths.outputs), STAGES))
        self.queue = np.zeros((len(QueueColumn), 0, len(lengths.outputs)))
        self.arrived = np.zeros(0)
        self.leaving = np.zeros(0)
        """Sequences that ended in the last second."""
        self._weights = np.stack([np.ones(self.progress.size), self.progress.ravel()], axis=1)
        self._measure()
        self._queues: dict[int, deque[tuple[float, float]]] = {}
        """(time, arrived by then) of the seconds whose requests still wait, by row."""
        self._free: list[int] = []

    # Rows

    def start(self) -> int:
        """A replica with empty counters."""
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
        """The replica is gone; how many requests went with it."""
        lost = float(self.outstanding[row])
        self.held[:, row] = 0.0
        self.queue[:, row] = 0.0
        self.arrived[row] = self.leaving[row] = 0.0
        self.counters.clear_row(row)
        self._measure()
        self._queues.pop(row, None)
        self._free.append(row)
        return lost

    # What can be seen; kept current by every step

    def _measure(self) -> None:
        held = self.held[BatchColumn.SEQUENCES].reshape(self.rows, self.progress.size) @ self._weights
        self.sequences = held[:, 0]
        self.held_tokens = held[:, 1] + self.held[BatchColumn.PROMPTS].sum(axis=(1, 2))
        self.waiting = self.queue[QueueColumn.REQUESTS].sum(axis=1)
        self.outstanding = self.sequences + self.waiting

    # One second

    def step(self, now: float, seconds: float, arrivals: Floats, fresh: float = 1.0) -> EndedRequests:
        """Work for so long, up to `now`, on what is there and what `arrivals` ([Queued, row, class]) meanwhile.

        `fresh` is the share of it that was not held anywhere before.
        """
        self.queue += arrivals
        self.arrived += arrivals[QueueColumn.REQUESTS].sum(axis=1)
        sequences, profile = self.sequences, self.profile
        base = profile.step_seconds + profile.sequence_seconds * sequences + profile.kv_token_seconds * self.held_tokens
        steps, computed = self._prefill(seconds, base)
        left = self._advance_stages(seconds, steps)
        new = self.queue * np.minimum(computed, self._free_slot_share())[:, None]
        self.queue -= new
        sums = new.sum(axis=2)
        token = seconds / steps
        wait = self._waits(now)
        median, deviation = self.first.at(np.clip(1 - profile.step_seconds / token, 0.0, MAX_BUSY_SHARE))
        left_time = np.log(np.maximum(self.promise.time_to_first_token - wait, 1e-9))
        in_time = fresh * normal_cdf((left_time - median) / deviation)
        left += self._start_new(self._new_sequences(new, in_time, seconds, steps), steps)
        ended, by_class = self._ended(left, base, token, sequences, wait + np.exp(median))
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
                ended_prompts=left[BatchColumn.PROMPTS].sum(axis=1),
                ended_outputs=left[BatchColumn.SEQUENCES] @ self.outputs,
                ended_by_class=left[BatchColumn.SEQUENCES],
                token_seconds=by_class[0],
                token_deviation=by_class[1],
            )
        )
        return ended

    def _prefill(self, seconds: float, base: Floats) -> tuple[Floats, Floats]:
        """Steps in the time, and the share of the waiting requests that prefill and the KV cache have room for.

        How many prompts there will be to compute is estimated from the places that became free in the last second.
        """
        sums = self.queue.sum(axis=2)
        tokens, sequences = sums[QueueColumn.COMPUTED], self.sequences
        places = np.maximum(0.0, self.limits.max_num_seqs - sequences + self.leaving)
        room = np.maximum(0.0, self.kv_tokens - self.held_tokens)
        fitting = np.minimum(1.0, room / (sums[QueueColumn.PROMPTS] + EPSILON))
        wanted = tokens * np.minimum(fitting, places / (sums[QueueColumn.REQUESTS] + EPSILON))
        budget = np.maximum(1.0, self.limits.max_num_batched_tokens - sequences)
        free = (seconds - self.prompt_seconds * wanted) / base
        fits = wanted <= free * budget
        if fits.all():
            return free, fitting
        full = seconds / (base + self.prompt_seconds * budget)
        done = np.minimum(fitting, full * budget / np.maximum(tokens, EPSILON))
        return np.where(fits, free, full), np.where(fits, fitting, done)

    def _waits(self, now: float) -> Floats:
        """How long those that are taken now have waited, first come first served."""
        waits = np.zeros(self.rows)
        left: Floats = self.queue[QueueColumn.REQUESTS].sum(axis=1)
        for row in {*np.flatnonzero(left > MIN_QUEUE).tolist(), *self._queues}:
            line = self._queues.setdefault(row, deque())
            line.append((now, float(self.arrived[row])))
            served = self.arrived[row] - left[row]
            while len(line) > 1 and line[0][1] <= served + EPSILON:
                line.popleft()
            waits[row] = max(0.0, now - line[0][0])
            if left[row] <= MIN_QUEUE:
                del self._queues[row]
        return waits

    def _new_sequences(self, new: Floats, in_time: Floats, seconds: float, steps: Floats) -> Floats:
        """What the batch takes in: each came at a random moment of the second."""
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
        """Share of the waiting requests that the batch has places for."""
        free = np.maximum(0.0, self.limits.max_num_seqs - self.held[BatchColumn.SEQUENCES].sum(axis=(1, 2)))
        share: Floats = np.minimum(1.0, free / (self.queue[QueueColumn.REQUESTS].sum(axis=1) + EPSILON))
        return share

    def _advance_stages(self, seconds: float, steps: Floats) -> Floats:
        """Sequences go on through their stages; what has left the last one."""
        held = self.held
        held[BatchColumn.SECONDS] += held[BatchColumn.SEQUENCES] * seconds
        held[BatchColumn.STEPS] += held[BatchColumn.SEQUENCES] * steps[:, None, None]
        before = held.sum(axis=3)
        x = STAGES * steps[:, None] / self.steps_each
        stay = np.exp(-x)
        once, twice = x * stay, x * x / 2 * stay
        first, second, third = held[..., 0], held[..., 1], held[..., 2]
        held[..., 2] = third * stay + second * once + first * twice
        held[..., 1] = second * stay + first * once
        held[..., 0] = first * stay
        left: Floats = np.maximum(before - held.sum(axis=3), 0.0)
        return left

    def _start_new(self, entering: Floats, steps: Floats) -> Floats:
        """New sequences, spread over the time, begin; what of them has left already."""
        x = np.maximum(STAGES * steps[:, None] / self.steps_each, 1e-6)
        stay = np.exp(-x)
        once, twice = x * stay, x * x / 2 * stay
        whole = 1 - stay
        shares = np.stack([whole, whole - once, whole - once - twice], axis=-1) / x[..., None]
        self.held += entering[..., None] * shares
        left: Floats = entering * np.maximum(0.0, 1 - shares.sum(axis=-1))
        return left

    def _preempt(self) -> None:
        """When the KV cache is too full, the newest go back to the queue and are computed again."""
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
        self, left: Floats, base: Floats, token: Floats, sequences: Floats, first: Floats
    ) -> tuple[EndedRequests, tuple[Floats, Floats]]:
        """What ended, and (mean, deviation of its logarithm) of its time between tokens, by row and class."""
        self.leaving = left[BatchColumn.SEQUENCES].sum(axis=1)
        steps = left[BatchColumn.STEPS]
        mean = np.where(steps > EPSILON, left[BatchColumn.SECONDS] / np.maximum(steps, EPSILON), token[:, None])
        limit: Floats = np.array(self.promise.inter_token_latency)
        if self.promise.end_to_end is not None:
            limit = np.minimum(limit, np.maximum(1e-6, self.promise.end_to_end - first[:, None]) / self.steps_each)
        deviation = self.between.deviation(mean, base[:, None], sequences[:, None], self.steps_each)
        kept = np.where(self.outputs > MIN_TIMED_ANSWER, self.between.in_time(mean, deviation, limit), 1.0)
        return (
            EndedRequests(
                float(self.leaving.sum()),
                float((left[BatchColumn.IN_TIME] * kept).sum()),
                float(left[BatchColumn.BATCH].sum()),
                float((left[BatchColumn.BATCH_IN_TIME] * kept).sum()),
            ),
            (mean, deviation),
        )


def _with_a_row(array: Floats, axis: int) -> Floats:
    shape = list(array.shape)
    shape[axis] = 1
    return np.concatenate([array, np.zeros(shape)], axis=axis)
