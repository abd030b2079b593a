"""Scaling policies in a simulation: their interface, what they may see, and how their replica counts are applied.

The rule of a peer is a `Policy`. It is called every `period_seconds` with a `PolicyView` of one service and returns the
number of replicas it wants. The view holds only what scrapes have delivered (with the time of each scrape in
`PolicyReplica.sample.taken_at` and `PolicyView.gateway.taken_at`), what the API server says of the pods, and the time.
The policy itself keeps windows, averages and stabilization between calls. One policy object serves one service in one
run. A `ReplicaCountActuator` creates and deletes pods as a Deployment does.

    class Proportional:
        name, version = "proportional", "1"
        period_seconds = 15.0
        scrape = SimulatedScrapes(period_seconds=15.0, delay_seconds=1.0, staggered=True)

        def decide(self, view: View) -> int:
            waiting = sum(r.sample.waiting_requests for r in view.replicas if r.sample)
            return ceil(waiting / 5)

Forebay itself is not a `Policy`: its planner acts through actions on single pods (`planner_control.py`). The closed
loop runs both through the interface `Control`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from forebay.scaling.load.signals import EngineSample
from forebay.simulation.cluster.cluster_model import ClusterModel
from forebay.simulation.cluster.gateway_model import GatewaySample
from forebay.simulation.cluster.scrape_model import Scrapes, ScrapeTiming
from forebay.simulation.cluster.simulated_replica import SimulatedReplica
from forebay.world.world import ServiceKey


@dataclass(frozen=True, slots=True)
class PolicyReplica:
    """One live pod. Pods that are being deleted are not shown, as a Deployment does not count them."""

    name: str
    created_at: float
    """When the pod was created, in seconds since the simulation began, like all times in this module."""
    ready_since: float | None
    """When the pod became ready; None while it starts."""
    sample: EngineSample | None
    """The last scrape that has arrived, with `taken_at` in simulated seconds; None before the first."""


@dataclass(frozen=True, slots=True)
class PolicyView:
    now: float
    desired: int
    """The replica count that was requested last, after bounds."""
    min_replicas: int
    max_replicas: int
    replicas: tuple[PolicyReplica, ...]
    gateway: GatewaySample
    """The last scrape of the gateway. A policy whose product has no gateway must not use it."""

    @property
    def ready(self) -> tuple[PolicyReplica, ...]:
        return tuple(replica for replica in self.replicas if replica.ready_since is not None)

    @property
    def starting(self) -> int:
        return len(self.replicas) - len(self.ready)


class Policy(Protocol):
    """A scaling rule; the module docstring describes how it is called."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str:
        """Version of the product whose published rule this is."""
        ...

    @property
    def period_seconds(self) -> float:
        """Time between two decisions."""
        ...

    @property
    def scrape(self) -> ScrapeTiming:
        """How often the product scrapes, as documented."""
        ...

    def decide(self, view: PolicyView) -> int:
        """The number of replicas wanted now; the caller applies the bounds."""
        ...


class Control(Protocol):
    """A controller that the closed loop runs. It observes the cluster and acts on it, at times of its own choice."""

    @property
    def scrape(self) -> ScrapeTiming: ...

    def begin(self, cluster: ClusterModel, scrapes: Scrapes) -> None:
        """Connect to the cluster and schedule the first decision on its timeline."""
        ...

    def news(self) -> None:
        """The loop calls this when a scrape has arrived or a pod has changed."""
        ...

    def desired(self, key: ServiceKey) -> int: ...


class ReplicaCountActuator:
    """Brings the number of pods to a replica count, as a Deployment's controller does.

    Missing pods are created at once. Surplus pods are deleted in ReplicaSet's order: pods that do not serve first, the
    youngest first among equals. They finish their requests in flight within their grace period.
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
        victims = sorted(live, key=lambda r: (r.view.node is not None, r.view.ready, -r.number))
        for replica in victims[: max(0, len(live) - count)]:
            self._cluster.delete(replica)


class PolicyControl:
    """Runs one `Policy` per service through a `ReplicaCountActuator`."""

    def __init__(self, policies: dict[ServiceKey, Policy]) -> None:
        self._policies = policies
        self._desired: dict[ServiceKey, int] = {}
        self._actuators: dict[ServiceKey, ReplicaCountActuator] = {}

    @property
    def scrape(self) -> ScrapeTiming:
        return next(iter(self._policies.values())).scrape

    def begin(self, cluster: ClusterModel, scrapes: Scrapes) -> None:
        self._cluster, self._scrapes = cluster, scrapes
        for key in self._policies:
            spec = cluster.services[key].spec
            assert spec is not None
            self._actuators[key] = ReplicaCountActuator(cluster, key)
            initial_replicas = len(self._actuators[key].live())
            self._set(key, max(initial_replicas, spec.scaling.min_replicas))
            self._schedule_next(key)

    def news(self) -> None:
        """Ignore the news: a policy is called at its own period only."""

    def desired(self, key: ServiceKey) -> int:
        return self._desired[key]

    def _schedule_next(self, key: ServiceKey) -> None:
        self._cluster.timeline.after(self._policies[key].period_seconds, lambda: self._decide(key))

    def _decide(self, key: ServiceKey) -> None:
        self._set(key, self._policies[key].decide(self._view(key)))
        self._schedule_next(key)

    def _set(self, key: ServiceKey, count: int) -> None:
        spec = self._cluster.services[key].spec
        assert spec is not None
        self._desired[key] = min(max(count, spec.scaling.min_replicas), spec.scaling.max_replicas)
        self._actuators[key].set(self._desired[key])

    def _view(self, key: ServiceKey) -> PolicyView:
        cluster = self._cluster
        spec = cluster.services[key].spec
        assert spec is not None
        signals = self._scrapes.current()
        readings = []
        for replica in self._actuators[key].live():
            pod_signals = signals.get(replica.view.uid)
            since = replica.view.ready_since
            readings.append(
                PolicyReplica(
                    name=replica.view.name,
                    created_at=replica.view.created_at - cluster.epoch,
                    ready_since=None if since is None else since - cluster.epoch,
                    sample=None if pod_signals is None else _in_simulated_time(pod_signals.sample, cluster.epoch),
                )
            )
        return PolicyView(
            now=cluster.timeline.now,
            desired=self._desired[key],
            min_replicas=spec.scaling.min_replicas,
            max_replicas=spec.scaling.max_replicas,
            replicas=tuple(readings),
            gateway=self._scrapes.gateway_samples.get(key, GatewaySample(0.0)),
        )


def _in_simulated_time(sample: EngineSample | None, epoch: float) -> EngineSample | None:
    return None if sample is None else replace(sample, taken_at=sample.taken_at - epoch)
