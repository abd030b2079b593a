"""One vLLM engine as discrete events: continuous batching with a paged KV cache, without a GPU and without a clock.

A step decodes one token for every running sequence, then spends the rest of `max_num_batched_tokens` on prompts, first
come first served. It takes `T = a + b·P + c·B + d·K (+ e·I²)` seconds, where P is the prompt tokens computed in the
step, B the decoding sequences, K the KV tokens they hold, I the length of a prompt, and a to e the coefficients of the
engine's profile. When KV blocks run out, the newest sequence is preempted and computed again later. Consecutive
decode-only steps differ by d·B each, so a whole run of them is advanced in closed form: the cost of a simulation grows
with the number of requests, not with the number of tokens.

The caller owns time: it submits requests in order of arrival and advances the clock. The result does not depend on how
finely the caller advances, so a virtual clock and a real one agree.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

from forebay.simulation.engine.engine_stats import (
    UNBOUNDED_CONTEXT,
    Completion,
    EngineRequest,
    EngineStats,
    FinishReason,
)
from forebay.simulation.engine.engine_steps import DecodeRun, PrefillStep, Sequence
from forebay.simulation.engine.kv_blocks import KVBlocks
from forebay.simulation.engine.simulated_profile import EngineProfile


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """vLLM's scheduler settings."""

    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    block_size: int = 16
    kv_blocks: int | None = None
    """KV blocks of the engine; None for as many as the profile's KV tokens fill."""
    max_model_len: int = UNBOUNDED_CONTEXT

    def __post_init__(self) -> None:
        """Refuse settings that vLLM refuses at start."""
        if self.max_num_seqs < 1:
            raise ValueError(f"max_num_seqs: {self.max_num_seqs} is below 1; no request could ever run")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError(
                f"max_num_batched_tokens ({self.max_num_batched_tokens}) must be greater than or equal to "
                f"max_num_seqs ({self.max_num_seqs})."
            )


class ReplicaEngine:
    """One engine; the module docstring states its rules."""

    def __init__(
        self, profile: EngineProfile, limits: EngineLimits | None = None, *, every_histogram: bool = True
    ) -> None:
        """`every_histogram` is passed to `EngineStats`."""
        self.profile = profile
        self.limits = limits = limits or EngineLimits()
        total = profile.kv_tokens // limits.block_size if limits.kv_blocks is None else limits.kv_blocks
        self.blocks = KVBlocks(total, limits.block_size)
        self.stats = EngineStats(limits.max_model_len, every_histogram=every_histogram)
        self.clock = 0.0
        """The last step boundary."""
        self.now = 0.0
        """The time to which the caller has advanced the engine."""
        self._arrivals: deque[Sequence] = deque()
        self._waiting: deque[Sequence] = deque()
        self._running: dict[str, Sequence] = {}
        self._live: dict[str, Sequence] = {}
        self._aborted: list[Sequence] = []
        self._partial: Sequence | None = None
        """The newest running sequence, while its prompt is only partly computed. There is at most one."""
        self._decoding = 0
        self._context = 0
        """KV tokens held by all decoding sequences."""
        self._decode_steps = 0
        self._finishing: list[tuple[int, int, Sequence]] = []
        self._order = count()
        self._step: PrefillStep | None = None
        self._run: DecodeRun | None = None

    # State

    @property
    def running(self) -> int:
        """Sequences in the batch."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Requests that have reached the engine and are not in the batch."""
        return len(self._waiting) + sum(1 for sequence in self._arrivals if sequence.ready <= self.now)

    @property
    def outstanding(self) -> int:
        """Submitted requests that have not finished."""
        return len(self._live)

    @property
    def queued(self) -> int:
        """Submitted requests that are not in the batch, including those that have not reached the engine yet."""
        return len(self._live) - len(self._running)

    @property
    def queued_tokens(self) -> int:
        """Prompt tokens of the queued requests."""
        return sum(sequence.request.prompt_tokens for sequence in (*self._waiting, *self._arrivals))

    @property
    def kv_fraction(self) -> float:
        """Share of the KV cache in use, 0 to 1."""
        return self.blocks.used_fraction

    def generated(self, request_id: str) -> int:
        """Tokens generated so far for a live request."""
        return self._generated(self._live[request_id])

    @property
    def next_event_time(self) -> float | None:
        """When a prefill ends, a request finishes or an arrival reaches the engine next; None if nothing is due."""
        if self._step is not None:
            return self._step.end
        if self._run is not None:
            return self._run.boundary(self._run_end(self._run))
        return self._arrivals[0].ready if self._arrivals else None

    @property
    def next_step_time(self) -> float | None:
        """When the current step ends and tokens appear next; None if nothing is due."""
        return self.next_event_time if self._run is None else self._run.boundary(self._run.done + 1)

    # Requests and time

    def submit(self, request: EngineRequest) -> None:
        """Take a request. It must not arrive before `now` or before a request that was submitted earlier.

        A request that arrives exactly at `now`, without any overhead, misses the step that began at `now`.
        """
        longest = request.prompt_tokens + request.output_tokens - 1
        if request.prompt_tokens < 1 or request.output_tokens < 1:
            raise ValueError(f"request {request.id}: prompt and answer need at least one token each")
        if not 0 <= request.cached_tokens < request.prompt_tokens:
            raise ValueError(f"request {request.id}: cached tokens must leave one prompt token to compute")
        if self.blocks.blocks_for(longest) > self.blocks.usable:
            raise ValueError(
                f"request {request.id}: {longest} tokens do not fit a KV cache of "
                f"{self.blocks.usable * self.blocks.size}; shorten the request"
            )
        if request.id in self._live:
            raise ValueError(f"request {request.id}: the same id is still being served")
        ready = request.arrival + self.profile.request_overhead_seconds
        if request.arrival < self.now or (self._arrivals and ready < self._arrivals[-1].ready):
            raise ValueError(f"request {request.id}: arrival {request.arrival} lies before what was simulated already")
        sequence = Sequence(request, ready)
        self._live[request.id] = sequence
        self._arrivals.append(sequence)

    def abort(self, request_id: str) -> None:
        """The client left: drop the request now if it waits, or at the end of the current step if it runs."""
        sequence = self._live.get(request_id)
        if sequence is None:
            return
        if request_id in self._running:
            self._aborted.append(sequence)
            if self._run is not None:
                self._run.limit = min(self._run.limit, self._run.done + 1)
            return
        (self._waiting if sequence in self._waiting else self._arrivals).remove(sequence)
        self._close(sequence, "abort", self.now)

    def advance(self, until: float) -> list[Completion]:
        """Simulate up to `until`; return the requests that finished, in order."""
        finished: list[Completion] = []
        while True:
            if self._step is not None:
                if self._step.end > until:
                    break
                self._end_step(self._step, finished)
            elif self._run is not None:
                if not self._continue_run(self._run, until, finished):
                    break
            elif not self._begin(until):
                break
        self.now = max(self.now, until)
        return finished

    # The begin of a step: which sequences join and leave, and what the step computes

    def _begin(self, until: float) -> bool:
        """Schedule the step that starts at this boundary; False if none starts before `until`."""
        for sequence in self._aborted:
            if self._running.get(sequence.request.id) is sequence:
                self._remove(sequence)
                self._close(sequence, "abort", self.clock)
        self._aborted.clear()
        arrivals = self._arrivals
        if not self._running and not self._waiting:
            if not arrivals or arrivals[0].ready > until:
                return False
            self.clock = max(self.clock, arrivals[0].ready)
        while arrivals and arrivals[0].ready <= self.clock:
            self._waiting.append(arrivals.popleft())
        preempted = self._preempt_for_blocks()
        chunks = self._prefill_chunks(admit=not preempted)
        profile, decoding = self.profile, self._decoding
        duration = (
            profile.step_seconds
            + profile.sequence_seconds * decoding
            + profile.kv_token_seconds * (self._context + decoding)
        )
        if chunks:
            for sequence, chunk in chunks:
                duration += profile.prompt_token_seconds * chunk
                duration += profile.prompt_square_seconds * chunk * (2 * sequence.computed + chunk)
            self._step = PrefillStep(chunks, duration, self.clock + duration)
        else:
            while self._finishing[0][2].finish_step != self._finishing[0][0]:
                heappop(self._finishing)
            limit = 1 if preempted else self.blocks.steps_that_fit(self._finishing[0][0] - self._decode_steps)
            self._run = DecodeRun(self.clock, duration, profile.kv_token_seconds * decoding, limit)
        return True

    def _preempt_for_blocks(self) -> bool:
        """Preempt the newest sequences until the older ones have the blocks that this step needs."""
        preempted = False
        while self.blocks.free < self.blocks.demand():
            self._preempt(next(reversed(self._running.values())))
            preempted = True
        partial = self._partial
        if partial is not None:
            chunk = min(partial.target - partial.computed, self.limits.max_num_batched_tokens - self._decoding)
            if self.blocks.blocks_to_extend(partial.computed, chunk) > self.blocks.free - self.blocks.demand():
                self._preempt(partial)
                preempted = True
        return preempted

    def _prefill_chunks(self, *, admit: bool) -> list[tuple[Sequence, int]]:
        """Prompt tokens of this step: first the partly computed prompt, then new ones in order, while they fit."""
        budget = self.limits.max_num_batched_tokens - self._decoding
        chunks: list[tuple[Sequence, int]] = []
        if self._partial is not None and budget:
            budget -= self._take_chunk(self._partial, budget, chunks)
        while admit and budget and self._waiting and len(self._running) < self.limits.max_num_seqs:
            sequence = self._waiting[0]
            if self.blocks.blocks_for(sequence.target) > self.blocks.free - self.blocks.demand():
                break
            self._waiting.popleft()
            self._running[sequence.request.id] = sequence
            self.blocks.free -= self.blocks.blocks_for(sequence.computed)
            if sequence.scheduled is None:
                sequence.scheduled = self.clock
                self.stats.queried_tokens += sequence.request.prompt_tokens
                self.stats.cached_tokens += sequence.request.cached_tokens
            budget -= self._take_chunk(sequence, budget, chunks)
        return chunks

    def _take_chunk(self, sequence: Sequence, budget: int, chunks: list[tuple[Sequence, int]]) -> int:
        chunk = min(sequence.target - sequence.computed, budget)
        self.blocks.free -= self.blocks.blocks_to_extend(sequence.computed, chunk)
        self._partial = sequence if sequence.computed + chunk < sequence.target else None
        chunks.append((sequence, chunk))
        return chunk

    # The end of steps

    def _end_step(self, step: PrefillStep, finished: list[Completion]) -> None:
        self._step = None
        self.clock = step.end
        prompts, outputs = 0, self._decoding
        if outputs:
            self.stats.token_seconds.observe(step.duration, outputs)
        self._grow(1)
        self._finish_decoded(finished)
        for sequence, chunk in step.chunks:
            sequence.computed += chunk
            if sequence.computed < sequence.target:
                continue
            outputs += 1
            self.stats.generation_tokens += 1
            if sequence.first_token is None:
                prompts += sequence.request.prompt_tokens
                sequence.first_token = step.end
                self.stats.first_token_seconds.observe(step.end - sequence.request.arrival)
            else:
                self.stats.token_seconds.observe(step.end - sequence.last_token)
            self._start_decoding(sequence, finished)
        self.stats.prompt_tokens += prompts
        if outputs:
            self.stats.step_tokens.observe(prompts + outputs)

    def _continue_run(self, run: DecodeRun, until: float, finished: list[Completion]) -> bool:
        """Take the steps of a run that end by `until`; False if the run continues after that."""
        end = self._run_end(run)
        done = min(end, max(run.done, run.steps_by(until)))
        steps = done - run.done
        if steps:
            decoding = self._decoding
            first = run.first + run.slope * run.done
            self.stats.token_seconds.observe_ramp(first, run.slope, steps, decoding)
            self.stats.step_tokens.observe(decoding, steps)
            run.done = done
            self.clock = run.boundary(done)
            self._grow(steps)
        if done < end:
            return False
        self._run = None
        self._finish_decoded(finished)
        return True

    def _run_end(self, run: DecodeRun) -> int:
        """The number of steps after which a run ends: at a finished sequence, a full cache or a new arrival."""
        if self._arrivals:
            return min(run.limit, max(run.done, run.steps_until(self._arrivals[0].ready)))
        return run.limit

    def _grow(self, steps: int) -> None:
        self._decode_steps += steps
        self._context += steps * self._decoding
        self.stats.generation_tokens += steps * self._decoding
        self.blocks.grow(steps)

    # One sequence

    def _generated(self, sequence: Sequence) -> int:
        return sequence.generated + (0 if sequence.joined is None else self._decode_steps - sequence.joined)

    def _start_decoding(self, sequence: Sequence, finished: list[Completion]) -> None:
        """Start to decode: the prompt is computed and one more token has been generated."""
        sequence.generated += 1
        sequence.joined = self._decode_steps
        self.blocks.join(sequence.computed)
        self._decoding += 1
        self._context += sequence.computed
        remaining = sequence.request.output_tokens - sequence.generated
        if remaining == 0:
            self._complete(sequence, finished)
            return
        sequence.finish_step = self._decode_steps + remaining
        heappush(self._finishing, (sequence.finish_step, next(self._order), sequence))

    def _finish_decoded(self, finished: list[Completion]) -> None:
        heap = self._finishing
        while heap and heap[0][0] <= self._decode_steps:
            step, _, sequence = heappop(heap)
            if sequence.finish_step == step:
                self._complete(sequence, finished)

    def _complete(self, sequence: Sequence, finished: list[Completion]) -> None:
        self._remove(sequence)
        finished.append(self._close(sequence, sequence.request.stop_reason, self.clock))

    def _preempt(self, sequence: Sequence) -> None:
        """Free the sequence's blocks and put it at the head of the queue, to be computed again."""
        if sequence.joined is not None:
            sequence.last_token = self.clock
        self._remove(sequence)
        sequence.target = sequence.request.prompt_tokens + sequence.generated
        sequence.computed = sequence.request.cached_tokens
        sequence.preemptions += 1
        self.stats.preemptions += 1
        self._waiting.appendleft(sequence)

    def _remove(self, sequence: Sequence) -> None:
        """Take a sequence out of the batch: free its blocks, keep the count of its generated tokens."""
        del self._running[sequence.request.id]
        if sequence.joined is None:
            self.blocks.free += self.blocks.blocks_for(sequence.computed)
            self._partial = None
            return
        held_tokens = sequence.computed + self._decode_steps - sequence.joined
        sequence.generated = self._generated(sequence)
        sequence.joined = None
        sequence.finish_step = -1
        self.blocks.leave(held_tokens)
        self._decoding -= 1
        self._context -= held_tokens

    def _close(self, sequence: Sequence, reason: FinishReason, time: float) -> Completion:
        del self._live[sequence.request.id]
        completion = Completion(
            request=sequence.request,
            reason=reason,
            tokens=sequence.generated,
            finished=time,
            scheduled=sequence.scheduled,
            first_token=sequence.first_token,
            preemptions=sequence.preemptions,
        )
        self.stats.record(completion, sequence.ready)
        return completion
