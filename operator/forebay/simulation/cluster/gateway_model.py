"""The gateway of a simulated service: it sends each request to the serving replica with the fewest in flight.

While no replica serves, the gateway holds up to `held_requests` requests for up to `held_seconds` and sheds the others.
A request stays with its replica to the end, as a stream does: a draining replica finishes its requests, and the
requests of a replica that dies have failed.
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
    """The state of a request at the end of a simulation."""

    UNFINISHED = 0
    """The request was held or in flight when the simulation ended."""
    DONE = 1
    SHED = 2
    """The gateway turned the request away: no replica served, or the queues were full."""
    FAILED = 3
    """The replica died, or was killed at the end of its grace period."""
    REFUSED = 4
    """The request is too long for the engine, under any policy."""


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    held_requests: int = 1000
    """How many requests the gateway holds at most, while no replica serves."""
    held_seconds: float = 60.0
    queued_per_replica: int | None = None
    """The gateway sheds while the least busy replica has this many requests in flight; None for no limit."""


@dataclass(frozen=True, slots=True)
class GatewaySample:
    """The gateway's own metrics; counters are totals since the simulation began."""

    taken_at: float
    """Seconds since the simulation began."""
    offered: int = 0
    shed: int = 0
    finished: int = 0
    held: int = 0
    in_flight: int = 0
    """Requests in flight, including the held ones."""


@dataclass(slots=True)
class RequestLog:
    """One entry per offered request, in order of arrival. Times are seconds since the simulation began."""

    first_token: list[float] = field(default_factory=list)
    finished: list[float] = field(default_factory=list)
    token_seconds: list[float] = field(default_factory=list)
    """Mean time between tokens; 0 for an answer of one token."""
    state: list[int] = field(default_factory=list)
    """A `RequestState` per request."""
    replica: list[int] = field(default_factory=list)
    """Number of the replica that took the request; -1 for none."""


class Gateway:
    """The gateway of one service whose traffic is a trace."""

    def __init__(self, trace: Trace, model: ServedModel, settings: GatewaySettings) -> None:
        self._model = model
        self.trace = trace
        self.settings = settings
        self.log = RequestLog()
        self.rotation: list[SimulatedReplica] = []
        """The serving replicas; the cluster model updates this list."""
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
        """Shed the held requests that have waited too long, and send the others if a replica serves."""
        while self._held and now - self._times[self._held[0]] > self.settings.held_seconds:
            self._shed(self._held.popleft())
        while self._held and self.rotation:
            self._send(self._held.popleft(), now)

    def collect(self, replica: SimulatedReplica) -> None:
        """Log the requests that the replica has finished."""
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
        """The engine of a replica that becomes ready."""
        return ReplicaEngine(self._model.profile, self._model.limits, every_histogram=False)

    def lose(self, replica: SimulatedReplica) -> None:
        """The replica's process died: its requests have failed."""
        if not replica.outstanding:
            return
        log = self.log
        for index, (state, number) in enumerate(zip(log.state, log.replica, strict=True)):
            if state == RequestState.UNFINISHED and number == replica.number:
                log.state[index] = RequestState.FAILED
                self.failed += 1

    def sample(self, now: float) -> GatewaySample:
        ended = self.finished + self.shed + self.failed + self.refused
        return GatewaySample(now, self.offered, self.shed, self.finished, len(self._held), self.offered - ended)

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
