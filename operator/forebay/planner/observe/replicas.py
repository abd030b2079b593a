"""Replicas: the planner's unit. A replica is one pod, or one pod per rank; its pods are created, serve and are deleted
together."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from forebay.api.instants import rfc3339
from forebay.api.reasons import Reason
from forebay.scaling.decision import seconds
from forebay.scaling.load.pod_history import PodHistory
from forebay.world.settings import Settings
from forebay.world.world import PodView

CRASHES_UNTIL_STUCK: Final = 2
"""Restarts after which a container in back-off counts as stuck; a single crash may be chance."""
INCOMPLETE_SECONDS: Final = 60.0
"""How long a new replica may lack pods, counted from the creation of its first pod."""


class ReplicaState(StrEnum):
    LOADING = "Loading"
    """Starting; counts as future capacity."""
    BLOCKED = "Blocked"
    """Stuck while starting, or hung: no capacity, but it still counts against maxReplicas."""
    SERVING = "Serving"
    DRAINING = "Draining"
    DELETING = "Deleting"
    FAILED = "Failed"
    """A pod ended by itself, or not all of its pods exist."""
    LOST = "Lost"
    """A node of it is lost."""


STUCK_TEXTS: Final[Mapping[Reason, str]] = {
    Reason.UNSCHEDULABLE: "has had no node",
    Reason.QUOTA_EXCEEDED: "has exceeded the quota",
    Reason.IMAGE_PULL: "has failed to pull its image",
}
SHORTAGE_REASONS: Final = (Reason.UNSCHEDULABLE, Reason.QUOTA_EXCEEDED)
REVISION_FAULTS: Final = (Reason.CRASH_LOOP, Reason.IMAGE_PULL, Reason.CONTAINER_CONFIG, Reason.MODEL_LOAD)
LIVE: Final = (ReplicaState.LOADING, ReplicaState.BLOCKED, ReplicaState.SERVING)
"""States that count against maxReplicas."""


@dataclass(frozen=True, slots=True)
class Replica:
    revision: str
    ordinal: int
    pods: tuple[PodView, ...]
    """By rank."""
    state: ReplicaState
    reason: Reason | None = None
    message: str = ""
    """Why the replica is stuck or has failed, as a whole sentence."""
    started: bool | None = False
    """Whether it serves or has served, so that it may hold requests; None while unknown."""
    in_flight: float | None = None
    """Requests that it has accepted and not finished; None while unknown."""
    kv_fraction: float | None = None
    """Share of the KV cache in use, 0 to 1; None while unknown."""
    sampled_at: float | None = None
    """When `in_flight` and `kv_fraction` were read."""
    failing_node: str | None = None
    """Node of the pod that caused the state; None when no single pod did."""

    @property
    def name(self) -> str:
        return self.pods[0].name

    @property
    def failure_reason(self) -> Reason:
        """Why the replica is stuck or has failed. It must be in such a state."""
        assert self.reason is not None, f"{self.name} is {self.state}"
        return self.reason

    @property
    def created_at(self) -> float:
        return min(pod.created_at for pod in self.pods)

    @property
    def ready_since(self) -> float:
        """When the last of its pods became ready; meaningful only for a serving replica."""
        return max(pod.ready_since or pod.created_at for pod in self.pods)

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset(pod.node for pod in self.pods if pod.node is not None)

    @property
    def half_placed(self) -> bool:
        """Whether some of its pods have a node and others do not."""
        return len({pod.node is None for pod in self.pods}) > 1

    @property
    def drain_started_at(self) -> float | None:
        return min((pod.drain_started_at for pod in self.pods if pod.drain_started_at is not None), default=None)

    @property
    def drain_reason(self) -> str:
        return next((pod.drain_reason for pod in self.pods if pod.drain_reason), "")

    @property
    def gpus(self) -> int:
        return sum(pod.gpus for pod in self.pods)

    @property
    def uids(self) -> frozenset[str]:
        return frozenset(pod.uid for pod in self.pods)


def is_faulty(replica: Replica) -> bool:
    """Whether the replica is stuck for a reason that its revision may have caused, which a lack of GPUs is not."""
    return replica.state is ReplicaState.BLOCKED and replica.reason in REVISION_FAULTS


@dataclass(frozen=True, slots=True)
class ReplicaStateInputs:
    """The inputs from which the states of a service's replicas are derived."""

    settings: Settings
    now: float
    startup_timeout_seconds: float
    pods_per_replica: Mapping[str, int]
    """By revision hash."""
    lost_nodes: frozenset[str] = frozenset()
    histories: Mapping[str, PodHistory] | None = None
    """By pod uid."""
    watching_since: float = 0.0
    """When this operator began to lead. Shortly after, a pod that is not ready may have been ready before."""
    retrying: bool = False
    """Whether stuck replicas have been retried. Then another blocked replica counts as stuck at once."""
    several_shapes: bool = False
    """Whether the service has variants. Then each shape gets the whole pendingTimeout to find a node, because node
    autoscalers need part of that time."""


@dataclass(frozen=True, slots=True)
class Finding:
    state: ReplicaState
    reason: Reason | None = None
    message: str = ""
    node: str | None = None
    """Node of the pod at fault."""


def replicas_of(pods: Iterable[PodView], inputs: ReplicaStateInputs) -> tuple[Replica, ...]:
    """The pods grouped into replicas, ordered by revision and ordinal. The order of `pods` does not matter."""
    groups: dict[tuple[str, int], list[PodView]] = {}
    for pod in sorted(pods, key=lambda pod: (pod.rank, pod.name, pod.uid)):
        groups.setdefault((pod.revision, pod.ordinal), []).append(pod)
    return tuple(_replica(revision, ordinal, groups[revision, ordinal], inputs) for revision, ordinal in sorted(groups))


def _replica(revision: str, ordinal: int, pods: Sequence[PodView], inputs: ReplicaStateInputs) -> Replica:
    finding = next(found for check in CHECKS if (found := check(pods, inputs)))
    history = (inputs.histories or {}).get(pods[0].uid)
    newest = None if history is None else history.newest
    return Replica(
        revision=revision,
        ordinal=ordinal,
        pods=tuple(pods),
        state=finding.state,
        reason=finding.reason,
        message=finding.message,
        failing_node=finding.node,
        started=_started(pods, newest is not None, inputs),
        in_flight=None if newest is None else newest.in_flight,
        kv_fraction=None if newest is None else newest.kv_fraction,
        sampled_at=None if newest is None else newest.taken_at,
    )


def _started(pods: Sequence[PodView], answered: bool, inputs: ReplicaStateInputs) -> bool | None:
    """Whether the replica has ever served; None while unknown. An engine exposes metrics only once it serves.

    In a replica of several pods only rank 0 exposes metrics. Readiness of other ranks only means that their processes
    run.
    """
    if answered or (pods[0].rank <= 0 and all(pod.ready for pod in pods)):
        return True
    if all(pod.node is None for pod in pods):
        return False
    return False if inputs.now - inputs.watching_since >= inputs.settings.stale_after_seconds else None


def deleting(pods: Sequence[PodView], inputs: ReplicaStateInputs) -> Finding | None:
    return Finding(ReplicaState.DELETING) if any(pod.deleting for pod in pods) else None


def failed(pods: Sequence[PodView], inputs: ReplicaStateInputs) -> Finding | None:
    """Engines never exit by design, so a pod that has ended was evicted or refused by its node."""
    ended = next((pod for pod in pods if pod.phase in ("Failed", "Succeeded")), None)
    if ended is None:
        return None
    reason = Reason.POD_FAILED if ended.phase == "Failed" else Reason.POD_SUCCEEDED
    return Finding(ReplicaState.FAILED, reason, f"{ended.name} has ended ({ended.phase}).", ended.node)


def lost(pods: Sequence[PodView], inputs: ReplicaStateInputs) -> Finding | None:
    gone = next((pod for pod in pods if pod.node in inputs.lost_nodes), None)
    if gone is None:
        return None
    message = f"{gone.name} was on node {gone.node}, which is gone or not ready."
    return Finding(ReplicaState.LOST, Reason.NODE_LOST, message, gone.node)


def rank_lost(pods: Sequence[PodView], inputs: ReplicaStateInputs) -> Finding | None:
    """A rank restarted after the replica had served. The other ranks still wait for the old process.

    They would notice after minutes, or never. A restart before the replica has served cannot be judged from outside:
    the ranks may still find each other within startupTimeout.
    """
    served_at = _last_known_to_serve(pods, inputs)
    if len(pods) < 2 or served_at is None:
        return None
    for pod in pods:
        restarted = pod.blocked == Reason.CRASH_LOOP or (pod.running_since or served_at) > served_at
        if pod.restarts and restarted:
            message = f"{pod.name} restarted after the replica had served, so the other pods lost their connection."
            return Finding(ReplicaState.FAILED, Reason.RANK_LOST, message, pod.node)
    return None


def _last_known_to_serve(pods: Sequence[PodView], inputs: ReplicaStateInputs) -> float | None:
    """When the replica was last known to serve. Rank 0 becomes ready by a completion that ran through all ranks."""
    if pods[0].ready:
        return pods[0].ready_since
    history = (inputs.histories or {}).get(pods[0].uid)
    return None if history is None else history.newest.taken_at


def draining(pods: Sequence[PodView], inputs: ReplicaStateInputs) -> Finding | None:
    """A ready pod without the serving label drains too: removing the label takes the pod out of service."""
    if any(pod.drain_started_at is not None or (pod.ready and not pod.serving) for pod in pods):
        return Finding(ReplicaState.DRAINING)
    return None


def incomplete(pods: Sequence[PodView], inputs: ReplicaStateInputs) -> Finding | None:
    """The replica lacks pods. Gates are lifted only when all pods exist, so a lifted gate means that the missing pod
    existed before and is gone."""
    wanted = inputs.pods_per_replica.get(pods[0].revision, len(pods))
    age_seconds = inputs.now - min(pod.created_at for pod in pods)
    if len(pods) >= wanted or (all(pod.gated for pod in pods) and age_seconds < INCOMPLETE_SECONDS):
        return None
    return Finding(
        ReplicaState.FAILED, Reason.INCOMPLETE, f"{pods[0].name} has {len(pods)} of the {wanted} pods it needs."
    )


def stalled(pods: Sequence[PodView], inputs: ReplicaStateInputs) -> Finding | None:
    """The engine has requests but makes no step. Its own health endpoint does not detect this."""
    history = (inputs.histories or {}).get(pods[0].uid)
    limit = inputs.settings.stall_after_seconds
    if history is None or not history.motionless(limit) or not all(pod.ready for pod in pods):
        return None
    requests = f"{history.newest.running_requests + history.newest.waiting_requests:.0f} requests"
    message = f"{pods[0].name} has {requests} and has made no step since {rfc3339(history.stepped_at)}."
    return Finding(ReplicaState.BLOCKED, Reason.STALLED, message, pods[0].node)


def serving(pods: Sequence[PodView], inputs: ReplicaStateInputs) -> Finding | None:
    wanted = inputs.pods_per_replica.get(pods[0].revision, len(pods))
    return Finding(ReplicaState.SERVING) if len(pods) >= wanted and all(pod.ready for pod in pods) else None


def blocked(pods: Sequence[PodView], inputs: ReplicaStateInputs) -> Finding | None:
    """The finding of the first rank with an obstacle of its own. ModelLoad comes last, because a rank may fail to load
    only because it waits for the others."""
    findings = [finding for pod in pods if (finding := _stuck(pod, _placed_since(pods), inputs))]
    first = min(findings, key=lambda finding: finding.reason == Reason.MODEL_LOAD, default=None)
    if first is not None and first.reason == Reason.MODEL_LOAD and len(pods) > 1:
        return replace(first, node=None)  # it is unknown which rank keeps the others waiting
    return first


def _placed_since(pods: Sequence[PodView]) -> float | None:
    """Since when all pods have had a node. No rank can load before the last one has its node."""
    if any(pod.node is None for pod in pods):
        return None
    return max(pod.waiting_since for pod in pods)


def loading(pods: Sequence[PodView], inputs: ReplicaStateInputs) -> Finding | None:
    return Finding(ReplicaState.LOADING)


Check = Callable[[Sequence[PodView], ReplicaStateInputs], Finding | None]
CHECKS: Final[tuple[Check, ...]] = (
    deleting,
    failed,
    lost,
    draining,
    incomplete,
    rank_lost,
    stalled,
    serving,
    blocked,
    loading,
)


def _stuck(pod: PodView, all_placed_since: float | None, inputs: ReplicaStateInputs) -> Finding | None:
    """Each phase of a start has a time limit: pendingTimeout until the pod has a node and its image, then
    startupTimeout until it is ready."""
    if pod.ready:
        return None
    waited_seconds = inputs.now - pod.waiting_since
    if pod.blocked == Reason.CRASH_LOOP and pod.restarts >= CRASHES_UNTIL_STUCK:
        return _finding(pod, Reason.CRASH_LOOP, f"has crashed {pod.restarts} times")
    hindered = pod.blocked is not None and not pod.gated
    if inputs.several_shapes and pod.blocked in SHORTAGE_REASONS:
        hindered = False
    limit_seconds = 0.0 if inputs.retrying and hindered else inputs.settings.pending_timeout_seconds
    placed = pod.node is not None
    if waited_seconds >= limit_seconds and (not placed or pod.blocked not in (None, Reason.CRASH_LOOP)):
        reason = Reason(pod.blocked or Reason.UNSCHEDULABLE)
        what = STUCK_TEXTS.get(reason, "has failed to start")
        return _finding(pod, reason, f"{what} since {rfc3339(pod.waiting_since)}")
    limit = inputs.startup_timeout_seconds
    if all_placed_since is not None and inputs.now - all_placed_since >= limit:
        return _finding(pod, Reason.MODEL_LOAD, f"was not ready within startupTimeout ({seconds(limit)})")
    return None


def _finding(pod: PodView, reason: Reason, what: str) -> Finding:
    detail = f": {pod.blocked_message}" if pod.blocked_message else ""
    return Finding(ReplicaState.BLOCKED, reason, f"{pod.name} {what}{detail}".rstrip(".") + ".", pod.node)
