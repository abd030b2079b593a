"""Share plans are written whole, and only when something that admission acts on has changed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from forebay.planner.reconcile.share_plans import share_plan_actions
from forebay.planner.share.tenants.wanted_plans import WantedPlan
from forebay.workloads.objects.share_plan import DATA_KEY, PlannedShards, PlannedTenant, digest_of, read_shard
from forebay.world.plan import DeleteSharePlan, StoreSharePlan
from forebay.world.share_plans import SharePlanShard, StoredSharePlans
from tests.builders.world import NOW

MODEL = "chat/llama"
ONE, TWO = PlannedTenant("one", limit=1_000), PlannedTenant("two", guaranteed=500)


def planned(*shards: Sequence[PlannedTenant]) -> PlannedShards:
    """Shards as given: real ones hold thousands of tenants."""
    digests = tuple(digest_of([tenant.as_json() for tenant in shard]) for shard in shards)
    return PlannedShards(tuple(map(tuple, shards)), digests)


WANTED = {MODEL: WantedPlan(planned([ONE], [TWO]), 10_000.0)}


def stored_by(
    *actions: StoreSharePlan | DeleteSharePlan, before: Sequence[SharePlanShard] = ()
) -> tuple[SharePlanShard, ...]:
    shards = {shard.name: shard for shard in before}
    for action in actions:
        if isinstance(action, DeleteSharePlan):
            del shards[action.name]
        else:
            shards[action.name] = read_shard(action.name, f"uid-{action.name}", "1", action.body["data"])
    return tuple(shards.values())


def actions(
    wanted: dict[str, WantedPlan], *shards: SharePlanShard, now: float = NOW
) -> tuple[StoreSharePlan | DeleteSharePlan, ...]:
    return share_plan_actions(wanted, StoredSharePlans("forebay-system", shards), now)


STORED = stored_by(*actions(WANTED))


def epochs(shards: Sequence[SharePlanShard]) -> set[int]:
    return {shard.epoch for shard in shards}


def test_a_new_model_gets_all_its_shards_with_one_epoch():
    made = actions(WANTED)
    assert [(action.name, getattr(action, "resource_version", "")) for action in made] == [
        ("share-plan.chat.llama.0", None),
        ("share-plan.chat.llama.1", None),
    ]
    assert epochs(STORED) == {int(NOW)}


def test_what_is_stored_is_not_written_again():
    assert actions(WANTED, *STORED, now=NOW + 3600) == ()


@pytest.mark.parametrize(
    ("capacity", "written"),
    [
        pytest.param(10_000.0, False, id="the same"),
        pytest.param(10_100.0, False, id="a little more"),
        pytest.param(9_900.0, False, id="a little less"),
        pytest.param(10_500.0, True, id="more"),
        pytest.param(0.0, True, id="nothing serves"),
        pytest.param(None, True, id="not known any more"),
    ],
)
def test_a_capacity_is_written_when_it_has_moved(capacity: float | None, written: bool):
    made = actions({MODEL: WantedPlan(WANTED[MODEL].tenants, capacity)}, *STORED)
    assert bool(made) is written


def changed(shard: SharePlanShard, **fields: Any) -> tuple[SharePlanShard, ...]:
    return tuple(replace(each, **fields) if each.name == shard.name else each for each in STORED)


@pytest.mark.parametrize(
    "shards",
    [
        pytest.param(STORED[:1], id="a shard is missing"),
        pytest.param(changed(STORED[1], digest="other"), id="a shard was changed by hand"),
        pytest.param(changed(STORED[1], model="", digest=""), id="a shard cannot be read"),
        pytest.param(changed(STORED[0], epoch=3), id="a write of the last shard was lost"),
        pytest.param(changed(STORED[1], shards=1), id="it was another number of shards"),
        pytest.param(changed(STORED[1], capacity=9_999.0), id="shards disagree about the capacity"),
    ],
)
def test_one_shard_that_differs_writes_all_of_them_with_a_later_epoch(shards: tuple[SharePlanShard, ...]):
    made = actions(WANTED, *shards, now=NOW + 10)
    after = stored_by(*made, before=shards)
    assert len(made) == 2
    assert epochs(after) == {int(NOW) + 10}
    assert actions(WANTED, *after, now=NOW + 20) == ()


def test_an_epoch_grows_even_when_the_clock_was_set_back():
    made = actions(WANTED, *changed(STORED[1], digest="other"), now=NOW - 3600)
    assert epochs(stored_by(*made)) == {int(NOW) + 1}


def test_other_tenants_are_written_and_surplus_shards_go():
    made = actions({MODEL: WantedPlan(planned([ONE, TWO]), 10_000.0)}, *STORED, now=NOW + 10)
    assert [(type(action), action.name) for action in made] == [
        (StoreSharePlan, "share-plan.chat.llama.0"),
        (DeleteSharePlan, "share-plan.chat.llama.1"),
    ]
    assert '"name":"two"' in made[0].body["data"][DATA_KEY]  # type: ignore[union-attr]


def test_a_model_without_quotas_has_no_plan():
    assert {action.name for action in actions({}, *STORED)} == {shard.name for shard in STORED}
    assert all(isinstance(action, DeleteSharePlan) for action in actions({}, *STORED))
