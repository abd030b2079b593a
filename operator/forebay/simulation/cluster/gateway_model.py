"""The way of simulated requests: to the serving replica with the least in flight, or held, or turned away.

While nothing serves, requests are held, so many for so long; then they are shed. What a replica has taken stays with it
to the end, as a stream does: a replica that drains finishes what it has, one that dies takes it along.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import IntEnum
from math import nan

from forebay.simulation.cluster.served_model import ServedModel
from forebay.simulation.cluster.simulated_replica import SimulatedReplica
from forebay.simulation.engine.engine_stats import EngineRequest
from forebay.simulation.engine.replica_engine import ReplicaEngine
from forebay.simulation.traffic.traces import Trace


class RequestState(IntEnum):
    """What became of a request."""

    UNFINISHED = 0
    """Still on its way when the simulation ended."""
    DONE = 1
    SHED = 2
    """Turned away: nothing served, or the queues were full."""
    FAILED = 3
    """Its replica died, or was killed at the end of its grace period."""
    REFUSED = 4
    """Too long for the engine; no policy can help."""


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    held_requests: int = 1000
    """While nothing serves."""
    held_seconds: float = 60.0
    queued_per_replica: int | None = None
    """Requests in flight on the least busy replica from which on the gateway sheds; None for no limit."""


@dataclass(frozen=True, slots=True)
class GatewaySample:
    """What the gateway's own metrics say; counters are totals since the beginning."""

    taken_at: float
    """Seconds since the beginning."""
    offered: int = 0
    shed: int = 0
    finished: int = 0
    held: int = 0
    in_flight: int = 0
    """Held ones included."""


@dataclass(slots=True)
class RequestLog:
    """One entry per offered request, in order of arrival; seconds since the beginning."""

    first_token: list[float] = field(default_factory=list)
    finished: list[float] = field(default_factory=list)
    token_seconds: list[float] = field(default_factory=list)
    """Mean time between tokens; 0 for an answer of one token."""
    state: list[int] = field(default_factory=list)
    replica: list[int] = field(default_factory=list)


class Gateway:
    """Of one service."""

    def __init__(self, trace: Trace, model: ServedModel, settings: GatewaySettings) -> None:
        self._model = model
        self.trace = trace
        self.settings = settings
        self.log = RequestLog()
        self.rotation: list[SimulatedReplica] = []
        """Kept current by the cluster."""
        self.offered = 0
        self.shed = 0
        self.finished = 0
        self.failed = 0
        self.refused = 0
        blocks = model.limits.kv_blocks or model.profile.kv_tokens // model.limits.block_size
        self._longest = min(model.limits.max_model_len, (blocks - 1) * model.limits.block_size)
        self._times: list[float] = trace.times.tolist()
        self._prompts: list[int] = trace.prompt_tokens.tolist()
        self._outputs: list[int] = trace.output_tokens.tolist()
        self._cached: list[int] = [] if trace.cached_tokens is None else trace.cached_tokens.tolist()
        self._held: deque[int] = deque()

    @property
    def next_arrival(self) -> float | None:
        return self._times[self.offered] if self.offered < len(self._times) else None

    def arrive(self) -> None:
        """Take the next request of the trace, at its time."""
        index, now = self.offered, self._times[self.offered]
        self.offered += 1
        log = self.log
        log.first_token.append(nan)
        log.finished.append(nan)
        log.token_seconds.append(nan)
        log.state.append(RequestState.UNFINISHED)
        log.replica.append(-1)
        if self._prompts[index] + self._outputs[index] > self._longest:
            log.state[index] = RequestState.REFUSED
            self.refused += 1
        elif self.rotation:
            self._send(index, now)
        elif len(self._held) < self.settings.held_requests:
            self._held.append(index)
        else:
            self._shed(index)

    def settle(self, now: float) -> None:
        """Held requests go to what serves by now, or have waited too long."""
        while self._held and now - self._times[self._held[0]] > self.settings.held_seconds:
            self._shed(self._held.popleft())
        while self._held and self.rotation:
            self._send(self._held.popleft(), now)

    def collect(self, replica: SimulatedReplica) -> None:
        """Note what the replica has finished."""
        log = self.log
        for completion in replica.done:
            index = int(completion.request.id)
            self.finished += 1
            log.state[index] = RequestState.DONE
            log.finished[index] = completion.finished
            log.first_token[index] = nan if completion.first_token is None else completion.first_token
            log.token_seconds[index] = completion.token_seconds or 0.0
        replica.done.clear()

    def new_engine(self, now: float) -> ReplicaEngine:
        """Of a replica that starts."""
        return ReplicaEngine(self._model.profile, self._model.limits, every_histogram=False)

    def lose(self, replica: SimulatedReplica) -> None:
        """The replica's process is gone, and with it everything it had."""
        if not replica.outstanding:
            return
        log = self.log
        for index, (state, number) in enumerate(zip(log.state, log.replica, strict=True)):
            if state == RequestState.UNFINISHED and number == replica.number:
                log.state[index] = RequestState.FAILED
                self.failed += 1

    def sample(self, now: float) -> GatewaySample:
        gone = self.finished + self.shed + self.failed + self.refused
        return GatewaySample(now, self.offered, self.shed, self.finished, len(self._held), self.offered - gone)

    def _send(self, index: int, now: float) -> None:
        best, least = None, 1 << 60
        for replica in self.rotation:
            if replica.next_event <= now:
                replica.advance(now)
                self.collect(replica)
            engine = replica.engine
            assert engine is not None
            outstanding = engine.outstanding
            if outstanding < least:
                best, least = replica, outstanding
        limit = self.settings.queued_per_replica
        if best is None or (limit is not None and least >= limit):
            self._shed(index)
            return
        cached = min(self._cached[index], self._prompts[index] - 1) if self._cached else 0
        best.submit(EngineRequest(str(index), self._prompts[index], self._outputs[index], now, cached))
        self.log.replica[index] = best.number

    def _shed(self, index: int) -> None:
        self.log.state[index] = RequestState.SHED
        self.shed += 1
