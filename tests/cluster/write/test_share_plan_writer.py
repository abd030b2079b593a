"""Share plans reach the API server shard by shard, never from a standby, and never half of one twice."""

from typing import Any

from forebay.cluster.client.kube_api import CONFIG_MAPS, ApiError
from forebay.cluster.read.observer import Observer
from forebay.cluster.write.share_plan_writer import SharePlanWriter
from forebay.workloads.objects.share_plan import PlannedShards, PlannedTenant, share_plan_body
from forebay.world.plan import DeleteSharePlan, Plan, StoreSharePlan
from forebay.world.settings import Settings
from tests.cluster.fake_api import FakeApi, FakeCall

NAMESPACE, MODEL = "forebay-system", "chat/llama"
SHARDS = PlannedShards.of([PlannedTenant("one")]).shards * 2


def a_store(shard: int, version: str | None = None, epoch: int = 1) -> StoreSharePlan:
    body = share_plan_body(NAMESPACE, MODEL, epoch, None, SHARDS, shard)
    return StoreSharePlan(MODEL, body["metadata"]["name"], version, body)


class Written:
    def __init__(self, **options: Any) -> None:
        self.api = FakeApi()
        observer = Observer(self.api, settings=Settings())
        leading = options.pop("leading", True)
        self.writer = SharePlanWriter(self.api, observer, is_leader=lambda: leading, **options)

    async def write(self, *actions: StoreSharePlan | DeleteSharePlan) -> tuple[int, list[str]]:
        """How many calls failed, and the calls."""
        self.api.calls.clear()
        failed = await self.writer.write(Plan((), share_plans=actions))
        return failed, [f"{call.verb} {call.name}" for call in self.api.calls]

    def stored(self, shard: int) -> dict[str, Any] | None:
        return self.api.find(CONFIG_MAPS, NAMESPACE, f"share-plan.chat.llama.{shard}")


async def test_shards_are_created_changed_and_deleted():
    written = Written()
    assert await written.write(a_store(0), a_store(1)) == (
        0,
        [f"create {NAMESPACE}/share-plan.chat.llama.0", f"create {NAMESPACE}/share-plan.chat.llama.1"],
    )
    first, second = written.stored(0), written.stored(1)
    assert first is not None
    assert second is not None
    version, uid = first["metadata"]["resourceVersion"], second["metadata"]["uid"]
    surplus = DeleteSharePlan(MODEL, NAMESPACE, "share-plan.chat.llama.1", uid)
    failed, calls = await written.write(a_store(0, version, epoch=2), surplus)
    assert (failed, [call.split()[0] for call in calls]) == (0, ["apply", "delete"])
    assert '"epoch":2' in (written.stored(0) or {})["data"]["plan.json"]
    assert written.stored(1) is None


async def test_no_later_shard_is_written_after_one_has_failed():
    written = Written()

    def refuse(call: FakeCall) -> None:
        if call.name.endswith(".0"):
            raise ApiError(403, "Forbidden", "no")

    written.api.before = refuse
    assert (await written.write(a_store(0), a_store(1)))[0] == 1
    assert written.stored(1) is None


async def test_a_plan_that_somebody_else_has_changed_meanwhile_waits_for_the_next_division():
    written = Written()
    await written.write(a_store(0))
    assert (await written.write(a_store(0, "0", epoch=2)))[0] == 0
    assert '"epoch":1' in (written.stored(0) or {})["data"]["plan.json"]


async def test_what_is_gone_already_is_no_failure():
    assert (await Written().write(DeleteSharePlan(MODEL, NAMESPACE, "share-plan.chat.llama.0", "uid")))[0] == 0


async def test_neither_a_standby_nor_a_dry_run_writes():
    assert await Written(leading=False).write(a_store(0)) == (0, [])
    assert await Written(dry_run=True).write(a_store(0)) == (0, [])
