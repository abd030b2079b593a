"""StatusWriter: patches statuses of services, WarmPools and TenantQuotas that changed enough, and only what changed.

A merge patch replaces whole lists. This is right for conditions, because the planner is their only writer and decides
all of them at once. Status fields of a newer operator that this version does not know are left as they are.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from forebay.api.schema.base_model import Model
from forebay.cluster.client.kube_api import INFERENCE_SERVICES, NOT_FOUND, ApiError, KubeApi
from forebay.cluster.read.pool_views import WARM_POOLS
from forebay.cluster.read.tenant_quota_views import TENANT_QUOTAS
from forebay.cluster.write.action_calls import AnswerStore
from forebay.cluster.write.apply import ApplyOutcome, OutcomeRecord
from forebay.cluster.write.write_gate import Gate, LeadershipLostError
from forebay.planner.report.service_status import should_write, telemetry_seconds
from forebay.planner.report.tenant_status import should_write_quota
from forebay.world.plan import Plan, PoolPlan, ServicePlan, TenantPlan
from forebay.world.tenants import TenantQuotaView
from forebay.world.world import ServiceView, WarmPoolView, World

log = logging.getLogger(__name__)


class StatusWriter:
    def __init__(
        self,
        api: KubeApi,
        store: AnswerStore,
        *,
        is_leader: Callable[[], bool],
        dry_run: bool = False,
        at_once: int = 16,
    ) -> None:
        """`store` gets the written objects, so that the next plan starts from them."""
        self._api = api
        self._store = store
        self._is_leader = is_leader
        self._dry_run = dry_run
        self._at_once = at_once
        self._written_at: dict[str, float] = {}
        """When each status of a service or TenantQuota was last written (unix seconds), by uid."""

    def forget(self) -> None:
        """Forget when statuses were written, when those times can no longer be compared with the present."""
        self._written_at = {}

    async def write(self, plan: Plan, world: World, now: float) -> ApplyOutcome:
        """Write every status that differs enough from the stored one; failed calls are in the outcome."""
        gate = Gate(self._api, is_leader=self._is_leader, at_once=self._at_once)
        record = OutcomeRecord()
        stored = {service.uid: service for service in world.services}
        quotas = {quota.uid: quota for quota in world.tenant_quotas or ()}
        self._written_at = {uid: at for uid, at in self._written_at.items() if uid in stored or uid in quotas}
        at_most_every = telemetry_seconds(len(plan.services) + len(plan.tenants))
        async with asyncio.TaskGroup() as tasks:
            for service in plan.services:
                view = stored.get(service.uid)
                seconds_ago = now - self._written_at.get(service.uid, -inf)
                if view is not None and should_write(view.status, service.status, seconds_ago, at_most_every):
                    tasks.create_task(self._write(gate, service, view, now, record))
            pools = {pool.uid: pool for pool in world.warm_pools}
            for pool_plan in plan.warm_pools:
                pool = pools.get(pool_plan.uid)
                if pool is not None and pool_plan.status != pool.status:
                    tasks.create_task(self._write_pool(gate, pool_plan, pool, record))
            for tenant in plan.tenants:
                quota = quotas.get(tenant.uid)
                seconds_ago = now - self._written_at.get(tenant.uid, -inf)
                if quota is not None and should_write_quota(quota.status, tenant.status, seconds_ago, at_most_every):
                    tasks.create_task(self._write_quota(gate, tenant, quota, now, record))
        return record.outcome(gate.calls)

    async def _write_quota(
        self, gate: Gate, plan: TenantPlan, view: TenantQuotaView, now: float, record: OutcomeRecord
    ) -> None:
        if self._dry_run:
            log.info("TenantQuota %s: would write the status", plan.name)
            return
        body = {
            "metadata": {"resourceVersion": view.resource_version},
            "status": merge_patch(_as_json(view.status), _as_json(plan.status)),
        }
        try:
            answer = await gate.patch(TENANT_QUOTAS, None, plan.name, body, subresource="status")
            self._written_at[plan.uid] = now
            self._store.store_answer(TENANT_QUOTAS, answer)
        except LeadershipLostError:
            record.leadership_lost = True
        except ApiError as error:
            if error.status != NOT_FOUND:
                record.note(plan, None, error)

    async def _write_pool(self, gate: Gate, plan: PoolPlan, view: WarmPoolView, record: OutcomeRecord) -> None:
        if self._dry_run:
            log.info("WarmPool %s: would write the status", plan.key.name)
            return
        body = {
            "metadata": {"resourceVersion": view.resource_version},
            "status": merge_patch(_as_json(view.status), _as_json(plan.status)),
        }
        try:
            await gate.patch(WARM_POOLS, None, plan.key.name, body, subresource="status")
        except LeadershipLostError:
            record.leadership_lost = True
        except ApiError as error:
            if error.status != NOT_FOUND:
                record.note(plan, None, error)

    async def _write(self, gate: Gate, plan: ServicePlan, view: ServiceView, now: float, record: OutcomeRecord) -> None:
        if self._dry_run:
            log.info("%s: would write the status", plan.key, extra={"service": str(plan.key)})
            return
        # The precondition is the resourceVersion, because a patch of the status does not check the uid.
        metadata = {"resourceVersion": view.resource_version} if view.resource_version else {}
        body = {"metadata": metadata, "status": merge_patch(_as_json(view.status), _as_json(plan.status))}
        try:
            answer = await gate.patch(INFERENCE_SERVICES, plan.key.namespace, plan.key.name, body, subresource="status")
            self._written_at[plan.uid] = now
            self._store.store_answer(INFERENCE_SERVICES, answer)
        except LeadershipLostError:
            record.leadership_lost = True
        except ApiError as error:
            # A service that was deleted in the meantime needs no status.
            if error.status != NOT_FOUND:
                record.note(plan, None, error)


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch (RFC 7386) that turns `before` into `after`; removed fields are null."""
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        known = before.get(name)
        if name in before and known == value:
            continue
        if isinstance(value, Mapping):
            patch[name] = merge_patch(known if isinstance(known, Mapping) else {}, value)
        else:
            patch[name] = value
    return patch


def _as_json(status: Model) -> dict[str, Any]:
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)
