"""What failed lately: creations that were refused, replicas that ended or never served, rollouts that are halted."""

from collections.abc import Collection, Iterable
from typing import Final

from forebay.api.reasons import Reason
from forebay.planner.memory import Halt, ReplicaFailure, ServiceMemory
from forebay.planner.observe.nodes import FAILURES_KEPT_SECONDS, MOST_FAILURES
from forebay.planner.observe.replicas import Replica, ReplicaState, is_faulty
from forebay.world.world import Refusal

FAILURE_WINDOW_SECONDS: Final = 600.0
"""A pod that ends within so long of its creation has ended soon, and the next one may too."""


def refusals_for_lack(refusals: Iterable[Refusal]) -> list[Refusal]:
    """Without those that only cost a name."""
    return [refusal for refusal in refusals if refusal.reason != Reason.NAME_TAKEN]


def refusals_in_a_row(memory: ServiceMemory, refusals: Iterable[Refusal]) -> tuple[int, float]:
    """How often in a row, and when last: once more per tick with refusals, never once a creation came true."""
    refused = refusals_for_lack(refusals)
    if not refused:
        return 0, 0.0
    again = refused[-1].at > memory.refused_at
    return memory.refusals + again, refused[-1].at


def failures_of(
    before: tuple[ReplicaFailure, ...], replicas: tuple[Replica, ...], now: float
) -> tuple[ReplicaFailure, ...]:
    """One per pod, of the last hour. Not those that only wait for a node: no node is at fault for that."""
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


def halt_of(targets: Collection[str], live: Iterable[Replica], before: Halt | None) -> Halt | None:
    """Whether the rollout of `targets` (hashes: one, or one per variant) stands still, and why.

    It stays halted when the failing replica is gone, until something else is asked for or that very replica serves.
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
