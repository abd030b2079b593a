"""Services at rest: those of which nothing has changed since a plan that left nothing to do. They keep that plan.

Planning a service costs about a millisecond, and in a large fleet few services change between two ticks: a tick comes
with every event and with every part of a scrape round. Leaving a service out is the same as a tick that comes later, so
no decision may depend on how often a service is planned. It lasts half a minute at most, because the memory of the load
takes a longer time without an observation for a gap.

Watch caches and signal sources keep an object until it changes, so the inputs are compared by identity.

New samples end a rest too. When a round of scrapes brings more of them than one tick should take, the services that
were planned last keep their rest until the next tick, half a second later: a pod that fails somewhere in a fleet of ten
thousand does not wait until all samples have been read.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter, is_
from typing import Final

from forebay.planner.memory import Rest, ServiceMemory
from forebay.planner.observe.fleet_context import FleetContext
from forebay.scaling.load.signals import PodSignals
from forebay.world.world import ServiceView

LONGEST_REST_SECONDS: Final = 30.0
MOST_PODS_AWAKENED: Final = 4000
"""How many pods' new samples end rests in one tick. Planning them takes 0.4 s of CPU (`make bench-plan`)."""
SERVICE_IN_PODS: Final = 10
"""Planning a service takes as long as this many of its pods, beside them."""


@dataclass(frozen=True, slots=True)
class AtRest:
    """The services that keep their plan in this tick."""

    memories: Mapping[str, ServiceMemory] = field(default_factory=dict)
    """By uid."""
    put_off: frozenset[str] = frozenset()
    """Uids of those that have new samples. They are planned in one of the next ticks."""


def services_at_rest(fleet: FleetContext, services: Iterable[ServiceView]) -> AtRest:
    if fleet.before.shared_inputs != fleet.shared_inputs:
        return AtRest()
    memories: dict[str, ServiceMemory] = {}
    sampled: list[tuple[float, str]] = []
    for service in services:
        memory = fleet.before.services.get(service.uid)
        if memory is None or memory.rest is None or not _holds(memory.rest, fleet, service):
            continue
        memories[service.uid] = memory
        if not _same(samples_of(fleet, service), memory.rest.samples):
            sampled.append((memory.rest.since, service.uid))
    awakened = _awakened(fleet, sorted(sampled))
    return AtRest(
        {uid: memory for uid, memory in memories.items() if uid not in awakened},
        frozenset(uid for _, uid in sampled if uid not in awakened),
    )


def _awakened(fleet: FleetContext, sampled: Iterable[tuple[float, str]]) -> set[str]:
    """The services whose new samples are read in this tick, those at rest for longest first."""
    awakened: set[str] = set()
    pods = 0
    for _, uid in sampled:
        if pods >= MOST_PODS_AWAKENED:
            break
        pods += SERVICE_IN_PODS + len(fleet.pods.get(uid, ()))
        awakened.add(uid)
    return awakened


def _holds(rest: Rest, fleet: FleetContext, service: ServiceView) -> bool:
    """Whether nothing has changed but the samples."""
    if fleet.now >= rest.until or service.uid in fleet.refusals or service.uid in fleet.refused_placeholders:
        return False
    return _same(inputs_of(fleet, service), rest.inputs) and room_for(fleet, service) == rest.room


def _same(objects: tuple[object, ...], before: tuple[object, ...]) -> bool:
    return len(objects) == len(before) and all(map(is_, objects, before))


def samples_of(fleet: FleetContext, service: ServiceView) -> tuple[PodSignals | None, ...]:
    """The signals of the pods of the service, in the order of the pods."""
    signals = fleet.world.signals
    return tuple([signals.get(pod.uid) for pod in fleet.pods.get(service.uid, ())])


def inputs_of(fleet: FleetContext, service: ServiceView) -> tuple[object, ...]:
    """The objects of the World that concern this service alone, without samples."""
    children = fleet.children
    return (
        service,
        *fleet.pods.get(service.uid, ()),
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
