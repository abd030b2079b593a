"""The way of a flow: to the serving replicas that have least in flight, or held, or turned away.

It is `gateway_model.Gateway` for flows: the requests of a second fill up those replicas first that have fewest in
flight, as the router does one by one; while nothing serves they are held, so many for so long, and then shed. What a
replica has taken stays with it, and what dies with it has failed. What was in time is known when requests end.
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
"""A second of flow is worked off just before it is over, so that a scrape at the full second sees it."""
SNAPSHOT_SECONDS = 60.0


class FluidEngine:
    """One replica's row, as the cluster and scrapes see an engine."""

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
        """The last block of each sequence is half full."""
        fleet = self._fleet
        blocks = float(fleet.sequences[self.row]) * fleet.limits.block_size / 2
        return float(fleet.held_tokens[self.row]) + blocks

    def advance(self, until: float) -> list[Completion]:
        """Time passes for the whole fleet at once; see `FluidGateway.arrive`."""
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
    """Of one service. `next_arrival` and `arrive` are what the loop plays."""

    def __init__(self, flow: Flow, model: ServedModel, promise: Promise, settings: GatewaySettings) -> None:
        self.flow = flow
        self.settings = settings
        self.fleet = FluidFleet(model, flow.lengths, promise, BIN_SECONDS)
        self.rotation: list[SimulatedReplica] = []
        """Kept current by the cluster."""
        self.offered = self.shed = self.failed = self.finished = 0.0
        self.in_time = self.batch = self.batch_in_time = 0.0
        self.batch_offered = 0.0
        self.snapshots: list[tuple[float, Floats]] = []
        """(time, first tokens so far by how late they came), every minute."""
        self.running_seconds = 0.0
        """Sequences in batches, summed over the seconds."""
        self._second = 0
        self._held: deque[tuple[float, Floats]] = deque()

    @property
    def next_arrival(self) -> float | None:
        if self._second < len(self.flow.requests):
            return (self._second + 1) * BIN_SECONDS - _EARLY_SECONDS
        return None if self._idle() else (self._second + 1) * BIN_SECONDS - _EARLY_SECONDS

    def arrive(self) -> None:
        """The requests of the next second come, and all replicas work for a second."""
        now = (self._second + 1) * BIN_SECONDS
        arrivals = self._arrivals(self._second)
        self._second += 1
        self.offered += float(arrivals[QueueColumn.REQUESTS].sum())
        self.batch_offered += float(arrivals[QueueColumn.BATCH].sum())
        self._give_up(now)
        fresh = 1.0
        if self.rotation and self._held:
            held = sum(waiting for _, waiting in self._held)
            fresh = float(arrivals[QueueColumn.REQUESTS].sum() / (arrivals + held)[QueueColumn.REQUESTS].sum())
            arrivals = arrivals + held
            self._held.clear()
        fleet = self.fleet
        shares = self._shares(float(arrivals[QueueColumn.REQUESTS].sum()))
        if shares is None:
            self._hold(now, arrivals)
            shares = np.zeros(fleet.rows)
        self._note(fleet.step(now, BIN_SECONDS, arrivals[:, None, :] * shares[:, None], fresh))
        self.running_seconds += float(fleet.sequences.sum()) * BIN_SECONDS
        if now % SNAPSHOT_SECONDS == 0:
            self.snapshots.append((now, fleet.counters.first_tokens().astype(np.float32)))

    def settle(self, now: float) -> None:
        """Held requests are looked at every second."""

    def collect(self, replica: SimulatedReplica) -> None:
        """What has finished is noted every second."""

    def new_engine(self, now: float) -> FluidEngine:
        """Of a replica that starts."""
        return FluidEngine(self, now)

    def lose(self, replica: SimulatedReplica) -> None:
        """The replica's process is gone, and with it everything it had."""
        assert isinstance(replica.engine, FluidEngine)
        self.failed += self.fleet.stop(replica.engine.row)

    def sample(self, now: float) -> GatewaySample:
        gone = self.finished + self.shed + self.failed
        held = self._count_held()
        return GatewaySample(
            now, int(self.offered), int(self.shed), int(self.finished), int(held), int(self.offered - gone)
        )

    def _arrivals(self, second: int) -> Floats:
        flow = self.flow
        if second >= len(flow.requests):
            return np.zeros((len(QueueColumn), len(flow.lengths.outputs)))
        requests, prompts = flow.requests[second], flow.prompts[second]
        return np.stack([requests, prompts, requests * flow.batch[second], prompts * flow.computed[second]])

    def _shares(self, count: float) -> Floats | None:
        """Of what comes, by row: up to the level at which all have the same in flight. None when nobody takes it."""
        fleet = self.fleet
        if not self.rotation:
            return None
        rows = np.array([replica.engine.row for replica in self.rotation if isinstance(replica.engine, FluidEngine)])
        shares = np.zeros(fleet.rows)
        if count <= 0:
            return shares
        there = fleet.outstanding[rows]
        taken = water_level(there, count) - there
        limit = self.settings.queued_per_replica
        taken = np.clip(taken, 0.0, inf if limit is None else np.maximum(0.0, limit - there))
        self.shed += max(0.0, count - float(taken.sum()))
        shares[rows] = taken / count
        return shares

    def _hold(self, now: float, arrivals: Floats) -> None:
        count = float(arrivals[QueueColumn.REQUESTS].sum())
        room = max(0.0, self.settings.held_requests - self._count_held())
        kept = min(1.0, room / count) if count > 0 else 0.0
        self.shed += count * (1 - kept)
        if kept > 0:
            self._held.append((now, arrivals * kept))

    def _give_up(self, now: float) -> None:
        while self._held and now - self._held[0][0] > self.settings.held_seconds:
            self.shed += float(self._held.popleft()[1][QueueColumn.REQUESTS].sum())

    def _count_held(self) -> float:
        return sum(float(waiting[QueueColumn.REQUESTS].sum()) for _, waiting in self._held)

    def _note(self, left: EndedRequests) -> None:
        self.finished += left.requests
        self.in_time += left.in_time
        self.batch += left.batch
        self.batch_in_time += left.batch_in_time

    def _idle(self) -> bool:
        return not self._held and float(self.fleet.outstanding.sum()) < 0.5


def water_level(there: Floats, count: float) -> float:
    """The level that `count` more reach when the lowest are filled up first."""
    ordered = np.sort(there)
    levels = (count + np.cumsum(ordered)) / np.arange(1, len(ordered) + 1)
    above = np.flatnonzero(levels[:-1] <= ordered[1:])
    return float(levels[above[0]] if len(above) else levels[-1])
