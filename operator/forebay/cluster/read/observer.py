"""Observer: reads the cluster into one frozen World.

Services, pods, nodes and the objects of services come from watch caches. While a cache is not current, `observe` fails:
no plan is better than a plan from old data. Each tick also asks the API server for one service, so that there is no
plan while it does not answer, or refuses. Listing a thousand services instead would cost a tenth of a second of CPU.

Views that have not changed are the identical objects at each tick.
"""

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from forebay.api import labels
from forebay.cluster.client.kube_api import (
    CONTROLLER_REVISIONS,
    DISRUPTION_BUDGETS,
    INFERENCE_SERVICES,
    NO_ANSWER,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    SERVICES,
    ApiError,
    KubeApi,
    Resource,
)
from forebay.cluster.read.derived_views import GpuNodes, RevisionsByOwner
from forebay.cluster.read.performance_profiles import PerformanceProfiles
from forebay.cluster.read.pod_templates import NO_TEMPLATE, PodTemplates
from forebay.cluster.read.pool_views import WarmPools
from forebay.cluster.read.projections import (
    ChildObject,
    InferenceServiceObject,
    NodeObject,
    PodObject,
    QuotaObject,
    RevisionObject,
)
from forebay.cluster.read.quota_views import leaves_no_more, quota_view
from forebay.cluster.read.refusals import Refusals
from forebay.cluster.read.service_views import ServiceViews, same_intent, template_name
from forebay.cluster.read.tenant_caches import TenantCaches
from forebay.cluster.read.views import (
    OwnedRevision,
    PodFacts,
    child_view,
    node_view,
    owned_revision,
    pod_facts,
    same_pod,
)
from forebay.cluster.read.watch_cache import WatchCache, Watched, WatchPace
from forebay.scaling.load.signals import PodSignals
from forebay.workloads.spec.engine_versions import Defaults
from forebay.world.quota import QuotaView
from forebay.world.settings import Settings
from forebay.world.world import ChildView, NodeView, Revision, ServiceView, World

UNTRUSTED_CACHE_SECONDS = 180.0
"""The age at which a cache is not current: two silent watches in a row, and no successful LIST in between."""
WITHOUT_QUOTAS = "without them, a full quota is noticed only when it refuses a pod"
MANAGED_SELECTOR = f"{labels.MANAGED_BY}={labels.MANAGER}"


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """The address of a running engine's metrics."""

    uid: str
    namespace: str
    pod: str
    ip: str
    port: int
    engine_version: str | None
    """The vLLM version; None while the pod's revision is unknown."""
    created_at: float
    """Unix seconds."""
    service: str
    """Name of the InferenceService."""


class Observer:
    """Keeps the watch caches current (`run`) and builds a World from them (`observe`)."""

    def __init__(
        self,
        api: KubeApi,
        *,
        settings: Settings,
        defaults: Defaults | None = None,
        wake: Callable[[str], None] = lambda reason: None,
        namespace: str | None = None,
        pool_namespace: str | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
        pace: WatchPace | None = None,
    ) -> None:
        """`namespace` None means all namespaces; `wake` gets the plural of a resource that changed.

        `pool_namespace` is the namespace of WarmPools' pods; None for an operator without WarmPools and TenantQuotas.
        """
        self._api = api
        self._settings = settings
        self._namespace = namespace
        self.refusals = Refusals()
        self._services = ServiceViews(defaults)
        self._revisions_by_owner = RevisionsByOwner()
        self._gpu_nodes = GpuNodes()
        self._templates = PodTemplates(api, monotonic)
        self._profiles = PerformanceProfiles(api, monotonic)

        def cache(watched: Watched[Any, Any]) -> WatchCache[Any, Any]:
            return WatchCache(api, watched, wake=wake, jitter=jitter, clock=monotonic, pace=pace)

        def children(resource: Resource) -> WatchCache[ChildObject, ChildView]:
            return cache(
                Watched(
                    resource, ChildObject, lambda child: child_view(child, resource.kind), MANAGED_SELECTOR, namespace
                )
            )

        self._pods: WatchCache[PodObject, PodFacts] = cache(
            Watched(PODS, PodObject, pod_facts, labels.SERVICE, namespace, same_pod, _labelled(labels.SERVICE))
        )
        self._nodes: WatchCache[NodeObject, NodeView] = cache(Watched(NODES, NodeObject, node_view))
        self._revisions: WatchCache[RevisionObject, OwnedRevision] = cache(
            Watched(CONTROLLER_REVISIONS, RevisionObject, owned_revision, MANAGED_SELECTOR, namespace)
        )
        self._children = (children(SERVICES), children(DISRUPTION_BUDGETS))
        self._stored_services: WatchCache[InferenceServiceObject, InferenceServiceObject] = cache(
            Watched(
                INFERENCE_SERVICES,
                InferenceServiceObject,
                lambda stored: stored,
                namespace=namespace,
                same_view=same_intent,
            )
        )
        self._pools = None if pool_namespace is None else WarmPools(api, pool_namespace, defaults, monotonic)
        belongs_to_pool = _labelled(labels.WARM_POOL)
        self._pool_pods: tuple[WatchCache[PodObject, PodFacts], ...] = ()
        if pool_namespace is not None:
            watched = Watched(PODS, PodObject, pod_facts, labels.WARM_POOL, pool_namespace, same_pod, belongs_to_pool)
            self._pool_pods = (cache(watched),)
        self._quotas: WatchCache[QuotaObject, QuotaView] = cache(
            Watched(
                RESOURCE_QUOTAS,
                QuotaObject,
                quota_view,
                namespace=namespace,
                same_view=self._no_more_for_us,
                otherwise=WITHOUT_QUOTAS,
            )
        )
        self._quota_namespaces: frozenset[str] = frozenset()
        self._tenants = None if pool_namespace is None else TenantCaches(cache, pool_namespace)
        self._caches: tuple[WatchCache[Any, Any], ...] = (
            *(self._pods, self._nodes, self._revisions, *self._children, self._stored_services),
            *(*self._pool_pods, self._quotas, *(() if self._tenants is None else self._tenants.all)),
        )

    async def run(self) -> None:
        """Keep all caches current until this task is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for cache in self._caches:
                tasks.create_task(cache.run(), name=f"watch {cache.resource.plural}")

    @property
    def synced(self) -> bool:
        return all(cache.ready for cache in self._caches)

    def ages(self) -> dict[str, float]:
        """Seconds since the API server last confirmed each cache, by plural; infinite before the first LIST."""
        ages: dict[str, float] = {}
        for cache in self._caches:
            ages[cache.resource.plural] = max(cache.age, ages.get(cache.resource.plural, 0.0))
        return ages

    def problems(self) -> tuple[str, ...]:
        """The objects that could not be read, each with its name and the reason."""
        return tuple(f"{cache.resource.kind} {fault}" for cache in self._caches for fault in cache.unreadable)

    async def observe(self, signals: Mapping[str, PodSignals], now: float) -> World:
        """The World at `now` (unix seconds). Raises ApiError, also while a cache is not current."""
        await self._api.probe(INFERENCE_SERVICES, namespace=self._namespace)
        pools = () if self._pools is None else await self._pools.read()
        self._require_current_caches()
        services = await self._read_services()
        revisions = self._revisions_by_owner.of(self._revisions.views.values())
        return World(
            services=services,
            revisions=revisions,
            pods=tuple(facts.view for pods in (self._pods, *self._pool_pods) for facts in pods.views.values()),
            nodes=self._gpu_nodes.of(self._nodes.views, _gpu_names(services, revisions)),
            children=self._known_children(now),
            signals=signals,
            settings=self._settings,
            refusals=self.refusals.of_pods(now),
            warm_pools=pools,
            quotas=self._readable_quotas(services),
            tenant_quotas=None if self._tenants is None else self._tenants.quotas(),
            share_plans=None if self._tenants is None else self._tenants.share_plans(),
        )

    def engines(self) -> tuple[EngineAddress, ...]:
        """The engines to scrape: the pods of rank 0 of all running replicas, including draining ones."""
        versions = {
            (stored.owner_uid, stored.revision.hash): stored.engine_version
            for stored in self._revisions.views.values()
            if stored.revision is not None
        }
        addresses = []
        for facts in self._pods.views.values():
            pod = facts.view
            if pod.phase == "Running" and pod.rank == 0 and facts.ip and facts.port:
                version = versions.get((pod.owner_uid or pod.service_uid, pod.revision))
                where = (pod.uid, pod.key.namespace, pod.name, facts.ip, facts.port)
                addresses.append(EngineAddress(*where, version, pod.created_at, pod.key.name))
        return tuple(addresses)

    def store_answer(self, resource: Resource, body: bytes) -> None:
        """Update the caches with the answer to one of our own writes."""
        for cache in self._caches:
            if cache.resource == resource:
                cache.store_answer(body)

    def store_deletion(self, resource: Resource, uid: str, body: bytes) -> None:
        """Update the caches with the answer to one of our own deletes."""
        for cache in self._caches:
            if cache.resource == resource:
                cache.store_deletion(uid, body)

    async def _read_services(self) -> tuple[ServiceView, ...]:
        """The services, ordered by namespace and name."""
        services = sorted(
            self._stored_services.views.values(), key=lambda stored: (stored.metadata.namespace, stored.metadata.name)
        )
        names = {stored.metadata.uid: template_name(stored) for stored in services}
        templates = await self._templates.read(
            (stored.metadata.namespace, name) for stored in services if (name := names[stored.metadata.uid])
        )
        profiles = await self._profiles.read()
        self._services.keep_only(names)
        views = []
        for stored in services:
            key = (stored.metadata.namespace, names[stored.metadata.uid] or "")
            resolved = self._services.resolutions
            views.append(self._services.view(stored, templates.get(key, NO_TEMPLATE), profiles))
            if self._services.resolutions > resolved:
                await asyncio.sleep(0)  # hundreds are resolved at the start; let other tasks run in between
        return tuple(views)

    def _require_current_caches(self) -> None:
        for cache in self._caches:
            if not cache.ready:
                raise ApiError(NO_ANSWER, "StaleCache", f"{cache.resource.plural} have not been listed yet")
            if cache.age > UNTRUSTED_CACHE_SECONDS and not cache.optional:
                raise ApiError(NO_ANSWER, "StaleCache", f"no news of {cache.resource.plural} for {cache.age:.0f} s")

    def _readable_quotas(self, services: Iterable[ServiceView]) -> tuple[QuotaView, ...]:
        """The quotas of the namespaces with our pods; none while they are not current, so that only the API server
        decides."""
        pool_namespaces = () if self._pools is None else (self._pools.namespace,)
        self._quota_namespaces = frozenset((*(service.key.namespace for service in services), *pool_namespaces))
        if self._quotas.age > UNTRUSTED_CACHE_SECONDS:
            return ()
        return tuple(quota for quota in self._quotas.views.values() if quota.namespace in self._quota_namespaces)

    def _no_more_for_us(self, old: QuotaView, new: QuotaView) -> bool:
        """Whether a change of a quota leaves no more for our pods, and need not wake the loop."""
        return new.namespace not in self._quota_namespaces or leaves_no_more(old, new)

    def _known_children(self, now: float) -> tuple[ChildView, ...]:
        cached = [child for cache in self._children for child in cache.views.values()]
        names = {child.child_key for child in cached}
        foreign = self.refusals.foreign_children(now)
        return (*cached, *(child for child in foreign if child.child_key not in names))


def _labelled(label: str) -> Callable[[PodObject], bool]:
    return lambda pod: label in (pod.metadata.labels or {})


def _gpu_names(services: Iterable[ServiceView], revisions: Mapping[str, tuple[Revision, ...]]) -> frozenset[str]:
    wanted = [service.wanted for service in services if service.wanted is not None]
    wanted += [variant.wanted for service in services for variant in service.variants]
    stored = [revision for of_service in revisions.values() for revision in of_service]
    return frozenset(revision.shape.resource_name for revision in (*wanted, *stored))
