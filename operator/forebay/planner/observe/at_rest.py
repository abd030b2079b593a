"""Services at rest: those of which nothing has changed since a plan that left nothing to do. They keep that plan.

Planning a service costs about a millisecond, and in a large fleet few services change between two ticks: a tick comes
with every event and with every part of a scrape round. Leaving a service out is the same as a tick that comes later, so
no decision may depend on how often a service is planned. It lasts half a minute at most, because the memory of the load
takes a longer time without an observation for a gap.

Watch caches and signal sources keep an object until it changes, so the inputs are compared by identity.
"""

from collections.abc import Iterable
from operator import attrgetter, is_
from typing import Final

from forebay.planner.memory import Rest, ServiceMemory
from forebay.planner.observe.fleet_context import FleetContext
from forebay.world.world import ServiceView

LONGEST_REST_SECONDS: Final = 30.0


def services_at_rest(fleet: FleetContext, services: Iterable[ServiceView]) -> dict[str, ServiceMemory]:
    """The memories of the services that keep their plan in this tick, by uid."""
    if fleet.before.shared_inputs != fleet.shared_inputs:
        return {}
    memories = ((service, fleet.before.services.get(service.uid)) for service in services)
    return {
        service.uid: memory
        for service, memory in memories
        if memory is not None and memory.rest is not None and _holds(memory.rest, fleet, service)
    }


def _holds(rest: Rest, fleet: FleetContext, service: ServiceView) -> bool:
    if fleet.now >= rest.until or service.uid in fleet.refusals or service.uid in fleet.refused_placeholders:
        return False
    inputs = inputs_of(fleet, service)
    return (
        len(inputs) == len(rest.inputs) and all(map(is_, inputs, rest.inputs)) and room_for(fleet, service) == rest.room
    )


def inputs_of(fleet: FleetContext, service: ServiceView) -> tuple[object, ...]:
    """The objects of the World that concern this service alone."""
    pods, signals, children = fleet.pods.get(service.uid, ()), fleet.world.signals, fleet.children
    return (
        service,
        *pods,
        *[signals.get(pod.uid) for pod in pods],
        *fleet.placeholders.get(service.uid, ()),
        *sorted(fleet.world.revisions.get(service.uid, ()), key=attrgetter("hash", "number")),
        *[children.get(wanted.child_key) for wanted in service.children],
    )


def room_for(fleet: FleetContext, service: ServiceView) -> tuple[int, int]:
    """How many more replicas the ready nodes and the held places have room for, up to maxReplicas."""
    if service.wanted is None or service.spec is None:
        return 0, 0
    most = service.spec.scaling.max_replicas
    free = fleet.free_places.get(service.wanted.shape, 0)
    return min(most, free), min(most, fleet.held_places.replicas_for(service.uid, service.wanted))
