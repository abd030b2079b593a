"""Tenant order: which tenant's first request is next, down a tree of groups and tenants.

At each level of the tree, those that are under their guarantee come first, and then those with the least service by
weight (virtual token counter). A group's guarantee and limit hold for its tenants together, so a tenant borrows from
its group only while no sibling below its own guarantee waits. A tenant whose queue fills after it was empty is lifted
to the least service among those that wait: nobody saves up turns by being idle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

from forebay.admission.dispatch_rate import DispatchRate
from forebay.admission.request import Request
from forebay.admission.token_bucket import TokenBucket
from forebay.api.tenant_quota import TenantClass
from forebay.sharing.tenant import CLASSES


@dataclass(frozen=True, slots=True)
class Turn:
    """A round of the order: who of which class may be next."""

    tenant_class: TenantClass
    guaranteed: bool
    """Only within guarantees."""


TURNS = tuple(Turn(tenant_class, guaranteed) for guaranteed in (True, False) for tenant_class in CLASSES)
"""First turn first: guarantees of either class, interactive before batch, then what is left in the same order."""


@dataclass(slots=True, eq=False)
class Waiting:
    """A request in its tenant's queue."""

    request: Request
    tenant: TenantNode
    arrived_at: float
    left: bool = False
    """It was dispatched, refused or cancelled."""


@dataclass(slots=True, eq=False)
class TenantNode:
    """A tenant or a group, with what it used and what it may use."""

    name: str
    weight: float
    tenant_class: TenantClass
    parent: TenantNode | None
    guarantee: TokenBucket
    """Decides the order only, and refuses nothing."""
    limit: TokenBucket | None
    requests: TokenBucket | None
    """Requests per minute."""
    concurrency: int | None
    in_flight: int = 0
    queue: deque[Waiting] = field(default_factory=deque)
    rate: DispatchRate = field(default_factory=DispatchRate)
    service: dict[TenantClass, float] = field(default_factory=lambda: dict.fromkeys(CLASSES, 0.0))
    """Cost by weight, as each class counts it: interactive and guarantees, or everything."""
    waiting: dict[TenantClass, dict[str, TenantNode]] = field(default_factory=lambda: {each: {} for each in CLASSES})
    """Children with a request of the class in their queues, or further down."""
    least: dict[TenantClass, float] = field(default_factory=lambda: dict.fromkeys(CLASSES, 0.0))
    """The least service among its waiting children, as last seen."""

    @property
    def path(self) -> Iterator[TenantNode]:
        """The tenant, its groups, and the root."""
        node: TenantNode | None = self
        while node is not None:
            yield node
            node = node.parent

    def may_start(self, now: float) -> bool:
        """Whether its own limits let a request start now."""
        if self.concurrency is not None and self.in_flight >= self.concurrency:
            return False
        if self.requests is not None and self.requests.fill(now) < 1:
            return False
        return self.limit is None or self.limit.has_any(now)


def next_tenant(root: TenantNode, now: float) -> tuple[TenantNode, Turn] | None:
    """The tenant whose first request is next, and in which turn; None if nobody who waits may start."""
    for turn in TURNS:
        if (tenant := _next_below(root, turn, now)) is not None:
            return tenant, turn
    return None


def _next_below(group: TenantNode, turn: Turn, now: float) -> TenantNode | None:
    each = turn.tenant_class
    children = group.waiting[each]
    guaranteed = {name for name, child in children.items() if child.guarantee.has_any(now)}
    # Within a group that is under its own guarantee any child may use it, those under their own first.
    inherited = not turn.guaranteed or group.parent is not None
    order = sorted(
        (child for name, child in children.items() if inherited or name in guaranteed),
        key=lambda child: (child.name not in guaranteed, child.service[each], child.name),
    )
    for index, child in enumerate(order):
        found = _next_in(child, turn, now)
        if found is not None:
            if child.name not in guaranteed:
                # Who may not start is as idle as who does not wait, and saves up no turns either.
                for passed in order[:index]:
                    passed.service[each] = max(passed.service[each], child.service[each])
            return found
    return None


def _next_in(child: TenantNode, turn: Turn, now: float) -> TenantNode | None:
    if not child.may_start(now):
        return None
    return child if child.queue else _next_below(child, turn, now)


def begin_waiting(tenant: TenantNode, now: float) -> None:
    """The tenant's queue is no longer empty: it is lifted among its siblings, and so is a group that begins with it."""
    tenant.rate.begin(now)
    each = tenant.tenant_class
    node = tenant
    while (group := node.parent) is not None and node.name not in group.waiting[each]:
        node.service[each] = max(node.service[each], least_service(group, each))
        group.waiting[each][node.name] = node
        node = group


def end_waiting(tenant: TenantNode, now: float) -> None:
    """The tenant's queue is empty."""
    tenant.rate.end(now)
    each = tenant.tenant_class
    node = tenant
    while (group := node.parent) is not None and not node.queue and not node.waiting[each]:
        least_service(group, each)
        group.waiting[each].pop(node.name, None)
        if not group.waiting[each]:
            group.least[each] = max(group.least[each], node.service[each])
        node = group


def least_service(group: TenantNode, tenant_class: TenantClass) -> float:
    """The least service among the waiting children; it never falls, and stays while nobody waits."""
    services = [child.service[tenant_class] for child in group.waiting[tenant_class].values()]
    group.least[tenant_class] = max(group.least[tenant_class], min(services, default=0.0))
    return group.least[tenant_class]


def charge(tenant: TenantNode, cost: float, classes: Sequence[TenantClass], now: float, most_lead: float = inf) -> None:
    """Charges the tenant and its groups. A negative cost is given back.

    `classes` are those in whose order the cost counts. With `most_lead`, for what a guarantee gave, nobody gets further
    ahead of the siblings that wait than by so much service: what a guarantee gave for hours is no debt afterwards.
    """
    for node in tenant.path:
        node.guarantee.charge_within_burst(cost, now)
        if node.limit is not None:
            node.limit.charge(cost, now)
        if (group := node.parent) is None:
            continue
        for each in classes:
            service = node.service[each] + cost / node.weight
            if most_lead < inf:
                others = (child.service[each] for child in group.waiting[each].values() if child is not node)
                service = max(node.service[each], min(service, min(others, default=inf) + most_lead))
            node.service[each] = service
