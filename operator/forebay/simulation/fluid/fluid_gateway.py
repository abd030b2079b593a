"""The gateway of a service whose traffic is a flow; the counterpart of `gateway_model.Gateway`.

The requests of a step fill up the replicas with the fewest in flight first, as the router does request by request.
While no replica serves, the gateway holds up to `held_requests` for up to `held_seconds` and sheds the others. Requests
stay with their replica and have failed if it dies. Whether they were in time is known when they end.
"""

from __future__ import annotations

from collections import deque
from math import inf

import numpy as np

from forebay.capacity.model.replica_model import Promise
from forebay.scaling.load.signals import EngineSample
from forebay.simulation.cluster.gateway_model import GatewaySample, GatewaySettings
from forebay.simulation.cluster.served_model import ServedModel
from forebay.simulation.cluster.simulated_replica import SimulatedReplica
from forebay.simulation.engine.engine_stats import Completion
from forebay.simulation.fluid.fluid_fleet import EndedRequests, FluidFleet, QueueColumn
from forebay.simulation.traffic.flow import BIN_SECONDS, Flow
from forebay.simulation.traffic.traces import Floats

_EARLY_SECONDS = 1e-6
"""A step is played this long before it is over, so that a scrape at the end of the step sees its result."""
SNAPSHOT_SECONDS = 60.0


class FluidEngine:
    """One replica's row, with the interface that the cluster and scrapes expect of an engine."""

    def __init__(self, gateway: FluidGateway, now: float) -> None:
        self._fleet = gateway.fleet
        self.row = gateway.fleet.start()
        self.now = now

    @property
    def running(self) -> int:
        return round(float(self._fleet.sequences[self.row]))

    @property
    def waiting(self) -> int:
        return round(float(self._fleet.waiting[self.row]))

    @property
    def outstanding(self) -> int:
        return round(float(self._fleet.outstanding[self.row]))

    @property
    def kv_fraction(self) -> float:
        return min(1.0, self._tokens / self._fleet.kv_tokens)

    @property
    def next_event_time(self) -> float | None:
        return self.now + BIN_SECONDS

    @property
    def _tokens(self) -> float:
        """KV tokens in use, including the free half of each sequence's last block."""
        fleet = self._fleet
        blocks = float(fleet.sequences[self.row]) * fleet.limits.block_size / 2
        return float(fleet.held_tokens[self.row]) + blocks

    def advance(self, until: float) -> list[Completion]:
        """Only move the clock: `FluidGateway.arrive` advances the whole fleet at once."""
        self.now = max(self.now, until)
        return []

    def sample(self, taken_at: float) -> EngineSample:
        fleet, row = self._fleet, self.row
        return fleet.counters.sample(
            row,
            taken_at,
            float(fleet.arrived[row]),
            float(fleet.waiting[row]),
            self._tokens / fleet.kv_tokens,
            fleet.kv_tokens + fleet.limits.block_size,
        )


class FluidGateway:
    """The gateway and the replicas of one service. The closed loop calls `arrive` at each `next_arrival`."""

    def __init__(self, flow: Flow, model: ServedModel, promise: Promise, settings: GatewaySettings) -> None:
        self.flow = flow
        self.settings = settings
        self.fleet = FluidFleet(model, flow.lengths, promise, BIN_SECONDS)
        self.rotation: list[SimulatedReplica] = []
        """The serving replicas; the cluster model updates this list."""
        self.offered = self.shed = self.failed = self.finished = 0.0
        self.in_time = self.batch = self.batch_in_time = 0.0
        self.batch_offered = 0.0
        self.snapshots: list[tuple[float, Floats]] = []
        """(time, histogram of times to first token so far), every minute."""
        self.running_seconds = 0.0
        """Sequences in batches, integrated over time."""
        self._step = 0
        self._held: deque[tuple[float, Floats]] = deque()

    @property
    def next_arrival(self) -> float | None:
        if self._step < len(self.flow.requests):
            return (self._step + 1) * BIN_SECONDS - _EARLY_SECONDS
        return None if self._idle() else (self._step + 1) * BIN_SECONDS - _EARLY_SECONDS

    def arrive(self) -> None:
        """Distribute the requests of the next step and advance all replicas by a step."""
        now = (self._step + 1) * BIN_SECONDS
        arrivals = self._arrivals(self._step)
        self._step += 1
        self.offered += float(arrivals[QueueColumn.REQUESTS].sum())
        self.batch_offered += float(arrivals[QueueColumn.BATCH].sum())
        self._shed_expired(now)
        new_share = 1.0
        if self.rotation and self._held:
            held = sum(waiting for _, waiting in self._held)
            new_share = float(arrivals[QueueColumn.REQUESTS].sum() / (arrivals + held)[QueueColumn.REQUESTS].sum())
            arrivals = arrivals + held
            self._held.clear()
        fleet = self.fleet
        shares = self._shares(float(arrivals[QueueColumn.REQUESTS].sum()))
        if shares is None:
            self._hold(now, arrivals)
            shares = np.zeros(fleet.rows)
        self._note(fleet.step(now, BIN_SECONDS, arrivals[:, None, :] * shares[:, None], new_share))
        self.running_seconds += float(fleet.sequences.sum()) * BIN_SECONDS
        if now % SNAPSHOT_SECONDS == 0:
            self.snapshots.append((now, fleet.counters.first_tokens().astype(np.float32)))

    def settle(self, now: float) -> None:
        """Do nothing: `arrive` handles held requests every step."""

    def collect(self, replica: SimulatedReplica) -> None:
        """Do nothing: `arrive` counts finished requests every step."""

    def new_engine(self, now: float) -> FluidEngine:
        """The engine of a replica that becomes ready."""
        return FluidEngine(self, now)

    def lose(self, replica: SimulatedReplica) -> None:
        """The replica's process died: its requests have failed."""
        assert isinstance(replica.engine, FluidEngine)
        self.failed += self.fleet.stop(replica.engine.row)

    def sample(self, now: float) -> GatewaySample:
        ended = self.finished + self.shed + self.failed
        held = self._count_held()
        return GatewaySample(
            now, int(self.offered), int(self.shed), int(self.finished), int(held), int(self.offered - ended)
        )

    def _arrivals(self, step: int) -> Floats:
        flow = self.flow
        if step >= len(flow.requests):
            return np.zeros((len(QueueColumn), len(flow.lengths.outputs)))
        requests, prompts = flow.requests[step], flow.prompts[step]
        return np.stack([requests, prompts, requests * flow.batch[step], prompts * flow.computed[step]])

    def _shares(self, count: float) -> Floats | None:
        """The share of `count` arriving requests that each row gets; None if no replica serves.

        Replicas are filled up to a common level of requests in flight.
        """
        fleet = self.fleet
        if not self.rotation:
            return None
        rows = np.array([replica.engine.row for replica in self.rotation if isinstance(replica.engine, FluidEngine)])
        shares = np.zeros(fleet.rows)
        if count <= 0:
            return shares
        in_flight = fleet.outstanding[rows]
        taken = water_level(in_flight, count) - in_flight
        limit = self.settings.queued_per_replica
        taken = np.clip(taken, 0.0, inf if limit is None else np.maximum(0.0, limit - in_flight))
        self.shed += max(0.0, count - float(taken.sum()))
        shares[rows] = taken / count
        return shares

    def _hold(self, now: float, arrivals: Floats) -> None:
        count = float(arrivals[QueueColumn.REQUESTS].sum())
        free = max(0.0, self.settings.held_requests - self._count_held())
        kept = min(1.0, free / count) if count > 0 else 0.0
        self.shed += count * (1 - kept)
        if kept > 0:
            self._held.append((now, arrivals * kept))

    def _shed_expired(self, now: float) -> None:
        while self._held and now - self._held[0][0] > self.settings.held_seconds:
            self.shed += float(self._held.popleft()[1][QueueColumn.REQUESTS].sum())

    def _count_held(self) -> float:
        return sum(float(waiting[QueueColumn.REQUESTS].sum()) for _, waiting in self._held)

    def _note(self, ended: EndedRequests) -> None:
        self.finished += ended.requests
        self.in_time += ended.in_time
        self.batch += ended.batch
        self.batch_in_time += ended.batch_in_time

    def _idle(self) -> bool:
        return not self._held and float(self.fleet.outstanding.sum()) < 0.5


def water_level(in_flight: Floats, count: float) -> float:
    """The common level to which `count` more requests raise the replicas with the fewest in flight."""
    ordered = np.sort(in_flight)
    levels = (count + np.cumsum(ordered)) / np.arange(1, len(ordered) + 1)
    above = np.flatnonzero(levels[:-1] <= ordered[1:])
    return float(levels[above[0]] if len(above) else levels[-1])
