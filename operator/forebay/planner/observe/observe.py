"""Observe: the first step. World and memory become one context per service and one for the fleet."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from forebay.api.reasons import Reason
from forebay.planner.memory import ServiceMemory, State
from forebay.planner.observe.fleet_context import FleetContext, fleet_context_of
from forebay.planner.observe.isolation import failed
from forebay.planner.observe.observed_service import observed_service
from forebay.planner.observe.service_context import ServiceContext, UnplannedService
from forebay.world.world import ChildView, ServiceView, SpecProblem, World

_UNREADABLE: Final = SpecProblem(
    Reason.SPEC_UNREADABLE, "spec: what is stored does not fit this operator's schema; apply the manifest again."
)


def observe(
    world: World, state: State, now: float
) -> tuple[FleetContext, tuple[ServiceContext | UnplannedService, ...]]:
    """The fleet, and its services in the order of their keys."""
    fleet = fleet_context_of(world, state, now)
    services = sorted(world.services, key=lambda service: (service.key, service.uid))
    return fleet, tuple(_observed(fleet, service, state.services.get(service.uid)) for service in services)


def _observed(
    fleet: FleetContext, service: ServiceView, before: ServiceMemory | None
) -> ServiceContext | UnplannedService:
    memory = before or ServiceMemory(status=service.status)
    try:
        service = _judged(service, fleet.world)
        problems = (*service.problems, *names_taken(service, fleet.world.children))
        if service.deleting or problems or service.spec is None or service.wanted is None:
            return UnplannedService(service, memory, problems or (_UNREADABLE,))
        return observed_service(fleet, service, service.wanted, memory)
    except Exception as error:  # noqa: BLE001 - one service's fault must not hold the others
        return failed(service, memory, error)


def _judged(service: ServiceView, world: World) -> ServiceView:
    """A plan that does not fit stops a spec that has never run; a spec that has run is only warned.

    The plan's overhead is a reserve and its profiles age. An operator that learns to plan must not stop what serves.
    """
    if not service.misfits or service.wanted is None:
        return service
    stored = world.revisions.get(service.uid, ())
    if any(revision.spec_hash == service.wanted.spec_hash for revision in stored):
        return replace(service, warnings=(*service.misfits, *service.warnings))
    return replace(service, problems=(*service.problems, *service.misfits))


def names_taken(service: ServiceView, live: Iterable[ChildView]) -> tuple[SpecProblem, ...]:
    """Objects of the names we need that belong to somebody else. They are not touched."""
    wanted = {(child.kind, child.namespace, child.name) for child in service.children}
    foreign = sorted(
        (child.kind, child.name)
        for child in live
        if (child.kind, child.namespace, child.name) in wanted and child.owner_uid != service.uid
    )
    return tuple(
        SpecProblem(
            Reason.NAME_TAKEN,
            f'metadata.name: the {kind} "{name}" exists and is not ours, so the service cannot be reached by its name; '
            f"delete that {kind}, or give the InferenceService another name.",
        )
        for kind, name in foreign
    )
