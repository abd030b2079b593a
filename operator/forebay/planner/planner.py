"""The planner: a pure function from the World to a Plan, in five steps.

Each step is a package of the same name. The order of elements in the input does not matter, and the same input gives
the same output. Services of which nothing has changed pass through none of the steps. `plan` is total: an error while
planning one service affects that service alone.
"""

from dataclasses import replace

from forebay.planner.decide.decide import decide
from forebay.planner.memory import State
from forebay.planner.observe.at_rest import services_at_rest
from forebay.planner.observe.fleet_context import fleet_context_of
from forebay.planner.observe.observe import observe
from forebay.planner.observe.plausibility import implausible
from forebay.planner.reconcile.reconcile import reconcile
from forebay.planner.report.report import report
from forebay.planner.share.share import share
from forebay.world.plan import Plan
from forebay.world.world import World


def plan(world: World, state: State, now: float) -> tuple[Plan, State]:
    """The plan for this tick, and the state for the next one. `now` is in Unix seconds."""
    held, object_counts = implausible(world, state.object_counts, now)
    state = replace(state, object_counts=object_counts)
    if held is not None:
        return Plan(services=(), held=held), state
    fleet = fleet_context_of(world, state, now)
    at_rest = services_at_rest(fleet, world.services)
    observed = observe(fleet, (service for service in world.services if service.uid not in at_rest.memories))
    decided = decide(fleet, observed)
    granted, tenants = share(fleet, decided, at_rest)
    outcome = reconcile(fleet, granted, tenants.plans)
    return report(fleet, outcome, at_rest, tenants)
