"""Forebay in a simulation: the production `plan()`, called as often as in the production loop.

It is called every 5 s, at the time it asked to be woken, and a second after a change. Its World is built from the
simulated API server's state and from the scrapes that have arrived, and its actions are applied to the simulated
cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from forebay.api.status import DecisionStatus
from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.simulation.cluster.cluster_model import ClusterModel
from forebay.simulation.cluster.scrape_model import Scrapes, ScrapeTiming
from forebay.world.settings import Settings
from forebay.world.world import ServiceKey, World

TICK_SECONDS = 5.0
DEBOUNCE_SECONDS = 1.0
"""Delay between a change and the plan, so that changes that come together are planned together."""


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """A decision that differs from the previous one of the service."""

    at: float
    key: ServiceKey
    desired: int
    rule: str
    because: str


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An Event that the planner wrote."""

    at: float
    key: ServiceKey
    reason: str
    message: str


class PlannerControl:
    """The planner of the operator as the control of a simulation."""

    def __init__(self, settings: Settings | None = None, scrape: ScrapeTiming | None = None) -> None:
        self._settings = settings or Settings()
        self._scrape = scrape or ScrapeTiming()
        self.state = State.empty(0.0)
        self.decisions: list[RecordedDecision] = []
        self.events: list[RecordedEvent] = []
        self.errors: list[str] = []
        self.ticks = 0
        self._due: float | None = None
        self._generation = 0

    @property
    def scrape(self) -> ScrapeTiming:
        return self._scrape

    def begin(self, cluster: ClusterModel, scrapes: Scrapes) -> None:
        self._cluster, self._scrapes = cluster, scrapes
        self.restart()
        self._tick_at(cluster.timeline.now)

    def restart(self) -> None:
        """Restart the operator: only what the cluster stores survives."""
        self.state = State.empty(self._cluster.wall_time)

    def news(self) -> None:
        self._tick_at(self._cluster.timeline.now + DEBOUNCE_SECONDS)

    def desired(self, key: ServiceKey) -> int:
        return self._cluster.services[key].status.replicas.desired

    def _tick_at(self, time: float) -> None:
        """Schedule the next tick, unless an earlier one is scheduled."""
        if self._due is not None and self._due <= time:
            return
        self._due = time
        self._generation += 1
        generation = self._generation
        self._cluster.timeline.at(time, lambda: self._tick(generation))

    def _tick(self, generation: int) -> None:
        if generation != self._generation:
            return
        self._due = None
        self.ticks += 1
        cluster = self._cluster
        now = cluster.wall_time
        done, self.state = plan(self._world(), self.state, now)
        if done.held is not None:
            self.errors.append(done.held)
        for share in done.services:
            if share.error is not None:
                self.errors.append(share.error)
            for action in share.actions:
                cluster.carry_out(cluster.services[share.key], action)
            before = cluster.services[share.key]
            cluster.services[share.key] = replace(before, status=share.status)
            self._note(share.key, before.status.decision, share.status.decision)
            self.events += [RecordedEvent(cluster.timeline.now, share.key, e.reason, e.message) for e in share.events]
        for pool in done.warm_pools:
            for action in pool.actions:
                cluster.carry_out(cluster.warm_pools[pool.key], action)
            cluster.warm_pools[pool.key] = replace(cluster.warm_pools[pool.key], status=pool.status)
        self._tick_at(cluster.timeline.now + min(TICK_SECONDS, done.wake_in_seconds or TICK_SECONDS))

    def _world(self) -> World:
        cluster = self._cluster
        return World(
            services=tuple(cluster.services.values()),
            revisions=cluster.revision_views(),
            pods=cluster.pod_views(),
            nodes=cluster.node_views(),
            children=tuple(cluster.children),
            signals=self._scrapes.current(),
            settings=self._settings,
            warm_pools=tuple(cluster.warm_pools.values()),
        )

    def _note(self, key: ServiceKey, before: DecisionStatus | None, now: DecisionStatus | None) -> None:
        if now is None or (before is not None and (before.desired, before.rule) == (now.desired, now.rule)):
            return
        self.decisions.append(RecordedDecision(self._cluster.timeline.now, key, now.desired, now.rule, now.because))
