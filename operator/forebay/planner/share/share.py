"""Share: the third step. It may cut each count to what the service's tenant is granted, and then writes it down.

Nothing is cut yet: every service gets what it decided. What scaling remembers is written here and nowhere else, so a
count that sharing cuts is remembered as it was cut.
"""

from dataclasses import replace

from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.memory import ServiceMemory
from forebay.planner.observe.isolation import isolated
from forebay.planner.observe.learned import publish, seen_load
from forebay.planner.observe.service_context import UnplannedService
from forebay.scaling.rules.situation import remember


def share(services: tuple[DecidedContext | UnplannedService, ...]) -> tuple[DecidedContext | UnplannedService, ...]:
    """The services with their final counts, and with memories that know of them."""
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
    learned = seen_load(context.learned, context.situation)
    return replace(
        context.memory,
        scaling=remember(context.situation, context.decision),
        learned=publish(learned, context.now, at_once=context.starts_learned),
        timetables=context.schedules.timetables,
    )
