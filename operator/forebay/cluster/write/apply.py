"""Apply: turns a Plan into calls, in the order in which the plan lists its actions (`world.plan.ACTION_ORDER`).

Actions of one type run concurrently and end before the next type begins, so a plan may be interrupted at any point. A
failed call stops only later actions of its own service. No call is retried: the next tick reads the result and decides
again.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import assert_never

from forebay.api.warm_pool import WARM_POOL_KIND
from forebay.cluster.client.kube_api import NO_ANSWER, ApiError, KubeApi
from forebay.cluster.write.action_calls import Actor, AnswerStore
from forebay.cluster.write.write_gate import Gate, LeadershipLostError
from forebay.workloads.objects.ownership import Owner
from forebay.world.plan import (
    ACTION_ORDER,
    Action,
    AdoptPod,
    ApplyChildren,
    CancelDrain,
    CreatePlaceholder,
    CreatePod,
    DeletePlaceholder,
    DeletePod,
    DeleteRevision,
    LiftGate,
    Plan,
    PoolPlan,
    ServicePlan,
    StartDrain,
    StoreRevision,
    TenantPlan,
)
from forebay.world.world import ServiceKey

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CallFailure:
    """A call that failed."""

    key: ServiceKey
    uid: str
    action: Action | None
    """None for a status write."""
    error: ApiError


@dataclass(frozen=True, slots=True)
class ApplyOutcome:
    calls: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Calls made, by verb and plural."""
    failures: tuple[CallFailure, ...] = ()
    races: int = 0
    """Calls refused because the object had changed since it was read. This is not an error; the next tick decides."""
    leadership_lost: bool = False
    """Leadership was lost on the way, and the remaining actions were skipped."""


@dataclass(slots=True)
class OutcomeRecord:
    """Collects the failures and races of one tick."""

    failures: list[CallFailure] = field(default_factory=list)
    races: int = 0
    leadership_lost: bool = False

    def note(self, plan: ServicePlan | PoolPlan | TenantPlan, action: Action | None, error: ApiError) -> None:
        if error.reason == "Conflict":
            self.races += 1
            return
        self.failures.append(CallFailure(plan.key, plan.uid, action, error))
        log.warning(
            "%s: %s failed: %s",
            plan.key,
            type(action).__name__ if action else "status",
            error,
            extra={"service": str(plan.key)},
        )

    def outcome(self, calls: Counter[tuple[str, str]]) -> ApplyOutcome:
        return ApplyOutcome(dict(calls), tuple(self.failures), self.races, self.leadership_lost)


class Applier:
    def __init__(
        self,
        api: KubeApi,
        store: AnswerStore,
        *,
        is_leader: Callable[[], bool],
        dry_run: bool = False,
        at_once: int = 16,
    ) -> None:
        """`is_leader` is asked before every write; a dry run logs what it would do and calls nothing."""
        self._api = api
        self._store = store
        self._is_leader = is_leader
        self._dry_run = dry_run
        self._at_once = at_once

    async def apply(self, plan: Plan, now: float) -> ApplyOutcome:
        """Carry out all actions; never raises for a call that failed."""
        gate = Gate(self._api, is_leader=self._is_leader, at_once=self._at_once)
        record = OutcomeRecord()
        if plan.held is not None:
            log.warning("no action is carried out: %s", plan.held)
            return record.outcome(gate.calls)
        actor = Actor(gate, self._store, now)
        async with asyncio.TaskGroup() as tasks:
            for service in plan.services:
                if service.actions:
                    tasks.create_task(self._apply_in_order(actor, service, Owner(service.key, service.uid), record))
            for pool in plan.warm_pools:
                if pool.actions:
                    tasks.create_task(
                        self._apply_in_order(actor, pool, Owner(pool.key, pool.uid, WARM_POOL_KIND), record)
                    )
        return record.outcome(gate.calls)

    async def _apply_in_order(
        self, actor: Actor, plan: ServicePlan | PoolPlan, owner: Owner, record: OutcomeRecord
    ) -> None:
        """Carry out the actions of one service or pool, type by type."""
        blocked: set[type[Action]] = set()
        for kind, group in groupby(plan.actions, key=type):
            if kind in blocked or record.leadership_lost:
                continue
            done = await asyncio.gather(*(self._carry_out(actor, owner, plan, action, record) for action in group))
            if not all(done):
                blocked |= _dependent_types(kind)

    async def _carry_out(
        self, actor: Actor, owner: Owner, plan: ServicePlan | PoolPlan, action: Action, record: OutcomeRecord
    ) -> bool:
        """Whether the action succeeded; always true in a dry run."""
        if self._dry_run:
            log.info("%s: would %s", plan.key, _description(action), extra={"service": str(plan.key)})
            return True
        try:
            await actor.carry_out(owner, action)
        except LeadershipLostError:
            record.leadership_lost = True
            return False
        except ApiError as error:
            record.note(plan, action, error)
            return False
        except Exception as error:
            log.exception(
                "%s: %s failed in the operator itself",
                plan.key,
                type(action).__name__,
                extra={"service": str(plan.key)},
            )
            record.note(plan, action, ApiError(NO_ANSWER, type(error).__name__, str(error)))
            return False
        log.info("%s: %s", plan.key, _description(action), extra={"service": str(plan.key)})
        return True


def _dependent_types(kind: type[Action]) -> set[type[Action]]:
    """Types of actions that must not follow when one of this type failed."""
    if kind is StoreRevision:
        return set(ACTION_ORDER)
    if kind in (StartDrain, DeletePod):
        return {CancelDrain, CreatePod}
    return {CreatePod} if kind is ApplyChildren else set()


def _description(action: Action) -> str:
    match action:
        case StoreRevision():
            return f"store revision {action.revision.hash} as number {action.revision.number}"
        case ApplyChildren():
            return f"apply {' and '.join(action.kinds) or 'all children'}"
        case AdoptPod(drain_reason=None):
            return f"adopt {action.name}"
        case AdoptPod():
            return f"adopt {action.name} to drain it: {action.drain_reason}"
        case CreatePod():
            return f"create {action.name}"
        case LiftGate():
            return f"remove the scheduling gate of {action.name}"
        case StartDrain():
            return f"drain {action.name}: {action.reason}"
        case CancelDrain():
            return f"cancel the drain of {action.name}"
        case DeletePod():
            return f"delete {action.name}: {action.reason}"
        case CreatePlaceholder():
            return f"create {action.name}"
        case DeletePlaceholder():
            return f"delete {action.name}: {action.reason}"
        case DeleteRevision():
            return f"delete revision {action.name}"
        case _:
            assert_never(action)
