"""Share: the third step. It makes each service's count final and records it in the service's memory.

Sharing between tenants may cut a count here; for now every service gets the count it decided. The memory of scaling is
written here and nowhere else, so that it always holds the final count.
"""

from dataclasses import replace

from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.memory import ServiceMemory
from forebay.planner.observe.isolation import isolated
from forebay.planner.observe.learned import learn_load, publish
from forebay.planner.observe.service_context import UnplannedService
from forebay.scaling.rules.situation import remember


def share(services: tuple[DecidedContext | UnplannedService, ...]) -> tuple[DecidedContext | UnplannedService, ...]:
    """The services with their final counts, which their memories record."""
    return tuple(
        isolated(_with_memory, service) if isinstance(service, DecidedContext) else service
        for service in granted(services)
    )


def granted(services: tuple[DecidedContext | UnplannedService, ...]) -> tuple[DecidedContext | UnplannedService, ...]:
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
    )
