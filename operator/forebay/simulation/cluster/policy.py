"""What decides in a simulation, and what it may see.

A peer's rule is a `Policy`: it is called every `period_seconds` with a `View` of one service, which holds nothing but
what its scrapes told (each `ReplicaReading.sample` has its `taken_at`, `View.gateway` its own), what the API server
says of its pods, and the time. It returns how many replicas it wants; windows, averages and stabilization are its own
to keep between calls. A `ReplicaCountActuator` makes the number true as a Deployment does. One policy object serves one
service in one run.

    class Proportional:
        name, version = "proportional", "1"
        period_seconds = 15.0
        scrape = ScrapeSettings(period_seconds=15.0, delay_seconds=1.0, staggered=True)

        def decide(self, view: View) -> int:
            waiting = sum(r.sample.waiting_requests for r in view.replicas if r.sample)
            return ceil(waiting / 5)

Forebay itself is no such policy: its planner acts through actions on single pods (`planner_control.py`). Both are
`Control`s to the loop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from forebay.scaling.load.signals import EngineSample
from forebay.simulation.cluster.cluster_model import ClusterModel
from forebay.simulation.cluster.gateway_model import GatewaySample
from forebay.simulation.cluster.scrape_model import Scrapes, SimulatedScrapes
from forebay.simulation.cluster.simulated_replica import SimulatedReplica
from forebay.world.world import ServiceKey


@dataclass(frozen=True, slots=True)
class ReplicaReading:
    """One pod that is wanted: those that drain or end are not shown, as a Deployment does not count them."""

    name: str
    created_at: float
    """Seconds since the beginning, as all times here."""
    ready_since: float | None
    """None while it starts."""
    sample: EngineSample | None
    """Of the last scrape that has arrived; `taken_at` in seconds since the beginning. None before the first."""


@dataclass(frozen=True, slots=True)
class View:
    now: float
    desired: int
    """What was asked for last, after bounds."""
    min_replicas: int
    max_replicas: int
    replicas: tuple[ReplicaReading, ...]
    gateway: GatewaySample
    """As of the last scrape; a policy whose product has no gateway must not look."""

    @property
    def ready(self) -> tuple[ReplicaReading, ...]:
        return tuple(replica for replica in self.replicas if replica.ready_since is not None)

    @property
    def starting(self) -> int:
        return len(self.replicas) - len(self.ready)


class Policy(Protocol):
    """See the module."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str:
        """Of the product whose published rule this is."""
        ...

    @property
    def period_seconds(self) -> float:
        """Between two decisions."""
        ...

    @property
    def scrape(self) -> SimulatedScrapes:
        """Its documented pace."""
        ...

    def decide(self, view: View) -> int:
        """How many replicas are wanted now; bounds are applied by the caller."""
        ...


class Control(Protocol):
    """What the loop runs: it looks at the cluster and acts on it, at times it chooses itself."""

    @property
    def scrape(self) -> SimulatedScrapes: ...

    def begin(self, cluster: ClusterModel, scrapes: Scrapes) -> None:
        """Take hold of the cluster and announce the first look on its timeline."""
        ...

    def news(self) -> None:
        """A scrape has arrived, or a pod has changed."""
        ...

    def desired(self, key: ServiceKey) -> int: ...


class ReplicaCountActuator:
    """Makes a replica count true as a Deployment's controller does.

    Missing pods are created at once. Surplus ones are deleted: those that do not serve first, the youngest of them
    first (ReplicaSet's order); what they have in flight they finish within their grace period.
    """

    def __init__(self, cluster: ClusterModel, key: ServiceKey) -> None:
        self._cluster = cluster
        self._key = key
        self._number = 0
        view = cluster.models[key].view
        self._gpus = 1 if view.wanted is None else view.wanted.shape.gpus
        self._revision = "" if view.wanted is None else view.wanted.hash

    def live(self) -> list[SimulatedReplica]:
        return [replica for replica in self._cluster.replicas_of(self._key) if not replica.view.deleting]

    def set(self, count: int) -> None:
        live = self.live()
        for _ in range(count - len(live)):
            name = f"{self._key.name}-{self._number}"
            self._number += 1
            self._cluster.create(self._key, name, self._revision, self._gpus)
        leaving = sorted(live, key=lambda r: (r.view.node is not None, r.view.ready, -r.number))
        for replica in leaving[: max(0, len(live) - count)]:
            self._cluster.delete(replica)


class PolicyControl:
    """Runs one `Policy` per service through a `ReplicaCountActuator`."""

    def __init__(self, policies: dict[ServiceKey, Policy]) -> None:
        self._policies = policies
        self._desired: dict[ServiceKey, int] = {}
        self._actuators: dict[ServiceKey, ReplicaCountActuator] = {}

    @property
    def scrape(self) -> SimulatedScrapes:
        return next(iter(self._policies.values())).scrape

    def begin(self, cluster: ClusterModel, scrapes: Scrapes) -> None:
        self._cluster, self._scrapes = cluster, scrapes
        for key in self._policies:
            spec = cluster.services[key].spec
            assert spec is not None
            self._actuators[key] = ReplicaCountActuator(cluster, key)
            standing = len(self._actuators[key].live())
            self._set(key, max(standing, spec.scaling.min_replicas))
            self._again(key)

    def news(self) -> None:
        """It looks at its own pace only."""

    def desired(self, key: ServiceKey) -> int:
        return self._desired[key]

    def _again(self, key: ServiceKey) -> None:
        self._cluster.timeline.after(self._policies[key].period_seconds, lambda: self._look(key))

    def _look(self, key: ServiceKey) -> None:
        self._set(key, self._policies[key].decide(self._view(key)))
        self._again(key)

    def _set(self, key: ServiceKey, count: int) -> None:
        spec = self._cluster.services[key].spec
        assert spec is not None
        self._desired[key] = min(max(count, spec.scaling.min_replicas), spec.scaling.max_replicas)
        self._actuators[key].set(self._desired[key])

    def _view(self, key: ServiceKey) -> View:
        cluster = self._cluster
        spec = cluster.services[key].spec
        assert spec is not None
        signals = self._scrapes.current()
        readings = []
        for replica in self._actuators[key].live():
            told = signals.get(replica.view.uid)
            since = replica.view.ready_since
            readings.append(
                ReplicaReading(
                    name=replica.view.name,
                    created_at=replica.view.created_at - cluster.epoch,
                    ready_since=None if since is None else since - cluster.epoch,
                    sample=None if told is None else _in_simulated_time(told.sample, cluster.epoch),
                )
            )
        return View(
            now=cluster.timeline.now,
            desired=self._desired[key],
            min_replicas=spec.scaling.min_replicas,
            max_replicas=spec.scaling.max_replicas,
            replicas=tuple(readings),
            gateway=self._scrapes.gateway_samples.get(key, GatewaySample(0.0)),
        )


def _in_simulated_time(sample: EngineSample | None, epoch: float) -> EngineSample | None:
    return None if sample is None else replace(sample, taken_at=sample.taken_at - epoch)
