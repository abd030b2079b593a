"""Schedulers for tests, and steady clients that play against one in virtual time."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from forebay.admission.pool_gate import GateLimits, PoolPhase, PoolState
from forebay.admission.request import Dispatched, Refusal, Request
from forebay.admission.scheduler import ClassLimits, Scheduler, SchedulerLimits, TenantRules
from forebay.sharing.tenant import Tenant

TOKENS = 500.0
"""Cost of a request of a steady client."""
STEP_SECONDS = 0.01
WARM_UP_SECONDS = 60.0
JITTER = 0.5
NO_MARGIN = GateLimits(probe_margin=0.0)


def some_limits(**fields: Any) -> SchedulerLimits:
    """Limits without a probe margin, so that the capacity is what it says."""
    return SchedulerLimits(**{"gate": NO_MARGIN, **fields})


def short_waits(seconds: float) -> SchedulerLimits:
    return some_limits(interactive=ClassLimits(seconds, 600.0), batch=ClassLimits(seconds, 600.0))


def a_pool(tokens_per_minute: float = 1_000_000, **fields: Any) -> PoolState:
    return PoolState(tokens_per_minute, **fields)


def nothing_yet(**fields: Any) -> PoolState:
    return PoolState(0.0, PoolPhase.STARTING, **fields)


def a_scheduler(
    *tenants: Tenant | TenantRules, pool: PoolState | None = None, limits: SchedulerLimits | None = None
) -> Scheduler:
    rules = [each if isinstance(each, TenantRules) else TenantRules(each) for each in tenants]
    scheduler = Scheduler(rules, limits or some_limits(), 0.0)
    scheduler.see(pool or a_pool(), 0.0)
    return scheduler


def a_request(name: str, tenant: str = "a", cost: float = TOKENS, wait_seconds: float | None = None) -> Request:
    return Request(name, tenant, cost, wait_seconds)


@dataclass
class Clients:
    """Clients that send requests of one size at a steady rate, each reply being settled a second after its start."""

    scheduler: Scheduler
    asks: Mapping[str, float]
    """Tokens per minute by tenant, as reserved."""
    patience: Mapping[str, float] = field(default_factory=dict)
    """Seconds after which a client goes away if its request still waits, by tenant."""
    used: float = 1.0
    """Part of what is reserved that a reply really costs."""
    now: float = 0.0
    started: list[tuple[float, Dispatched]] = field(default_factory=list)
    refused: list[tuple[float, Refusal]] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    """Requests whose clients went away."""
    arrived_at: dict[str, float] = field(default_factory=dict)
    _impatient: deque[tuple[float, str, str]] = field(default_factory=deque)
    _replies: list[tuple[float, str, float]] = field(default_factory=list)
    _sent: dict[str, int] = field(default_factory=dict)

    def play(self, seconds: float) -> "Clients":
        end = self.now + seconds
        while self.now < end:
            self.now = round(self.now + STEP_SECONDS, 6)
            for tenant, ask in self.asks.items():
                while self._sent.get(tenant, 0) < self.now * ask / 60 / TOKENS:
                    self._send(tenant)
            while self._replies and self._replies[0][0] <= self.now:
                _, name, cost = heappop(self._replies)
                self.scheduler.settle(name, cost, self.now)
            while self._impatient and self._impatient[0][0] <= self.now:
                _, name, tenant = self._impatient.popleft()
                self.gone += [name] if self.scheduler.cancel(name, tenant, self.now) else []
            started, refused = self.scheduler.dispatch(self.now, JITTER)
            for each in started:
                self.started.append((self.now, each))
                heappush(self._replies, (self.now + 1.0, each.request.id, each.request.cost * self.used))
            self.refused += [(self.now, each) for each in refused]
        return self

    def _send(self, tenant: str) -> None:
        number = self._sent[tenant] = self._sent.get(tenant, 0) + 1
        request = a_request(f"{tenant}-{number}", tenant)
        if tenant in self.patience:
            self._impatient.append((self.now + self.patience[tenant], request.id, tenant))
        self.arrived_at[request.id] = self.now
        if refusal := self.scheduler.arrive(request, self.now, JITTER):
            self.refused.append((self.now, refusal))

    def tokens_per_minute(self, since: float = WARM_UP_SECONDS) -> dict[str, float]:
        """What each tenant's started requests really cost, since a time."""
        minutes = (self.now - since) / 60
        served = dict.fromkeys(self.asks, 0.0)
        for at, each in self.started:
            if at > since:
                served[each.request.tenant] += each.request.cost * self.used / minutes
        return served

    def longest_wait(self, tenant: str, since: float = WARM_UP_SECONDS) -> float:
        """Of the requests that started."""
        return max(each.waited_seconds for at, each in self.started if at > since and each.request.tenant == tenant)

    def refusals(self, tenant: str, since: float = WARM_UP_SECONDS) -> Iterable[tuple[float, Refusal]]:
        """Seconds between arrival and refusal, with the refusal."""
        return [
            (at - self.arrived_at[each.request.id], each)
            for at, each in self.refused
            if at > since and each.request.tenant == tenant
        ]


def started_in_order(scheduler: Scheduler, *times: float) -> list[str]:
    """Tenants of the requests that start at these times."""
    return [each.request.tenant for now in times for each in scheduler.dispatch(now, JITTER)[0]]


def queue_many(scheduler: Scheduler, tenant: str, count: int, now: float = 0.0, cost: float = TOKENS) -> None:
    for number in range(count):
        assert scheduler.arrive(a_request(f"{tenant}-{now}-{number}", tenant, cost), now, JITTER) is None


def fields_of(refusal: Refusal | None, *names: str) -> tuple[Any, ...]:
    assert refusal is not None
    return tuple(getattr(refusal, name) for name in names)
