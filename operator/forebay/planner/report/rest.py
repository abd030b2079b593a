"""Rest: whether a plan leaves nothing to do, so that the service keeps it until something changes."""

from math import inf

from forebay.planner.memory import Rest
from forebay.planner.observe.at_rest import LONGEST_REST_SECONDS, inputs_of, room_for, samples_of
from forebay.planner.observe.fleet_context import FleetContext
from forebay.planner.observe.replicas import ReplicaState
from forebay.planner.reconcile.reconcile_outcome import ServiceOutcome
from forebay.world.plan import ServicePlan


def rest_of(plan: ServicePlan, outcome: ServiceOutcome, fleet: FleetContext, due_at: float) -> Rest | None:
    """The rest that begins with this plan; None when there is something to do, or something to wait for that no input
    announces. `due_at` is when something of the service is due next."""
    if plan.actions or plan.events or plan.error or not _settled(outcome):
        return None
    until = min(due_at, _stale_at(outcome), fleet.now + LONGEST_REST_SECONDS)
    service = outcome.service
    return Rest(inputs_of(fleet, service), samples_of(fleet, service), room_for(fleet, service), fleet.now, until)


def _settled(outcome: ServiceOutcome) -> bool:
    """Whether every wanted replica serves, all signals are as they should be, and no limit or back-off is running."""
    context = outcome.context
    memory, load, decision = context.memory, context.load, context.decision
    return (
        len(context.replicas) == load.known == decision.applied
        and all(replica.state is ReplicaState.SERVING for replica in context.replicas)
        and not any(proposal.waits_for for proposal in decision.proposals)
        and not (context.orphans or context.refusals or context.halt or context.first_round)
        and not (context.counts.replacing or load.silent or load.distrusted)
        and not (memory.failures or memory.stalls or memory.shortages or memory.retries)
        and not (outcome.steps or outcome.held_back or (outcome.placeholders and outcome.placeholders.held_back))
        and context.wake_request.floor is None
    )


def _stale_at(outcome: ServiceOutcome) -> float:
    """When the oldest sample is too old to be used."""
    samples = [replica.sampled_at for replica in outcome.context.replicas if replica.sampled_at is not None]
    return min(samples, default=inf) + outcome.context.settings.stale_after_seconds
