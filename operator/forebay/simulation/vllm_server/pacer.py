"""Engines paced by the event loop's clock: tokens come out when a GPU would have made them.

Every wake-up is an absolute time on the engines' own clock, so a late one does not move the next: a busy machine delays
tokens, it does not slow the engine. With clients that stream, the pacer wakes at each step; without, only when
something begins or ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from forebay.simulation.engine.engine_stats import Completion, EngineRequest, Reason
from forebay.simulation.engine.replica_engine import ReplicaEngine


class Ticket:
    """A request under way, as its HTTP handler sees it."""

    __slots__ = ("_changed", "completion", "rank", "request", "tokens")

    def __init__(self, request: EngineRequest, rank: int) -> None:
        self.request = request
        self.rank = rank
        self.tokens = 0
        """Tokens generated so far; kept up to date only for streams."""
        self.completion: Completion | None = None
        self._changed = asyncio.Event()

    async def progress(self) -> None:
        """Until there are new tokens or the end."""
        await self._changed.wait()
        self._changed.clear()

    def show(self, tokens: int, completion: Completion | None = None) -> None:
        """Let the handler see how far the request is."""
        self.tokens = tokens
        self.completion = completion
        self._changed.set()


class Pacer:
    """Advances engines in real time and hands tokens to those who wait for them."""

    def __init__(self, engines: Sequence[ReplicaEngine], loop: asyncio.AbstractEventLoop) -> None:
        self.engines = engines
        self._loop = loop
        self._start = loop.time()
        self._streaming: list[dict[str, Ticket]] = [{} for _ in engines]
        self._waiting: list[dict[str, Ticket]] = [{} for _ in engines]
        self._taken = [0] * len(engines)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def now(self) -> float:
        """Seconds on the engines' clock."""
        return self._loop.time() - self._start

    @property
    def queued_requests(self) -> int:
        """Requests that no batch has taken yet, over all ranks."""
        return sum(engine.queued for engine in self.engines)

    @property
    def queued_tokens(self) -> int:
        """Prompt tokens that no batch has taken yet, over all ranks."""
        return sum(engine.queued_tokens for engine in self.engines)

    def submit(
        self, request_id: str, prompt_tokens: int, output_tokens: int, reason: Reason, *, stream: bool
    ) -> Ticket:
        """Give a request to the rank with the shortest queue, as vLLM's balancer does; the least used wins a tie."""
        now = self.now
        rank = min(range(len(self.engines)), key=lambda rank: (*self._load(rank), self._taken[rank]))
        request = EngineRequest(request_id, prompt_tokens, output_tokens, now, stop_reason=reason)
        self.engines[rank].submit(request)
        ticket = Ticket(request, rank)
        self._taken[rank] += 1
        (self._streaming if stream else self._waiting)[rank][request_id] = ticket
        self._arm()
        return ticket

    def abort(self, ticket: Ticket) -> None:
        """The client left; does nothing when the request is done."""
        if ticket.completion is not None:
            return
        for tickets in (self._streaming[ticket.rank], self._waiting[ticket.rank]):
            tickets.pop(ticket.request.id, None)
        self.engines[ticket.rank].abort(ticket.request.id)
        self._arm()

    def catch_up(self) -> None:
        """Bring all engines to the present and wake everybody who has something new."""
        now = self.now
        for engine, streaming, waiting in zip(self.engines, self._streaming, self._waiting, strict=True):
            for completion in engine.advance(now):
                request_id = completion.request.id
                ticket = streaming.pop(request_id, None) or waiting.pop(request_id, None)
                if ticket is not None:
                    ticket.show(completion.tokens, completion)
            for request_id, ticket in streaming.items():
                tokens = engine.generated(request_id)
                if tokens > ticket.tokens:
                    ticket.show(tokens)

    def stop(self) -> None:
        """No more wake-ups."""
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
        """Wake up at the next time at which anybody can see something new."""
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
