"""Engines paced by the event loop's clock: clients receive tokens when a GPU would have generated them.

Every wake-up is at an absolute time on the engines' own clock, so a late wake-up does not move the next: a busy machine
delays tokens but does not slow the engine. While clients stream, the pacer wakes at each engine step. Otherwise it
wakes only when a prefill, a request or a wait ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from forebay.simulation.engine.engine_stats import Completion, EngineRequest, FinishReason
from forebay.simulation.engine.replica_engine import ReplicaEngine


class PacedRequest:
    """A submitted request, on whose progress its HTTP handler waits."""

    __slots__ = ("_changed", "completion", "rank", "request", "tokens")

    def __init__(self, request: EngineRequest, rank: int) -> None:
        self.request = request
        self.rank = rank
        self.tokens = 0
        """Tokens generated so far; updated only for streams until the request completes."""
        self.completion: Completion | None = None
        self._changed = asyncio.Event()

    async def progress(self) -> None:
        """Wait for new tokens or the completion."""
        await self._changed.wait()
        self._changed.clear()

    def update(self, tokens: int, completion: Completion | None = None) -> None:
        """Store the progress and wake the handler."""
        self.tokens = tokens
        self.completion = completion
        self._changed.set()


class Pacer:
    """Advances engines in real time and passes their tokens to the waiting HTTP handlers."""

    def __init__(self, engines: Sequence[ReplicaEngine], loop: asyncio.AbstractEventLoop) -> None:
        self.engines = engines
        self._loop = loop
        self._start = loop.time()
        self._streaming: list[dict[str, PacedRequest]] = [{} for _ in engines]
        self._waiting: list[dict[str, PacedRequest]] = [{} for _ in engines]
        self._submitted = [0] * len(engines)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def now(self) -> float:
        """Seconds on the engines' clock."""
        return self._loop.time() - self._start

    @property
    def queued_requests(self) -> int:
        """Requests that are not in a batch yet, over all ranks."""
        return sum(engine.queued for engine in self.engines)

    @property
    def queued_tokens(self) -> int:
        """Prompt tokens of the requests that are not in a batch yet, over all ranks."""
        return sum(engine.queued_tokens for engine in self.engines)

    def submit(
        self, request_id: str, prompt_tokens: int, output_tokens: int, reason: FinishReason, *, stream: bool
    ) -> PacedRequest:
        """Send a request to the rank with the shortest queue, as vLLM's balancer does.

        Among equals, the rank that has received the fewest requests gets it.
        """
        now = self.now
        rank = min(range(len(self.engines)), key=lambda rank: (*self._load(rank), self._submitted[rank]))
        request = EngineRequest(request_id, prompt_tokens, output_tokens, now, stop_reason=reason)
        self.engines[rank].submit(request)
        paced = PacedRequest(request, rank)
        self._submitted[rank] += 1
        (self._streaming if stream else self._waiting)[rank][request_id] = paced
        self._arm()
        return paced

    def abort(self, paced: PacedRequest) -> None:
        """The client left: drop the request, unless it is complete."""
        if paced.completion is not None:
            return
        for paced_requests in (self._streaming[paced.rank], self._waiting[paced.rank]):
            paced_requests.pop(paced.request.id, None)
        self.engines[paced.rank].abort(paced.request.id)
        self._arm()

    def catch_up(self) -> None:
        """Advance all engines to the present and wake the handlers of requests with new tokens."""
        now = self.now
        for engine, streaming, waiting in zip(self.engines, self._streaming, self._waiting, strict=True):
            for completion in engine.advance(now):
                request_id = completion.request.id
                paced = streaming.pop(request_id, None) or waiting.pop(request_id, None)
                if paced is not None:
                    paced.update(completion.tokens, completion)
            for request_id, paced in streaming.items():
                tokens = engine.generated(request_id)
                if tokens > paced.tokens:
                    paced.update(tokens)

    def stop(self) -> None:
        """Cancel the next wake-up."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _load(self, rank: int) -> tuple[int, int]:
        engine = self.engines[rank]
        return engine.queued, engine.running

    def _wake(self) -> None:
        self._timer = None
        self.catch_up()
        self._arm()

    def _arm(self) -> None:
        """Schedule the next wake-up, at the earliest time at which a handler can get news."""
        times = [
            time
            for engine, streaming in zip(self.engines, self._streaming, strict=True)
            if (time := engine.next_step_time if streaming else engine.next_event_time) is not None
        ]
        if not times:
            self.stop()
            return
        when = self._start + min(times)
        if self._timer is None or self._timer.when() != when:
            self.stop()
            self._timer = self._loop.call_at(when, self._wake)
