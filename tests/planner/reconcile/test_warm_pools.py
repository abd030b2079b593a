"""WarmPools in the plan: their share of the limits, and that no service notices them."""

from dataclasses import replace

from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.world.plan import CreatePlaceholder
from forebay.world.settings import Settings
from forebay.world.world import WarmPoolView
from tests.builders.plans import actions, creates, held
from tests.builders.pools import a_pool
from tests.builders.world import NOW, a_pod, a_service, a_world, signals_of

PATIENT = State.empty(NOW - 3600)


def planned(service, *pools: WarmPoolView, settings: Settings | None = None):
    pods = (a_pod(service),)
    world = a_world(service, pods=pods, signals=signals_of(pods), settings=settings)
    with_pools = replace(world, warm_pools=pools)
    return plan(with_pools, PATIENT, NOW)[0]


def names(done, number: int = 0) -> list[str]:
    return [action.name for action in done.warm_pools[number].actions if isinstance(action, CreatePlaceholder)]


def test_a_pool_gets_what_it_asks_for_and_no_service_notices():
    service = a_service()
    pool = a_pool()

    done = planned(service, pool)

    assert names(done) == [f"h100-{pool.uid[:5]}-placeholder-{number}" for number in range(2)]
    assert (actions(done), done.warm_pools[0].status.wanted) == ((), 2)


def test_the_ceiling_goes_to_replicas_then_to_services_then_to_pools_by_name():
    """Of 8 GPUs: two replicas, two placeholders of the service, then pools of places of 2."""
    service = a_service(min_replicas=2, placeholders=2)

    done = planned(service, a_pool("b", gpus=2), a_pool("a", gpus=2, wanted=1), settings=Settings(max_gpus=8))

    assert (len(creates(done)), len(held(done))) == (1, 2)
    assert [(share.key.name, len(share.actions)) for share in done.warm_pools] == [("a", 1), ("b", 1)]
    assert done.warm_pools[1].status.conditions[0].reason == "PlaceholdersHeldBack"


def test_a_deleted_or_unreadable_pool_gets_no_action():
    done = planned(a_service(), a_pool("a", deleting=True), a_pool("b", place=None, problem="spec: no."))

    assert [share.actions for share in done.warm_pools] == [(), ()]
    assert done.warm_pools[1].status.conditions[0].reason == "SpecInvalid"


def test_an_error_in_one_pool_affects_that_pool_alone():
    done = planned(a_service(), a_pool("a", placeholders=None), a_pool("b"))

    assert done.warm_pools[0].status.conditions[0].reason == "PlanningFailed"
    assert len(names(done, 1)) == 2
