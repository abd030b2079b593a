"""Recent failures: refused creations, replicas that ended or never served, and halted rollouts."""

from collections.abc import Collection, Iterable
from typing import Final

from forebay.api.reasons import Reason
from forebay.planner.memory import Halt, ReplicaFailure, ServiceMemory, Stall
from forebay.planner.observe.nodes import FAILURES_KEPT_SECONDS, MOST_FAILURES
from forebay.planner.observe.replicas import Replica, ReplicaState, is_faulty
from forebay.world.world import Refusal

STALLS_KEPT_SECONDS: Final = 4 * 3600.0
MOST_STALLS: Final = 64
FAILURE_WINDOW_SECONDS: Final = 600.0
"""A pod that ends within this time after its creation failed early, and the next one may too."""


def refusals_for_capacity(refusals: Iterable[Refusal]) -> list[Refusal]:
    """All refusals except those of a taken name, because the next creation uses another name."""
    return [refusal for refusal in refusals if refusal.reason != Reason.NAME_TAKEN]


def refusals_in_a_row(memory: ServiceMemory, refusals: Iterable[Refusal]) -> tuple[int, float]:
    """In how many ticks in a row creations were refused, and the time of the last refusal.

    A tick with new refusals counts once. A successful creation resets the number.
    """
    refused = refusals_for_capacity(refusals)
    if not refused:
        return 0, 0.0
    again = refused[-1].at > memory.refused_at
    return memory.refusals + again, refused[-1].at


def failures_of(
    before: tuple[ReplicaFailure, ...], replicas: tuple[Replica, ...], now: float
) -> tuple[ReplicaFailure, ...]:
    """Failures of the last hour, one per replica. Replicas that only wait for a node are left out, because no node
    is at fault."""
    known = {failure.pod_uid for failure in before}
    new = [
        ReplicaFailure(
            pod_uid=replica.pods[0].uid,
            revision=replica.revision,
            node=replica.failing_node,
            at=now,
            ended=replica.state is ReplicaState.FAILED and now - replica.created_at < FAILURE_WINDOW_SECONDS,
        )
        for replica in replicas
        if (replica.state is ReplicaState.FAILED or is_faulty(replica)) and replica.pods[0].uid not in known
    ]
    kept = [failure for failure in before if now - failure.at < FAILURES_KEPT_SECONDS]
    return (*kept, *new)[-MOST_FAILURES:]


def stalls_of(before: tuple[Stall, ...], replicas: tuple[Replica, ...], now: float) -> tuple[Stall, ...]:
    """Stalls of the last hours, one per replica."""
    known = {stall.pod_uid for stall in before}
    stalled = [replica.pods[0].uid for replica in replicas if replica.reason == Reason.STALLED]
    kept = [stall for stall in before if now - stall.at < STALLS_KEPT_SECONDS]
    return (*kept, *(Stall(uid, now) for uid in stalled if uid not in known))[-MOST_STALLS:]


def halt_of(targets: Collection[str], live: Iterable[Replica], before: Halt | None) -> Halt | None:
    """The halt of the rollout to `targets` (revision hashes, one per variant); None while nothing halts it.

    A rollout stays halted after the failing replica is gone, until the spec asks for another revision or the failed
    replica serves.
    """
    replicas = tuple(live)
    if all(replica.revision in targets for replica in replicas):
        return None
    faulty = [replica for replica in replicas if replica.revision in targets and is_faulty(replica)]
    if faulty:
        uids = sorted(uid for replica in faulty for uid in replica.uids)
        return Halt(faulty[0].revision, tuple(uids), faulty[0].message)
    if before is None or before.revision not in targets:
        return None
    recovered = any(r.state is ReplicaState.SERVING and r.uids & set(before.pods) for r in replicas)
    return None if recovered else before
