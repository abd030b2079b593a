"""Scheduler: whose request starts next on one pool, who waits, and who is refused at the door.

Pure: time is an argument, in monotonic seconds, and so is chance. Four calls make the life of a request: `arrive`
queues or refuses it, `dispatch` starts what the pool takes and refuses what has waited for too long, `settle` replaces
the reserved cost by the real one, and `cancel` forgets one whose client has gone. What was dispatched is never cut.

The cost is reserved when a request is dispatched and not when it arrives: one that waits and goes away has used
nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final

from forebay.admission.pool_gate import GateLimits, PoolGate, PoolPhase, PoolState
from forebay.admission.request import Dispatched, Refusal, RefusalReason, Request
from forebay.admission.tenant_order import TenantNode, Turn, Waiting, begin_waiting, charge, end_waiting, next_tenant
from forebay.admission.token_bucket import TokenBucket
from forebay.api.tenant_quota import TenantClass
from forebay.sharing.tenant import CLASSES, Tenant
from forebay.sharing.tenant_tree import TenantTree

RESUME: Final = 0.8
"""Part of the longest wait below which a tenant that was refused by prediction is admitted again."""
JITTER: Final = 0.5
"""Part of a Retry-After that chance adds."""
LONGEST_RETRY_SECONDS: Final = 60.0
FEW_ENDS: Final = 100
"""Ends of requests that have left which are not worth clearing up."""


@dataclass(frozen=True, slots=True)
class TenantRules:
    """A tenant's share with the limits that only admission knows. Amounts are normalized tokens per minute."""

    tenant: Tenant
    requests_per_minute: float | None = None
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class ClassLimits:
    """How long a request of a class may wait in its queue; what a request accepts itself comes first."""

    wait_seconds: float
    """For its turn, while replicas serve."""
    cold_start_seconds: float
    """For the first replica."""


@dataclass(frozen=True, slots=True)
class SchedulerLimits:
    interactive: ClassLimits = ClassLimits(wait_seconds=3.0, cold_start_seconds=600.0)
    batch: ClassLimits = ClassLimits(wait_seconds=3600.0, cold_start_seconds=3600.0)
    queued_per_tenant: int = 1000
    queued: int = 10_000
    burst_seconds: float = 5.0
    """Of guarantees and limits: how much of an unused rate may be used later."""
    most_lead_seconds: float = 10.0
    """Capacity by which a guarantee puts nobody further ahead of its siblings in service by weight."""
    reservation_seconds: float = 3600.0
    """Time without a record after which a request is no longer under way; its reservation stays charged."""
    gate: GateLimits = field(default_factory=GateLimits)

    def of(self, tenant_class: TenantClass) -> ClassLimits:
        return self.interactive if tenant_class is TenantClass.INTERACTIVE else self.batch


@dataclass(slots=True)
class _Reservation:
    tenant: TenantNode
    cost: float
    classes: Sequence[TenantClass]
    dispatched_at: float


@dataclass(slots=True)
class _Queues:
    """What is queued, under way and refused by prediction."""

    queued: int = 0
    backlog: dict[str, float] = field(default_factory=dict)
    """Cost in the queue, by tenant."""
    reserved: dict[str, _Reservation] = field(default_factory=dict)
    """By request, in the order of dispatch."""
    in_flight: float = 0.0
    """Reserved tokens under way."""
    ends: list[tuple[float, int, Waiting]] = field(default_factory=list)
    """When each that is queued has waited for too long, as a heap; those that left are dropped as they come up."""
    arrivals: int = 0
    refusing: set[str] = field(default_factory=set)
    """Tenants whose last prediction was beyond the wait of its request."""


class Scheduler:
    """The queues, counters and buckets of one pool."""

    def __init__(self, rules: Iterable[TenantRules], limits: SchedulerLimits, now: float) -> None:
        """Raises SharingError for tenants of which no tree can be made."""
        self._limits = limits
        self._gate = PoolGate(limits.gate, now)
        self._pool = PoolState(0.0, PoolPhase.ABSENT)
        self._serving_since = now
        self._root, self._tenants = _nodes(tuple(rules), limits.burst_seconds, now)
        self._queues = _Queues()

    @property
    def waiting(self) -> int:
        """Requests in all queues."""
        return self._queues.queued

    @property
    def in_flight(self) -> int:
        """Dispatched requests without a record."""
        return len(self._queues.reserved)

    def see(self, pool: PoolState, now: float) -> None:
        """A new reading of the pool."""
        serves, served = pool.phase is PoolPhase.SERVING, self._pool.phase is PoolPhase.SERVING
        self._pool = pool
        self._gate.see(pool, now)
        if serves and not served:
            self._serving_since = now
        if serves is not served:
            self._sort_ends()

    def arrive(self, request: Request, now: float, jitter: float) -> Refusal | None:
        """Queues the request, or refuses it. `jitter` is a random number from 0 to 1."""
        tenant = self._tenants.get(request.tenant)
        if tenant is None:
            return _refusal(request, RefusalReason.UNKNOWN_TENANT, LONGEST_RETRY_SECONDS, jitter)
        if refused := self._refused_at_the_door(request, tenant, now):
            reason, wait = refused
            return _refusal(request, reason, wait, jitter)
        queues = self._queues
        waiting = Waiting(request, tenant, now)
        tenant.queue.append(waiting)
        queues.queued += 1
        queues.arrivals += 1
        heappush(queues.ends, (self._end_of(waiting), queues.arrivals, waiting))
        if len(queues.ends) > 2 * queues.queued + FEW_ENDS:
            self._sort_ends()
        queues.backlog[tenant.name] = queues.backlog.get(tenant.name, 0.0) + request.cost
        if len(tenant.queue) == 1:
            begin_waiting(tenant, now)
        return None

    def dispatch(self, now: float, jitter: float) -> tuple[list[Dispatched], list[Refusal]]:
        """Everything that starts now, in order, and what has waited for too long."""
        self._forget_old_reservations(now)
        refused = list(self._waited_too_long(now, jitter))
        started = []
        while self._queues.queued and self._gate.is_open(self._queues.in_flight, now):
            chosen = next_tenant(self._root, now)
            if chosen is None:
                break
            started.append(self._start(*chosen, now))
        return started, refused

    def settle(self, request_id: str, cost: float, now: float) -> bool:
        """Replaces what is reserved for a request by its real cost. False if nothing is reserved for it any more."""
        reservation = self._queues.reserved.get(request_id)
        if reservation is None:
            return False
        self._release(request_id)
        difference = cost - reservation.cost
        self._gate.charge(difference, now)
        charge(reservation.tenant, difference, reservation.classes, now)
        return True

    def cancel(self, request_id: str, tenant_name: str, now: float) -> bool:
        """Takes a request out of its queue, because its client has gone. False if it does not wait there."""
        tenant = self._tenants.get(tenant_name)
        found = tenant and next((each for each in tenant.queue if each.request.id == request_id), None)
        if not tenant or not found:
            return False
        tenant.queue.remove(found)
        self._left_queue(found, now)
        return True

    def _start(self, tenant: TenantNode, turn: Turn, now: float) -> Dispatched:
        waiting = tenant.queue.popleft()
        cost = waiting.request.cost
        # In the order of interactive work, batch counts only as far as it came first itself.
        counts_for_all = turn.guaranteed or tenant.tenant_class is TenantClass.INTERACTIVE
        classes = CLASSES if counts_for_all else (TenantClass.BATCH,)
        most_lead = self._limits.most_lead_seconds * self._pool.tokens_per_minute / 60
        charge(tenant, cost, classes, now, most_lead if turn.guaranteed else inf)
        self._gate.charge(cost, now)
        tenant.rate.dispatched(cost, now)
        for node in tenant.path:
            node.in_flight += 1
            if node.requests is not None:
                node.requests.charge(1, now)
        self._queues.reserved[waiting.request.id] = _Reservation(tenant, cost, classes, now)
        self._queues.in_flight += cost
        self._left_queue(waiting, now)
        return Dispatched(waiting.request, now - waiting.arrived_at)

    def _left_queue(self, waiting: Waiting, now: float) -> None:
        tenant = waiting.tenant
        waiting.left = True
        self._queues.queued -= 1
        self._queues.backlog[tenant.name] -= waiting.request.cost
        if not tenant.queue:
            self._queues.backlog[tenant.name] = 0.0
            end_waiting(tenant, now)

    def _release(self, request_id: str) -> None:
        reservation = self._queues.reserved.pop(request_id)
        self._queues.in_flight -= reservation.cost
        for node in reservation.tenant.path:
            node.in_flight -= 1

    def _forget_old_reservations(self, now: float) -> None:
        """Requests without a record for too long are no longer under way; what they reserved stays charged."""
        oldest = now - self._limits.reservation_seconds
        old = []
        for request_id, reservation in self._queues.reserved.items():
            if reservation.dispatched_at > oldest:
                break
            old.append(request_id)
        for request_id in old:
            self._release(request_id)

    def _refused_at_the_door(
        self, request: Request, tenant: TenantNode, now: float
    ) -> tuple[RefusalReason, float] | None:
        """Why the request may not queue, and after how many seconds it may come back."""
        limits, pool = self._limits, self._pool
        if pool.phase is PoolPhase.ABSENT:
            return RefusalReason.NO_CAPACITY, LONGEST_RETRY_SECONDS
        if len(tenant.queue) >= limits.queued_per_tenant or self._queues.queued >= limits.queued:
            return RefusalReason.QUEUE_FULL, self._longest_wait(request, tenant)
        longest = self._longest_wait(request, tenant)
        if pool.phase is PoolPhase.STARTING:
            ready_in = pool.ready_in_seconds
            return (RefusalReason.COLD_START, ready_in) if ready_in is not None and ready_in > longest else None
        backlog = self._queues.backlog.get(tenant.name, 0.0)
        by_limit = max(_wait_for_limits(node, backlog, len(tenant.queue), now) for node in tenant.path)
        if by_limit > longest:
            return RefusalReason.TENANT_LIMIT, by_limit - longest
        return self._predicted_too_late(request, tenant, backlog, longest, now)

    def _predicted_too_late(
        self, request: Request, tenant: TenantNode, backlog: float, longest: float, now: float
    ) -> tuple[RefusalReason, float] | None:
        """By the rate at which the tenant's own queue moves. An empty queue is never refused: it measures the rate."""
        predicted = tenant.rate.wait(backlog + request.cost, now) if tenant.queue else 0.0
        most = longest * RESUME if tenant.name in self._queues.refusing else longest
        if predicted is None or predicted <= most:
            self._queues.refusing.discard(tenant.name)
            return None
        self._queues.refusing.add(tenant.name)
        return RefusalReason.PREDICTED_WAIT, predicted - longest * RESUME

    def _longest_wait(self, request: Request, tenant: TenantNode) -> float:
        """While replicas serve, or for the first one."""
        allowed = self._limits.of(tenant.tenant_class)
        cold = self._pool.phase is not PoolPhase.SERVING
        own = allowed.cold_start_seconds if cold else allowed.wait_seconds
        return own if request.wait_seconds is None else request.wait_seconds

    def _waited_too_long(self, now: float, jitter: float) -> Iterable[Refusal]:
        """Takes what may wait no longer out of its queue."""
        reason = {
            PoolPhase.SERVING: RefusalReason.WAITED_TOO_LONG,
            PoolPhase.STARTING: RefusalReason.COLD_START,
            PoolPhase.ABSENT: RefusalReason.NO_CAPACITY,
        }[self._pool.phase]
        ends = self._queues.ends
        while ends and (ends[0][2].left or ends[0][0] <= now):
            waiting = heappop(ends)[2]
            if not waiting.left:
                waiting.tenant.queue.remove(waiting)
                self._left_queue(waiting, now)
                yield _refusal(waiting.request, reason, self._longest_wait(waiting.request, waiting.tenant), jitter)

    def _sort_ends(self) -> None:
        """Computes the ends anew for those that are still queued."""
        ends = self._queues.ends
        ends[:] = [(self._end_of(waiting), order, waiting) for _, order, waiting in ends if not waiting.left]
        heapify(ends)

    def _end_of(self, waiting: Waiting) -> float:
        """When it has waited for too long. Time without any replica does not count as a wait for its turn."""
        longest = self._longest_wait(waiting.request, waiting.tenant)
        if waiting.request.wait_seconds is None and self._pool.phase is PoolPhase.SERVING:
            return max(waiting.arrived_at, self._serving_since) + longest
        return waiting.arrived_at + longest


def _wait_for_limits(node: TenantNode, backlog: float, queued: int, now: float) -> float:
    """Seconds until the limits of this tenant or group alone would let one more request start behind this queue."""
    wait = 0.0
    if node.limit is not None:
        wait = max(wait, node.limit.seconds_until(backlog, now))
    if node.requests is not None:
        wait = max(wait, node.requests.seconds_until(queued + 1, now))
    return wait if node.concurrency != 0 else inf


def _refusal(request: Request, reason: RefusalReason, wait: float, jitter: float) -> Refusal:
    status = {RefusalReason.NO_CAPACITY: 503, RefusalReason.UNKNOWN_TENANT: 403}.get(reason, 429)
    retry_after = min(max(1.0, wait), LONGEST_RETRY_SECONDS) * (1 + JITTER * jitter)
    return Refusal(request, reason, status, retry_after)


def _nodes(rules: Sequence[TenantRules], burst_seconds: float, now: float) -> tuple[TenantNode, dict[str, TenantNode]]:
    """The root, and by name the node whose queue a tenant's requests join: of a group, a leaf of its own."""
    tree = TenantTree.of(each.tenant for each in rules)
    guarantees = dict(zip(tree.node_of, tree.by_name(tree.guarantees), strict=True))
    root = _node(TenantRules(Tenant("")), 0.0, None, burst_seconds, now)
    by_name = {each.tenant.name: each for each in rules}
    nodes: dict[str, TenantNode] = {}

    def node_of(name: str) -> TenantNode:
        if name not in nodes:
            parent = by_name[name].tenant.parent
            above = root if parent is None else node_of(parent)
            nodes[name] = _node(by_name[name], guarantees[name], above, burst_seconds, now)
        return nodes[name]

    for name in sorted(by_name):
        node_of(name)
    for group in {each.tenant.parent for each in rules if each.tenant.parent is not None}:
        own = TenantRules(Tenant(group, tenant_class=by_name[group].tenant.tenant_class))
        nodes[group] = _node(own, 0.0, nodes[group], burst_seconds, now)
    return root, nodes


def _node(
    rules: TenantRules, guaranteed: float, parent: TenantNode | None, burst_seconds: float, now: float
) -> TenantNode:
    tenant = rules.tenant
    requests = rules.requests_per_minute
    bucket = None if requests is None else TokenBucket.full(requests, burst_seconds, now)
    if bucket is not None:
        # Less than one request in a burst would never let any start.
        bucket.burst = bucket.level = max(1.0, bucket.burst)
    return TenantNode(
        name=tenant.name,
        weight=tenant.weight,
        tenant_class=tenant.tenant_class,
        parent=parent,
        guarantee=TokenBucket.full(guaranteed, burst_seconds, now),
        limit=None if tenant.limit is None else TokenBucket.full(tenant.limit, burst_seconds, now),
        requests=bucket,
        concurrency=rules.concurrency,
    )
