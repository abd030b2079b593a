"""Share: the third step. It makes each service's count final, records it in the service's memory, and divides models
among tenants.

Sharing between tenants may cut a count here; for now every service gets the count it decided. The memory of scaling is
written here and nowhere else, so that it always holds the final count.
"""

from dataclasses import replace

from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.memory import ServiceMemory
from forebay.planner.observe.at_rest import AtRest
from forebay.planner.observe.fleet_context import FleetContext
from forebay.planner.observe.isolation import isolated
from forebay.planner.observe.learned import learn_load, publish
from forebay.planner.observe.service_context import UnplannedService
from forebay.planner.share.tenants.tenants import TenantOutcomes, tenants_of
from forebay.scaling.learning.normalized_tokens import TokenRates, token_rates
from forebay.scaling.rules.situation import remember

Services = tuple[DecidedContext | UnplannedService, ...]


def share(fleet: FleetContext, services: Services, at_rest: AtRest) -> tuple[Services, TenantOutcomes]:
    """The services with their final counts, which their memories record, and what each tenant has."""
    shared = tuple(
        isolated(_with_memory, service) if isinstance(service, DecidedContext) else service
        for service in granted(services)
    )
    memories = {service.service.uid: service.memory for service in shared} | dict(at_rest.memories)
    return shared, tenants_of(fleet, memories)


def granted(services: Services) -> Services:
    """Every service gets what it decided."""
    return services


def _with_memory(context: DecidedContext) -> DecidedContext:
    return replace(context, memory=remembered(context))


def remembered(context: DecidedContext) -> ServiceMemory:
    """The memory of a service whose count is final."""
    learned = learn_load(context.learned, context.situation)
    return replace(
        context.memory,
        scaling=remember(context.situation, context.decision),
        learned=publish(learned, context.now, at_once=context.starts_learned),
        timetables=context.schedules.timetables,
        tokens=_token_rates(context),
    )


def _token_rates(context: DecidedContext) -> TokenRates:
    situation = context.situation
    return token_rates(
        context.service.replica_capacity,
        situation.refinement,
        situation.arrivals,
        situation.offered_work,
        situation.load,
        situation.scaling_inputs.lengths,
        context.memory.tokens,
    )
