"""TenantCaches: the TenantQuotas of the cluster, and the share plans that are stored for admission."""

from collections.abc import Callable
from typing import Any

from forebay.api import labels
from forebay.cluster.client.kube_api import CONFIG_MAPS
from forebay.cluster.read.projections import ConfigMapObject
from forebay.cluster.read.tenant_quota_views import (
    TENANT_QUOTAS,
    WITHOUT_TENANT_QUOTAS,
    TenantQuotaObject,
    same_claims,
    tenant_quota_view,
)
from forebay.cluster.read.watch_cache import WatchCache, Watched
from forebay.workloads.objects.share_plan import read_shard
from forebay.world.share_plans import SharePlanShard, StoredSharePlans
from forebay.world.tenants import TenantQuotaView

WITHOUT_SHARE_PLANS = "without them, admission keeps the shares that it has"


class TenantCaches:
    """Plans begin without either; old quotas still count, since they change rarely and nobody waits for them."""

    def __init__(self, cache: Callable[[Watched[Any, Any]], WatchCache[Any, Any]], namespace: str) -> None:
        """`cache` makes a watch cache; `namespace` is the operator's own."""
        self._namespace = namespace
        self._quotas: WatchCache[TenantQuotaObject, TenantQuotaView] = cache(
            Watched(
                TENANT_QUOTAS,
                TenantQuotaObject,
                tenant_quota_view,
                same_view=same_claims,
                otherwise=WITHOUT_TENANT_QUOTAS,
            )
        )
        self._plans: WatchCache[ConfigMapObject, SharePlanShard] = cache(
            Watched(
                CONFIG_MAPS,
                ConfigMapObject,
                _shard,
                labels.SHARE_PLAN,
                namespace,
                # A plan that was changed by hand is noticed at the next division; none of our writes wakes the loop.
                same_view=lambda old, new: True,
                otherwise=WITHOUT_SHARE_PLANS,
            )
        )

    @property
    def all(self) -> tuple[WatchCache[Any, Any], ...]:
        return self._quotas, self._plans

    def quotas(self) -> tuple[TenantQuotaView, ...] | None:
        """None until they have been listed."""
        return tuple(self._quotas.views.values()) if self._quotas.synced else None

    def share_plans(self) -> StoredSharePlans | None:
        """None until they have been listed."""
        return StoredSharePlans(self._namespace, tuple(self._plans.views.values())) if self._plans.synced else None


def _shard(stored: ConfigMapObject) -> SharePlanShard:
    metadata = stored.metadata
    return read_shard(metadata.name, metadata.uid, metadata.resource_version, stored.data or {})
