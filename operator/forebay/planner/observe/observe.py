"""Observe: the first step. It turns World and memory into one context per service, beside the one of the fleet."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from forebay.api.reasons import Reason
from forebay.planner.memory import ServiceMemory
from forebay.planner.observe.fleet_context import FleetContext
from forebay.planner.observe.isolation import failed
from forebay.planner.observe.observed_service import observed_service
from forebay.planner.observe.service_context import ServiceContext, UnplannedService
from forebay.world.world import ChildKey, ChildView, ServiceView, SpecProblem, World

_UNREADABLE: Final = SpecProblem(
    Reason.SPEC_UNREADABLE, "spec: the stored spec does not match this operator's schema; apply the manifest again."
)


def observe(fleet: FleetContext, services: Iterable[ServiceView]) -> tuple[ServiceContext | UnplannedService, ...]:
    """The contexts of the services, in the order of their keys."""
    return tuple(
        _observed(fleet, service, fleet.before.services.get(service.uid))
        for service in sorted(services, key=lambda service: (service.key, service.uid))
    )


def _observed(
    fleet: FleetContext, service: ServiceView, before: ServiceMemory | None
) -> ServiceContext | UnplannedService:
    memory = before or ServiceMemory(status=service.status)
    try:
        service = _with_misfits(service, fleet.world)
        problems = (*service.problems, *names_taken(service, fleet.children))
        if service.deleting or problems or service.spec is None or service.wanted is None:
            return UnplannedService(service, memory, problems or (_UNREADABLE,))
        return observed_service(fleet, service, service.wanted, memory)
    except Exception as error:  # noqa: BLE001 - one service's fault must not hold the others
        return failed(service, memory, error)


def _with_misfits(service: ServiceView, world: World) -> ServiceView:
    """The service with its misfits as problems or warnings. They are problems, which stop the service, only for a spec
    that has never run.

    The plan is conservative: its overhead is a reserve, and its profiles age. So a capacity plan must not stop a
    service that already runs.
    """
    if not service.misfits or service.wanted is None:
        return service
    stored = world.revisions.get(service.uid, ())
    if any(revision.spec_hash == service.wanted.spec_hash for revision in stored):
        return replace(service, warnings=(*service.misfits, *service.warnings))
    return replace(service, problems=(*service.problems, *service.misfits))


def names_taken(service: ServiceView, live: Mapping[ChildKey, ChildView]) -> tuple[SpecProblem, ...]:
    """Objects of other owners that have the names the service needs. They are not touched."""
    foreign = sorted(
        (child.kind, child.name)
        for wanted in service.children
        if (child := live.get(wanted.child_key)) is not None and child.owner_uid != service.uid
    )
    return tuple(
        SpecProblem(
            Reason.NAME_TAKEN,
            f'metadata.name: the {kind} "{name}" exists and has another owner, so the service cannot use this name; '
            f"delete that {kind}, or give the InferenceService another name.",
        )
        for kind, name in foreign
    )
