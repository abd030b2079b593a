"""Drains: how a replica is removed without cutting a stream.

The pods first leave the Service's endpoints; when no request is in flight any more, they are deleted. The start of a
drain is an annotation on the pods, so another operator can continue it. A drain can be cancelled until the pods are
deleted.
"""

from dataclasses import replace
from typing import Final

from forebay.api.reasons import Reason
from forebay.planner.observe.replicas import Replica
from forebay.planner.reconcile.steps import Step, StepKind, normal, warning
from forebay.scaling.decision import number, seconds
from forebay.world.plan import CancelDrain, DeletePod, StartDrain
from forebay.world.settings import Settings

NEVER_SERVED_GRACE_SECONDS: Final = 10
"""Grace period of a pod that never served. It has no stream to finish, and a starting engine ignores SIGTERM, so it
would hold its GPU for the whole normal grace period."""


def remove(replica: Replica, reason: Reason, why: str) -> tuple[Step, ...]:
    """Remove a replica: by a drain when it may hold requests, at once when it never served.

    Nothing is done while this is unknown, which may be so in the first half minute of an operator.
    """
    if replica.started is None:
        return ()
    return (start(replica, reason, why) if replica.started else delete(replica, reason, why),)


def start(replica: Replica, reason: str, why: str) -> Step:
    pods = [pod for pod in replica.pods if pod.drain_started_at is None and not pod.deleting]
    return Step(
        StepKind.DRAIN,
        tuple(StartDrain(pod.name, pod.uid, pod.resource_version, reason) for pod in pods),
        subject=replica.name,
        event=normal(Reason.DRAIN_STARTED, f"{replica.name} finishes its requests and is then deleted: {why}."),
    )


def cancel(replica: Replica, why: str) -> Step:
    pods = [pod for pod in replica.pods if not pod.deleting]
    return Step(
        StepKind.OTHER,
        tuple(CancelDrain(pod.name, pod.uid, pod.resource_version) for pod in pods),
        subject=replica.name,
        event=normal(Reason.DRAIN_CANCELLED, f"{replica.name} serves again: {why}."),
    )


def delete(replica: Replica, reason: Reason, why: str, *, alarming: bool = False) -> Step:
    pods = [pod for pod in replica.pods if not pod.deleting]
    event = warning if alarming else normal
    grace_seconds = NEVER_SERVED_GRACE_SECONDS if replica.started is False else None
    return Step(
        StepKind.OTHER,
        tuple(DeletePod(pod.name, pod.uid, pod.resource_version, reason, grace_seconds) for pod in pods),
        subject=replica.name,
        event=event(reason.of_replica, f"{replica.name} is deleted: {why}."),
    )


def delete_lost(replica: Replica) -> Step:
    """Delete a replica whose node is lost. No limit holds this back: nothing serves there any more, and the replacement
    waits for it."""
    step = delete(replica, Reason.NODE_LOST, replica.message.rstrip("."), alarming=True)
    return replace(step, kind=StepKind.DRAIN, charged=False)


def finish(
    replica: Replica, drain_timeout_seconds: float, settings: Settings, now: float, node_ends_at: float | None = None
) -> tuple[Step, ...]:
    """The deletion that ends a drain, when it is due: at the latest after drainTimeout, and at `node_ends_at`.

    Only a sample taken some seconds after the start proves that nothing is in flight, because proxies may still send
    requests before that. A pod without metrics gets the whole drainTimeout.
    """
    started_at = replica.drain_started_at
    if started_at is None:
        return ()
    if replica.pods[0].rank > 0:
        return (delete(replica, Reason.INCOMPLETE, "its rank 0, which held all requests, is gone", alarming=True),)
    sampled_at = replica.sampled_at
    if replica.in_flight == 0 and sampled_at is not None and sampled_at >= started_at + settings.drain_grace_seconds:
        return (delete(replica, Reason.DRAINED, "all its requests are finished"),)
    if any(not pod.ready and pod.blocked == Reason.CRASH_LOOP for pod in replica.pods):
        return (delete(replica, Reason.CRASHED, "its engine crashed during the drain", alarming=True),)
    left = "an unknown number of" if replica.in_flight is None else number(replica.in_flight)
    if node_ends_at is not None and now >= node_ends_at:
        why = f"its node ends by a spot or maintenance notice, with {left} requests in flight"
        return (delete(replica, Reason.NODE_NOTICE, why, alarming=replica.in_flight != 0),)
    if now - started_at < drain_timeout_seconds:
        return ()
    why = f"drainTimeout ({seconds(drain_timeout_seconds)}) passed with {left} requests in flight"
    return (delete(replica, Reason.DRAIN_TIMEOUT, why, alarming=replica.in_flight != 0),)


def order_of_leaving(replica: Replica) -> tuple[float, float, float, str]:
    """Sort key of serving replicas: fewest requests in flight, least KV cache in use, youngest. Replicas with unknown
    values come last."""
    return (
        float("inf") if replica.in_flight is None else replica.in_flight,
        float("inf") if replica.kv_fraction is None else replica.kv_fraction,
        -replica.created_at,
        replica.name,
    )
