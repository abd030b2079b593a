"""SharePlanWriter: writes the ConfigMaps that admission reads.

The shards of a plan are written one after the other, and not at all once one has failed: a reader waits for the rest,
and the next division writes them all again.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import groupby

from forebay.cluster.client.kube_api import CONFIG_MAPS, NOT_FOUND, ApiError, KubeApi
from forebay.cluster.write.action_calls import AnswerStore
from forebay.cluster.write.write_gate import Gate, LeadershipLostError
from forebay.world.plan import DeleteSharePlan, Plan, StoreSharePlan

log = logging.getLogger(__name__)


class SharePlanWriter:
    def __init__(
        self,
        api: KubeApi,
        store: AnswerStore,
        *,
        is_leader: Callable[[], bool],
        dry_run: bool = False,
        at_once: int = 4,
    ) -> None:
        self._api = api
        self._store = store
        self._is_leader = is_leader
        self._dry_run = dry_run
        self._at_once = at_once

    async def write(self, plan: Plan) -> int:
        """Carry out what is planned, and return how many calls failed. Raises nothing for a call that failed."""
        if self._dry_run:
            for action in plan.share_plans:
                log.info("share plan %s: would be %s", action.name, _past(action))
            return 0
        gate = Gate(self._api, is_leader=self._is_leader, at_once=self._at_once)
        models = [list(shards) for _, shards in groupby(plan.share_plans, key=lambda action: action.model)]
        return sum(await asyncio.gather(*(self._write_model(gate, shards) for shards in models)))

    async def _write_model(self, gate: Gate, shards: Sequence[StoreSharePlan | DeleteSharePlan]) -> int:
        for shard in shards:
            try:
                await self._write_shard(gate, shard)
            except LeadershipLostError:
                return 0
            except ApiError as error:
                if error.reason == "Conflict":
                    return 0
                log.warning("share plan %s could not be %s: %s", shard.name, _past(shard), error)
                return 1
            log.info("share plan %s is %s", shard.name, _past(shard))
        return 0

    async def _write_shard(self, gate: Gate, shard: StoreSharePlan | DeleteSharePlan) -> None:
        if isinstance(shard, DeleteSharePlan):
            await self._delete(gate, shard)
            return
        metadata, namespace = shard.body["metadata"], shard.body["metadata"]["namespace"]
        if shard.resource_version is None:
            answer = await gate.create(CONFIG_MAPS, namespace, shard.body)
        else:
            guarded = {**shard.body, "metadata": {**metadata, "resourceVersion": shard.resource_version}}
            answer = await gate.apply(CONFIG_MAPS, namespace, shard.name, guarded)
        self._store.store_answer(CONFIG_MAPS, answer)

    async def _delete(self, gate: Gate, shard: DeleteSharePlan) -> None:
        try:
            answer = await gate.delete(CONFIG_MAPS, shard.namespace, shard.name, uid=shard.uid)
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            answer = b""
        self._store.store_deletion(CONFIG_MAPS, shard.uid, answer)


def _past(action: StoreSharePlan | DeleteSharePlan) -> str:
    return "deleted" if isinstance(action, DeleteSharePlan) else "stored"
