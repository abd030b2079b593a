"""A fleet of simulated pods with traffic per service; the least busy pod in rotation takes each request.

The caller advances time in ticks. Within a tick engines advance in closed form, and an idle pod costs nothing. Requests
stay with their pod, as streams do: a pod out of rotation gets no new requests, and deleting a pod cuts its requests.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from heapq import heapify, heapreplace
from random import Random

from forebay.simulation.engine.engine_stats import EngineRequest
from forebay.simulation.kwok_fleet.simulated_pod import EngineCommand, SimulatedPod
from forebay.simulation.kwok_fleet.stated_traffic import StatedArrivals, Traffic

ServiceName = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class PodState:
    """The fields of a pod in the API server that the fleet uses."""

    uid: str
    namespace: str
    name: str
    service: str
    ready: bool
    """Whether the pod is Running and Ready. Its engine answers then, also while it drains."""
    serving: bool
    """Whether the pod is labelled as in rotation and not being deleted."""
    command: EngineCommand


@dataclass(slots=True)
class FleetTally:
    """Counts of what became of a service's requests."""

    offered: int = 0
    completed: int = 0
    unserved: int = 0
    """Requests that arrived while no pod was in rotation."""
    refused: int = 0
    """Requests that were too long for the engine, or found its queue full."""
    cut: int = 0
    """Requests whose pod ended while they ran or waited."""


@dataclass(slots=True)
class _Service:
    arrivals: StatedArrivals
    rotation: list[SimulatedPod] = field(default_factory=list)
    tally: FleetTally = field(default_factory=FleetTally)
    stated: bool = False
    """Whether the traffic was set for this service by name; otherwise it is the default traffic."""


class SimulatedFleet:
    """All simulated pods and the traffic on them."""

    def __init__(self, default: Traffic, seed: int = 0) -> None:
        self.now = 0.0
        self.default = default
        """The traffic of services without their own."""
        self._seed = seed
        self._pods: dict[tuple[str, str], SimulatedPod] = {}
        self._services: dict[ServiceName, _Service] = {}
        self._sent = 0

    def pod(self, namespace: str, name: str) -> SimulatedPod | None:
        """The pod of that name; None if there is none."""
        return self._pods.get((namespace, name))

    def set_traffic(self, service: ServiceName, traffic: Traffic) -> None:
        """Set the traffic of one service from now on."""
        state = self._service(service)
        state.arrivals = self._arrivals(service, traffic)
        state.stated = True

    def set_default(self, traffic: Traffic) -> None:
        """Set the traffic of services without their own from now on."""
        self.default = traffic
        for name, service in self._services.items():
            if not service.stated:
                service.arrivals = self._arrivals(name, traffic)

    def traffic(self, service: ServiceName) -> Traffic:
        """The present traffic of a service."""
        state = self._services.get(service)
        return self.default if state is None else state.arrivals.traffic

    def summary(self) -> dict[str, dict[str, int | float]]:
        """By `namespace/name`: counts of requests, the present rate and the number of pods in rotation."""
        return {
            f"{namespace}/{name}": {
                **asdict(service.tally),
                "outstanding": sum(pod.outstanding for pod in self._pods.values() if pod.service == (namespace, name)),
                "rotation": len(service.rotation),
                "requestsPerSecond": service.arrivals.traffic.requests_per_second,
            }
            for (namespace, name), service in sorted(self._services.items())
        }

    def observe(self, states: Iterable[PodState], wall_time: float) -> None:
        """Take over the present pods. New pods start with empty counters at `wall_time` (Unix seconds)."""
        present: set[tuple[str, str]] = set()
        for service in self._services.values():
            service.rotation = []
        for state in states:
            key = (state.namespace, state.name)
            present.add(key)
            pod = self._pods.get(key)
            if pod is not None and pod.uid != state.uid:
                self._lose(key)
                pod = None
            if pod is None:
                if not state.ready:
                    continue
                pod = SimulatedPod(state.uid, (state.namespace, state.service), state.command, wall_time)
                self._pods[key] = pod
            pod.ready = state.ready
            service = self._service(pod.service)
            if state.ready and state.serving and pod.engines:
                service.rotation.append(pod)
        for key in self._pods.keys() - present:
            self._lose(key)

    def advance(self, now: float) -> None:
        """Advance to `now`: requests arrive, engines work."""
        for name, service in self._services.items():
            self._send(name, service, now)
        for pod in self._pods.values():
            if pod.outstanding:
                done = pod.advance(now)
                self._services[pod.service].tally.completed += done
        self.now = now

    def _send(self, name: ServiceName, service: _Service, now: float) -> None:
        traffic = service.arrivals.traffic
        times = list(service.arrivals.between(self.now, now))
        service.tally.offered += len(times)
        if not service.rotation:
            service.tally.unserved += len(times)
            return
        busy = [(pod.outstanding, index) for index, pod in enumerate(service.rotation)]
        heapify(busy)
        for time in times:
            outstanding, index = busy[0]
            self._sent += 1
            request = EngineRequest(str(self._sent), traffic.prompt_tokens, traffic.output_tokens, time)
            if service.rotation[index].take(request):
                outstanding += 1
            else:
                service.tally.refused += 1
            heapreplace(busy, (outstanding, index))

    def _lose(self, key: tuple[str, str]) -> None:
        pod = self._pods.pop(key)
        self._services[pod.service].tally.cut += pod.outstanding

    def _service(self, name: ServiceName) -> _Service:
        if name not in self._services:
            self._services[name] = _Service(self._arrivals(name, self.default))
        return self._services[name]

    def _arrivals(self, name: ServiceName, traffic: Traffic) -> StatedArrivals:
        return StatedArrivals(traffic, self.now, Random(f"{self._seed}/{name[0]}/{name[1]}"))
