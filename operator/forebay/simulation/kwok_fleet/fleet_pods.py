"""Projections of engine pods in the API server, for a simulated fleet that serves their metrics."""

from __future__ import annotations

from collections.abc import Callable

from forebay.api import labels
from forebay.cluster.read.projections import KubernetesObject, Projection, StatusCondition
from forebay.simulation.kwok_fleet.fleet import PodState
from forebay.simulation.kwok_fleet.simulated_pod import EngineCommand


class EnvironmentVariable(Projection):
    name: str
    value: str | None = None


class EngineContainer(Projection):
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: tuple[EnvironmentVariable, ...] | None = None


class EnginePodSpecification(Projection):
    containers: tuple[EngineContainer, ...] | None = None


class EnginePodStatus(Projection):
    phase: str = ""
    conditions: tuple[StatusCondition, ...] | None = None


class EnginePod(KubernetesObject):
    """A pod with its container's command line, which configures the simulated engine."""

    spec: EnginePodSpecification = EnginePodSpecification()
    status: EnginePodStatus = EnginePodStatus()


def pod_state(default_profile: str) -> Callable[[EnginePod], PodState]:
    """A function from a pod to its state, which uses `default_profile` for pods that name no profile."""

    def view(pod: EnginePod) -> PodState:
        metadata = pod.metadata
        container = next(iter(pod.spec.containers or ()), EngineContainer())
        conditions = pod.status.conditions or ()
        ready = any(condition.type == "Ready" and condition.status == "True" for condition in conditions)
        return PodState(
            uid=metadata.uid,
            namespace=metadata.namespace,
            name=metadata.name,
            service=(metadata.labels or {}).get(labels.SERVICE, ""),
            ready=ready and pod.status.phase == "Running",
            serving=(metadata.labels or {}).get(labels.SERVING) == "true" and metadata.deletion_timestamp is None,
            command=EngineCommand(
                arguments=(*(container.command or ()), *(container.args or ())),
                environment=tuple((variable.name, variable.value or "") for variable in container.env or ()),
                default_profile=default_profile,
            ),
        )

    return view
