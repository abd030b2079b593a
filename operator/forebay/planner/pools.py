"""WarmPools: placeholders that belong to no service. They get what the services' own have left of the limits."""

from forebay.api.warm_pool import PoolStatus
from forebay.planner.conditions import WARM, Answer, conditions, held_places
from forebay.planner.placeholders import Hold, Means, Share, share_of, tally
from forebay.planner.plan import PoolPlan
from forebay.planner.staging import Site
from forebay.planner.world import WarmPoolView


def pool_plan(pool: WarmPoolView, site: Site, means: Means) -> PoolPlan:
    """Total: a fault in planning one pool holds that pool alone."""
    try:
        return _planned(pool, site, means)
    except Exception as error:  # noqa: BLE001 - one pool's fault must not hold the others
        told = f"Planning failed, so nothing is done for this pool: {type(error).__name__}: {error}"
        found = conditions(
            [(WARM, Answer("False", "PlanningFailed", told))], pool.status.conditions, pool.generation, site.now
        )
        return PoolPlan(pool.key, pool.uid, (), pool.status.model_copy(update={"conditions": found}))


def _planned(pool: WarmPoolView, site: Site, means: Means) -> PoolPlan:
    if pool.deleting:
        return PoolPlan(pool.key, pool.uid, (), pool.status)
    if pool.place is None:
        return _reported(pool, Share(), Answer("False", "SpecInvalid", pool.problem), pool.status.ready, site.now)
    hold = Hold(pool.key, pool.uid, pool.place, pool.placeholders, site.placeholders.get(pool.uid, ()))
    share, found = share_of(hold, site, means), tally(hold)
    return _reported(pool, share, held_places(found, share.held), found.ready, site.now)


def _reported(pool: WarmPoolView, share: Share, warm: Answer, ready: int, now: float) -> PoolPlan:
    status = PoolStatus(
        observed_generation=pool.generation,
        wanted=pool.placeholders,
        ready=ready,
        conditions=conditions([(WARM, warm)], pool.status.conditions, pool.generation, now),
    )
    return PoolPlan(pool.key, pool.uid, share.actions, status)
