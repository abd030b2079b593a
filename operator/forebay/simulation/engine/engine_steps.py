"""The state that an engine works on: a sequence, a step with prompt tokens, and a run of steps that only decode."""

from __future__ import annotations

from math import sqrt

from forebay.simulation.engine.engine_stats import EngineRequest


class Sequence:
    """A request inside the engine, from the waiting queue to its last token."""

    __slots__ = ("computed", "finish_step", "first_token", "generated", "joined", "last_token", "preemptions", "ready",
                 "request", "scheduled", "target")  # fmt: skip

    def __init__(self, request: EngineRequest, ready: float) -> None:
        self.request = request
        self.ready = ready
        self.target = request.prompt_tokens
        """Tokens to prefill: the prompt and, after a preemption, the tokens that had been generated."""
        self.computed = request.cached_tokens
        self.generated = 0
        """Tokens generated before `joined`."""
        self.joined: int | None = None
        """The engine's decode step count when this sequence began to decode; None while it waits or prefills."""
        self.finish_step = -1
        self.scheduled: float | None = None
        self.first_token: float | None = None
        self.last_token = 0.0
        self.preemptions = 0


class PrefillStep:
    """A step with prompt tokens that has begun and not ended."""

    __slots__ = ("chunks", "duration", "end")

    def __init__(self, chunks: list[tuple[Sequence, int]], duration: float, end: float) -> None:
        self.chunks = chunks
        self.duration = duration
        self.end = end


class DecodeRun:
    """A run of decode-only steps; the j-th takes `first + slope·(j − 1)` seconds.

    Step boundaries are computed from the start of the run, so rounding errors do not add up.
    """

    __slots__ = ("done", "first", "limit", "slope", "start")

    def __init__(self, start: float, first: float, slope: float, limit: int) -> None:
        self.start = start
        self.first = first
        self.slope = slope
        self.limit = limit
        self.done = 0

    def boundary(self, steps: int) -> float:
        """When the first `steps` steps of this run are over."""
        return self.start + steps * self.first + self.slope * (steps * (steps - 1) / 2)

    def steps_by(self, time: float) -> int:
        """The number of steps that are over at `time`."""
        span = time - self.start
        if span < 0:
            return 0
        half = self.first - self.slope / 2
        steps = int(2 * span / (half + sqrt(half * half + 2 * self.slope * span)))
        while self.boundary(steps + 1) <= time:
            steps += 1
        while steps and self.boundary(steps) > time:
            steps -= 1
        return steps

    def steps_until(self, time: float) -> int:
        """The number of steps until the first boundary at or after `time`."""
        steps = self.steps_by(time)
        return steps if self.boundary(steps) >= time else steps + 1
