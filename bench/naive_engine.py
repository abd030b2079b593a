"""A step-by-step engine: slow and obviously right, the reference for the fast replica engine.

It follows vLLM's scheduler literally: it walks the running list, gives each sequence its tokens and blocks, preempts
from the tail when blocks run out, then admits from the queue. It skips no step, so every step costs a loop over the
batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from forebay.simulation.engine.engine_stats import EngineRequest
from forebay.simulation.engine.replica_engine import EngineLimits
from forebay.simulation.engine.simulated_profile import EngineProfile


@dataclass(slots=True)
class NaiveSequence:
    """One request and its state in the engine."""

    request: EngineRequest
    computed: int = 0
    generated: int = 0
    scheduled: float | None = None
    first_token: float | None = None
    finished: float | None = None
    preemptions: int = 0
    blocks: int = 0
    decoding: bool = False

    @property
    def tokens(self) -> int:
        """Prompt tokens and the tokens generated so far."""
        return self.request.prompt_tokens + self.generated


class NaiveEngine:
    """Runs requests until all are finished."""

    def __init__(self, profile: EngineProfile, limits: EngineLimits) -> None:
        self.profile = profile
        self.limits = limits
        total = profile.kv_tokens // limits.block_size if limits.kv_blocks is None else limits.kv_blocks
        self.free = total - 1
        self.clock = 0.0
        self.steps = 0
        self.preemptions = 0
        self.running: list[NaiveSequence] = []
        self.waiting: deque[NaiveSequence] = deque()

    def run(self, requests: Iterable[EngineRequest]) -> list[NaiveSequence]:
        """All requests, in order of finish."""
        overhead = self.profile.request_overhead_seconds
        arrivals = deque(NaiveSequence(request, computed=request.cached_tokens) for request in requests)
        finished: list[NaiveSequence] = []
        while arrivals or self.waiting or self.running:
            if not self.waiting and not self.running:
                self.clock = max(self.clock, arrivals[0].request.arrival + overhead)
            while arrivals and arrivals[0].request.arrival + overhead <= self.clock:
                self.waiting.append(arrivals.popleft())
            finished += self._step()
        return finished

    def _step(self) -> list[NaiveSequence]:
        planned = self._schedule()
        profile = self.profile
        duration = profile.step_seconds
        for sequence, tokens in planned:
            if sequence.decoding:
                duration += profile.sequence_seconds + profile.kv_token_seconds * sequence.tokens
            else:
                duration += profile.prompt_token_seconds * tokens
                duration += profile.prompt_square_seconds * ((sequence.computed + tokens) ** 2 - sequence.computed**2)
        self.clock += duration
        self.steps += 1
        done = []
        for sequence, tokens in planned:
            sequence.computed += tokens
            if sequence.computed < sequence.tokens:
                continue
            sequence.generated += 1
            sequence.decoding = True
            if sequence.first_token is None:
                sequence.first_token = self.clock
            if sequence.generated == sequence.request.output_tokens:
                sequence.finished = self.clock
                self.free += sequence.blocks
                self.running.remove(sequence)
                done.append(sequence)
        return done

    def _schedule(self) -> list[tuple[NaiveSequence, int]]:
        budget = self.limits.max_num_batched_tokens
        planned: list[tuple[NaiveSequence, int]] = []
        preempted = False
        index = 0
        while index < len(self.running):
            sequence = self.running[index]
            tokens = min(sequence.tokens - sequence.computed, budget)
            while self._missing(sequence, sequence.computed + tokens) > self.free:
                preempted = True
                if self._preempt_newest() is sequence:
                    return planned
            self._hold(sequence, sequence.computed + tokens)
            if tokens:
                planned.append((sequence, tokens))
            budget -= tokens
            index += 1
        while not preempted and self.waiting and budget and len(self.running) < self.limits.max_num_seqs:
            sequence = self.waiting[0]
            if self._missing(sequence, sequence.tokens) > self.free:
                break
            self.waiting.popleft()
            self.running.append(sequence)
            if sequence.scheduled is None:
                sequence.scheduled = self.clock
            tokens = min(sequence.tokens - sequence.computed, budget)
            self._hold(sequence, sequence.computed + tokens)
            planned.append((sequence, tokens))
            budget -= tokens
        return planned

    def _missing(self, sequence: NaiveSequence, tokens: int) -> int:
        return -(-tokens // self.limits.block_size) - sequence.blocks

    def _hold(self, sequence: NaiveSequence, tokens: int) -> None:
        missing = self._missing(sequence, tokens)
        self.free -= missing
        sequence.blocks += missing

    def _preempt_newest(self) -> NaiveSequence:
        newest = self.running.pop()
        self.free += newest.blocks
        newest.blocks = 0
        newest.decoding = False
        newest.computed = newest.request.cached_tokens
        newest.preemptions += 1
        self.preemptions += 1
        self.waiting.appendleft(newest)
        return newest
