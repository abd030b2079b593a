"""Accessors for plans in tests: which pods are created, drained or deleted, by name."""

from forebay.world.plan import (
    Action,
    AdoptPod,
    CancelDrain,
    CreatePlaceholder,
    CreatePod,
    DeletePlaceholder,
    DeletePod,
    DeleteRevision,
    Plan,
    ServicePlan,
    StartDrain,
    StoreRevision,
)


def only(plan: Plan) -> ServicePlan:
    (service,) = plan.services
    return service


def actions(plan: Plan) -> tuple[Action, ...]:
    return tuple(action for service in plan.services for action in service.actions)


def creates(plan: Plan) -> list[str]:
    return [action.name for action in actions(plan) if isinstance(action, CreatePod)]


def drains(plan: Plan) -> list[str]:
    return [action.name for action in actions(plan) if isinstance(action, StartDrain)]


def cancels(plan: Plan) -> list[str]:
    return [action.name for action in actions(plan) if isinstance(action, CancelDrain)]


def deletes(plan: Plan) -> list[str]:
    return [action.name for action in actions(plan) if isinstance(action, DeletePod)]


def held(plan: Plan) -> list[str]:
    """Names of placeholders that are created."""
    return [action.name for action in actions(plan) if isinstance(action, CreatePlaceholder)]


def given_up(plan: Plan) -> dict[str, str]:
    """Names of placeholders that are deleted, and why."""
    return {action.name: action.reason for action in actions(plan) if isinstance(action, DeletePlaceholder)}


def adopts(plan: Plan) -> dict[str, str | None]:
    """Names of adopted pods, and why they drain."""
    return {action.name: action.drain_reason for action in actions(plan) if isinstance(action, AdoptPod)}


def stores(plan: Plan) -> list[tuple[str, int]]:
    return [(a.revision.hash, a.revision.number) for a in actions(plan) if isinstance(a, StoreRevision)]


def forgets(plan: Plan) -> list[str]:
    return [action.name for action in actions(plan) if isinstance(action, DeleteRevision)]


def reasons(plan: Plan) -> dict[str, str]:
    """Why pods are drained or deleted, by name."""
    return {a.name: a.reason for a in actions(plan) if isinstance(a, StartDrain | DeletePod)}


def events(plan: Plan) -> list[str]:
    return [event.reason for service in plan.services for event in service.events]


def condition(plan: Plan, kind: str) -> tuple[str, str]:
    """Status and reason of one condition of the only service."""
    condition = next(c for c in only(plan).status.conditions if c.type == kind)
    return condition.status, condition.reason


def message(plan: Plan, kind: str) -> str:
    return next(c.message for c in only(plan).status.conditions if c.type == kind)


def rule(plan: Plan) -> str:
    decision = only(plan).status.decision
    assert decision is not None
    return decision.rule


def desired(plan: Plan) -> int:
    return only(plan).status.replicas.desired
