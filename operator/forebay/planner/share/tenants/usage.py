"""Usage: what the services of each tenant carry, are asked for and hold.

Until a gateway tells callers apart, all that a service is asked for counts for the tenant of its namespace. Figures of
services at rest come from their memory, since nothing of them has changed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from forebay.api.instants import unix_seconds
from forebay.planner.memory import ServiceMemory
from forebay.planner.observe.fleet_context import FleetContext
from forebay.planner.share.tenants.claims import Claims
from forebay.scaling.learning.normalized_tokens import TokenRates
from forebay.world.world import NodeView, PodView, ServiceView

PRODUCT_LABEL: Final = "nvidia.com/gpu.product"
UNKNOWN_PRODUCT: Final = "unknown"
"""The product of services that may run on any, and of nodes without the label."""
AHEAD_SECONDS: Final = 3600.0
"""How long before a window warms it counts."""


@dataclass(frozen=True, slots=True)
class FloorWindow:
    """A window of a schedule that is open, or warms within the next hour."""

    start: float
    end: float
    replicas: int


@dataclass(frozen=True, slots=True)
class ModelUse:
    """One service, as a model that tenants share."""

    model: str
    """namespace/name."""
    tenant: str
    """Whose use it counts for."""
    rates: TokenRates
    max_replicas: int
    min_replicas: int
    product: str
    gpus_per_replica: int
    windows: tuple[FloorWindow, ...] = ()


@dataclass(slots=True)
class GpuUse:
    held: int = 0
    """GPUs of its pods, including those that drain."""
    asked: int = 0
    """GPUs of the replicas that scaling wants."""


@dataclass(frozen=True, slots=True)
class Usage:
    models: Mapping[str, ModelUse]
    gpus: Mapping[tuple[str, str], GpuUse]
    """By tenant and product."""
    products: Mapping[str, int] = field(default_factory=dict)
    """GPUs of the ready nodes, by product."""


def usage_of(fleet: FleetContext, memories: Mapping[str, ServiceMemory], claims: Claims) -> Usage:
    """`memories` has the services of this tick by uid, those at rest included."""
    models: dict[str, ModelUse] = {}
    gpus: dict[tuple[str, str], GpuUse] = {}
    for service in fleet.world.services:
        if service.deleting:
            continue
        memory = memories.get(service.uid)
        tenant, product = claims.tenant_of(service.key.namespace), _product_of(service)
        for pod in fleet.pods.get(service.uid, ()):
            gpus.setdefault((tenant, _product_under(pod, fleet.nodes, product)), GpuUse()).held += pod.gpus
        shape = None if service.wanted is None else service.wanted.shape
        each = 0 if shape is None else shape.gpus
        if each and memory is not None:
            desired = memory.scaling.desired or 0
            gpus.setdefault((tenant, product), GpuUse()).asked += desired * each
        models[str(service.key)] = ModelUse(
            model=str(service.key),
            tenant=tenant,
            rates=TokenRates() if memory is None else memory.tokens,
            max_replicas=0 if service.spec is None else service.spec.scaling.max_replicas,
            min_replicas=0 if service.spec is None else service.spec.scaling.min_replicas,
            product=product,
            gpus_per_replica=each,
            windows=() if memory is None else _windows(memory, fleet.now),
        )
    return Usage(models, gpus, _products(fleet.world.nodes))


def _product_of(service: ServiceView) -> str:
    selector = () if service.wanted is None else service.wanted.shape.node_selector
    return dict(selector).get(PRODUCT_LABEL, UNKNOWN_PRODUCT)


def _product_under(pod: PodView, nodes: Mapping[str, NodeView], otherwise: str) -> str:
    """The product of the node that the pod is on; the service's own while it has none."""
    node = None if pod.node is None else nodes.get(pod.node)
    return otherwise if node is None else node.labels.get(PRODUCT_LABEL, otherwise)


def _products(nodes: Iterable[NodeView]) -> dict[str, int]:
    products: dict[str, int] = {}
    for node in nodes:
        if node.ready and (gpus := sum(node.gpus.values())):
            product = node.labels.get(PRODUCT_LABEL, UNKNOWN_PRODUCT)
            products[product] = products.get(product, 0) + gpus
    return products


def _windows(memory: ServiceMemory, now: float) -> tuple[FloorWindow, ...]:
    """The windows that count now, from the status planned last."""
    if memory.status is None or not memory.status.schedules:
        return ()
    windows = []
    for schedule in memory.status.schedules:
        start, end = unix_seconds(schedule.start or ""), unix_seconds(schedule.end or "")
        warm_from = unix_seconds(schedule.warm_from or "") or start
        if start is None or end is None or warm_from is None or not schedule.replicas:
            continue
        if warm_from - AHEAD_SECONDS <= now < end:
            windows.append(FloorWindow(start, end, schedule.replicas))
    return tuple(windows)
