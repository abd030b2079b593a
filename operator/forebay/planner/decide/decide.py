"""Decide: the second step. It computes each service's desired count from its context and schedules. It writes
nothing."""

from dataclasses import replace

from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.decide.service_schedules import service_schedules_of
from forebay.planner.decide.wake_request import first_start, wake_request_of
from forebay.planner.observe.fleet_context import FleetContext
from forebay.planner.observe.free_gpus import FreeGpus, free_gpus_for, gpus_under_ceiling, looks_ahead
from forebay.planner.observe.isolation import isolated
from forebay.planner.observe.service_context import ServiceContext, UnplannedService
from forebay.scaling.desired import decide as decide_replicas
from forebay.scaling.rules.situation import situation_of
from forebay.scaling.scaling_inputs import ScalingInputs
from forebay.schedules.schedule_floors import WindowFloor
from forebay.world.world import Revision


def decide(
    fleet: FleetContext, services: tuple[ServiceContext | UnplannedService, ...]
) -> tuple[DecidedContext | UnplannedService, ...]:
    """A decision for each service that has a context. Unplanned services pass through."""
    return tuple(
        isolated(lambda context: decided_service(fleet, context), service)
        if isinstance(service, ServiceContext)
        else service
        for service in services
    )


def decided_service(fleet: FleetContext, context: ServiceContext) -> DecidedContext:
    service, memory, now = context.service, context.memory, context.now
    before = memory.status or service.status
    wake_request = wake_request_of(service, before, context.limits, context.replicas, now)
    next_target = context.variant_order.next_target
    schedules = service_schedules_of(context, next_target)
    floors = (first_start(context.limits, before), wake_request.floor, *schedules.floors)
    scaling_inputs = ScalingInputs(
        lead_seconds=context.prospect.lead_seconds,
        growth=context.learned.growth.fraction,
        lengths=context.learned.lengths,
        floors=tuple(floor for floor in floors if floor is not None),
    )
    situation = situation_of(
        context.limits,
        context.load,
        context.counts,
        context.spec.scaling.mode,
        memory.scaling,
        now,
        scaling_inputs,
        service.replica_capacity,
    )
    if wake_request.problem is not None:
        service = replace(service, warnings=(*service.warnings, wake_request.problem))
    return DecidedContext.of(
        context,
        service=service,
        situation=situation,
        decision=decide_replicas(situation),
        schedules=schedules,
        wake_request=wake_request,
        free_gpus=_free_gpus(fleet, next_target, schedules.window_floors),
    )


def _free_gpus(fleet: FleetContext, target: Revision, window_floors: tuple[WindowFloor, ...]) -> FreeGpus | None:
    """GPUs free for the next replicas. They are counted only when a window is near, because every node has to be
    checked."""
    if not any(looks_ahead(window_floor, fleet.now) for window_floor in window_floors):
        return None
    used = gpus_under_ceiling(fleet.world.pods, fleet.lost_nodes)
    nodes = (node for node in fleet.world.nodes if node.name not in fleet.lost_nodes)
    return free_gpus_for(target.shape, nodes, fleet.gpus_taken, used, fleet.world.settings)
