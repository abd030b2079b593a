"""The planner: everything that is known in, everything that is to be done out.

Pure and total. The order of what comes in does not matter, and the same input gives the same output. A fault in
planning one service holds that service alone. Five steps, each in a package of its name.
"""

from dataclasses import replace

from forebay.planner.decide.decide import decide
from forebay.planner.memory import State
from forebay.planner.observe.observe import observe
from forebay.planner.observe.plausibility import doubt
from forebay.planner.reconcile.reconcile import reconcile
from forebay.planner.report.report import report
from forebay.planner.share.share import share
from forebay.world.plan import Plan
from forebay.world.world import World


def plan(world: World, state: State, now: float) -> tuple[Plan, State]:
    """What to do now, and what to remember for the next time. `now` is in unix seconds."""
    held, census = doubt(world, state.census, now)
    state = replace(state, census=census)
    if held is not None:
        return Plan(services=(), held=held), state
    fleet, observed = observe(world, state, now)
    decided = decide(fleet, observed)
    granted = share(decided)
    outcome = reconcile(fleet, granted)
    return report(fleet, outcome)
