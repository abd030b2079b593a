"""Engine pods as the API server has them, for a fleet that answers in their place."""

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
    """A pod with its container's command line, which decides how its engine behaves."""

    spec: EnginePodSpecification = EnginePodSpecification()
    status: EnginePodStatus = EnginePodStatus()


def pod_state(default_profile: str) -> Callable[[EnginePod], PodState]:
    """A view that uses this profile for pods without one of their own."""

    def view(pod: EnginePod) -> PodState:
        metadata = pod.metadata
        container = next(iter(pod.spec.containers or ()), EngineContainer())
        ready = any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions or ())
        return PodState(
            uid=metadata.uid,
            namespace=metadata.namespace,
            name=metadata.name,
            service=(metadata.labels or {}).get(labels.SERVICE, ""),
            ready=ready and pod.status.phase == "Running",
            serving=(metadata.labels or {}).get(labels.SERVING) == "true" and metadata.deletion_timestamp is None,
            command=EngineCommand(
                arguments=(*(container.command or ()), *(container.args or ())),
                environment=tuple((one.name, one.value or "") for one in container.env or ()),
                default_profile=default_profile,
            ),
        )

    return view
