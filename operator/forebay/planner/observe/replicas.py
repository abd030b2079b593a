"""Replicas: the planner's unit. One pod, or one pod per rank, that come, serve and go as a whole."""

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
"""Restarts of a container that is in back-off; one crash may be chance."""
INCOMPLETE_SECONDS: Final = 60.0
"""How long a replica may lack pods of its ranks while it is being created, counted from its first one."""


class ReplicaState(StrEnum):
    LOADING = "Loading"
    """On its way to ready: coming capacity."""
    BLOCKED = "Blocked"
    """Stuck on its way, or hung: no capacity, though it still holds its place."""
    SERVING = "Serving"
    DRAINING = "Draining"
    DELETING = "Deleting"
    FAILED = "Failed"
    """Its pods ended by themselves, or not all of them exist."""
    LOST = "Lost"
    """Its node is gone."""


WAYS_TO_BE_STUCK: Final[Mapping[Reason, str]] = {
    Reason.UNSCHEDULABLE: "finds no node",
    Reason.QUOTA_EXCEEDED: "finds no room in the quota",
    Reason.IMAGE_PULL: "cannot pull its image",
}
REASONS_OF_SHORTAGE: Final = (Reason.UNSCHEDULABLE, Reason.QUOTA_EXCEEDED)
FAULTS_OF_A_REVISION: Final = (Reason.CRASH_LOOP, Reason.IMAGE_PULL, Reason.CONTAINER_CONFIG, Reason.MODEL_LOAD)
LIVE: Final = (ReplicaState.LOADING, ReplicaState.BLOCKED, ReplicaState.SERVING)
"""They hold a place under maxReplicas."""


@dataclass(frozen=True, slots=True)
class Replica:
    revision: str
    ordinal: int
    pods: tuple[PodView, ...]
    """By rank."""
    state: ReplicaState
    reason: Reason | None = None
    message: str = ""
    """A whole sentence on why it is stuck or has failed."""
    started: bool | None = False
    """Whether it serves or has served, so that there may be requests in it; None while that cannot be told."""
    in_flight: float | None = None
    """Requests it has accepted and not finished; None while unknown."""
    kv_fraction: float | None = None
    sampled_at: float | None = None
    """When these two were read."""
    failing_node: str | None = None
    """Of the pod that is at fault for the state, when one is."""

    @property
    def name(self) -> str:
        return self.pods[0].name

    @property
    def trouble(self) -> Reason:
        """Why it is stuck or has failed; only of a replica that is or has."""
        assert self.reason is not None, f"{self.name} is {self.state}"
        return self.reason

    @property
    def created_at(self) -> float:
        return min(pod.created_at for pod in self.pods)

    @property
    def ready_since(self) -> float:
        """When the last of its pods became ready; of a replica that serves."""
        return max(pod.ready_since or pod.created_at for pod in self.pods)

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset(pod.node for pod in self.pods if pod.node is not None)

    @property
    def half_placed(self) -> bool:
        """Whether some of its pods have a node, and others none."""
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
    """Stuck for a reason that the revision may have brought; lack of a GPU is not one."""
    return replica.state is ReplicaState.BLOCKED and replica.reason in FAULTS_OF_A_REVISION


@dataclass(frozen=True, slots=True)
class ReplicaChecks:
    """What it takes to tell the state of a service's replicas."""

    settings: Settings
    now: float
    startup_timeout_seconds: float
    pods_per_replica: Mapping[str, int]
    """By revision hash."""
    lost_nodes: frozenset[str] = frozenset()
    histories: Mapping[str, PodHistory] | None = None
    """By pod uid."""
    watching_since: float = 0.0
    """When this operator began to watch; right after that, a pod that is not ready may still have been so before."""
    impatient: bool = False
    """Replicas have been stuck and tried anew: another one that cannot start is stuck at once."""
    several_shapes: bool = False
    """Each of a service's shapes gets its whole time to find room, since node autoscalers need some of it."""


@dataclass(frozen=True, slots=True)
class Finding:
    state: ReplicaState
    reason: Reason | None = None
    message: str = ""
    node: str | None = None
    """Of the pod that is at fault."""


def replicas_of(pods: Iterable[PodView], sight: ReplicaChecks) -> tuple[Replica, ...]:
    """Group pods into replicas, ordered by revision and ordinal; the order of `pods` does not matter."""
    groups: dict[tuple[str, int], list[PodView]] = {}
    for pod in sorted(pods, key=lambda pod: (pod.rank, pod.name, pod.uid)):
        groups.setdefault((pod.revision, pod.ordinal), []).append(pod)
    return tuple(_replica(revision, ordinal, groups[revision, ordinal], sight) for revision, ordinal in sorted(groups))


def _replica(revision: str, ordinal: int, pods: Sequence[PodView], sight: ReplicaChecks) -> Replica:
    finding = next(found for check in CHECKS if (found := check(pods, sight)))
    history = (sight.histories or {}).get(pods[0].uid)
    newest = None if history is None else history.newest
    return Replica(
        revision=revision,
        ordinal=ordinal,
        pods=tuple(pods),
        state=finding.state,
        reason=finding.reason,
        message=finding.message,
        failing_node=finding.node,
        started=_started(pods, newest is not None, sight),
        in_flight=None if newest is None else newest.in_flight,
        kv_fraction=None if newest is None else newest.kv_fraction,
        sampled_at=None if newest is None else newest.taken_at,
    )


def _started(pods: Sequence[PodView], answered: bool, sight: ReplicaChecks) -> bool | None:
    """An engine answers for its metrics from the moment it serves, and not before.

    Of several pods, only rank 0 answers; that the others are ready says no more than that their processes run.
    """
    if answered or (pods[0].rank <= 0 and all(pod.ready for pod in pods)):
        return True
    if all(pod.node is None for pod in pods):
        return False
    return False if sight.now - sight.watching_since >= sight.settings.stale_after_seconds else None


def deleting(pods: Sequence[PodView], sight: ReplicaChecks) -> Finding | None:
    return Finding(ReplicaState.DELETING) if any(pod.deleting for pod in pods) else None


def failed(pods: Sequence[PodView], sight: ReplicaChecks) -> Finding | None:
    """Engines run for ever; a pod that has ended was evicted or refused by its node."""
    ended = next((pod for pod in pods if pod.phase in ("Failed", "Succeeded")), None)
    if ended is None:
        return None
    reason = Reason.POD_FAILED if ended.phase == "Failed" else Reason.POD_SUCCEEDED
    return Finding(ReplicaState.FAILED, reason, f"{ended.name} has ended ({ended.phase}).", ended.node)


def lost(pods: Sequence[PodView], sight: ReplicaChecks) -> Finding | None:
    gone = next((pod for pod in pods if pod.node in sight.lost_nodes), None)
    if gone is None:
        return None
    message = f"{gone.name} was on node {gone.node}, which is gone or not ready."
    return Finding(ReplicaState.LOST, Reason.NODE_LOST, message, gone.node)


def rank_lost(pods: Sequence[PodView], sight: ReplicaChecks) -> Finding | None:
    """A rank that was started again after the replica served: the others still wait for the process that is gone.

    They would notice after minutes, or never. What a restart means before the replica has served cannot be told from
    outside; there the ranks may still find each other, within startupTimeout.
    """
    served_at = _last_known_to_serve(pods, sight)
    if len(pods) < 2 or served_at is None:
        return None
    for pod in pods:
        restarted = pod.blocked == Reason.CRASH_LOOP or (pod.running_since or served_at) > served_at
        if pod.restarts and restarted:
            message = f"{pod.name} was started again after the replica served, and the other pods have lost it."
            return Finding(ReplicaState.FAILED, Reason.RANK_LOST, message, pod.node)
    return None


def _last_known_to_serve(pods: Sequence[PodView], sight: ReplicaChecks) -> float | None:
    """Rank 0 becomes ready by a completion that went through all ranks."""
    if pods[0].ready:
        return pods[0].ready_since
    history = (sight.histories or {}).get(pods[0].uid)
    return None if history is None else history.newest.taken_at


def draining(pods: Sequence[PodView], sight: ReplicaChecks) -> Finding | None:
    """A pod that is ready without the serving label drains too: whoever took the label off took it out of service."""
    if any(pod.drain_started_at is not None or (pod.ready and not pod.serving) for pod in pods):
        return Finding(ReplicaState.DRAINING)
    return None


def incomplete(pods: Sequence[PodView], sight: ReplicaChecks) -> Finding | None:
    """Gates are lifted when all pods exist. So where one is lifted, what lacks was there before and is gone."""
    wanted = sight.pods_per_replica.get(pods[0].revision, len(pods))
    age_seconds = sight.now - min(pod.created_at for pod in pods)
    if len(pods) >= wanted or (all(pod.held for pod in pods) and age_seconds < INCOMPLETE_SECONDS):
        return None
    return Finding(
        ReplicaState.FAILED, Reason.INCOMPLETE, f"{pods[0].name} has {len(pods)} of the {wanted} pods it needs."
    )


def stalled(pods: Sequence[PodView], sight: ReplicaChecks) -> Finding | None:
    """The engine's own health endpoint does not notice."""
    history = (sight.histories or {}).get(pods[0].uid)
    limit = sight.settings.stall_after_seconds
    if history is None or not history.stalled(limit) or not all(pod.ready for pod in pods):
        return None
    running = f"{history.newest.running_requests:.0f} requests"
    message = f"{pods[0].name} runs {running} and has made no step since {rfc3339(history.stepped_at)}."
    return Finding(ReplicaState.BLOCKED, Reason.STALLED, message, pods[0].node)


def serving(pods: Sequence[PodView], sight: ReplicaChecks) -> Finding | None:
    wanted = sight.pods_per_replica.get(pods[0].revision, len(pods))
    return Finding(ReplicaState.SERVING) if len(pods) >= wanted and all(pod.ready for pod in pods) else None


def blocked(pods: Sequence[PodView], sight: ReplicaChecks) -> Finding | None:
    """Of the first rank that has an obstacle of its own; that a rank does not load may be for want of the others."""
    found = [finding for pod in pods if (finding := _stuck(pod, _placed_since(pods), sight))]
    first = min(found, key=lambda finding: finding.reason == Reason.MODEL_LOAD, default=None)
    if first is not None and first.reason == Reason.MODEL_LOAD and len(pods) > 1:
        return replace(first, node=None)  # which of the ranks keeps the others waiting cannot be told
    return first


def _placed_since(pods: Sequence[PodView]) -> float | None:
    """Since when all pods have had a node: no rank can load before the last one is there."""
    if any(pod.node is None for pod in pods):
        return None
    return max(pod.waiting_since for pod in pods)


def loading(pods: Sequence[PodView], sight: ReplicaChecks) -> Finding | None:
    return Finding(ReplicaState.LOADING)


Check = Callable[[Sequence[PodView], ReplicaChecks], Finding | None]
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


def _stuck(pod: PodView, all_placed_since: float | None, sight: ReplicaChecks) -> Finding | None:
    """Every way to ready is time-boxed: to a node and an image by pendingTimeout, from there by startupTimeout."""
    if pod.ready:
        return None
    waited_seconds = sight.now - pod.waiting_since
    if pod.blocked == Reason.CRASH_LOOP and pod.restarts >= CRASHES_UNTIL_STUCK:
        return _finding(pod, Reason.CRASH_LOOP, f"has crashed {pod.restarts} times")
    hindered = pod.blocked is not None and not pod.held
    if sight.several_shapes and pod.blocked in REASONS_OF_SHORTAGE:
        hindered = False
    patience_seconds = 0.0 if sight.impatient and hindered else sight.settings.pending_timeout_seconds
    placed = pod.node is not None
    if waited_seconds >= patience_seconds and (not placed or pod.blocked not in (None, Reason.CRASH_LOOP)):
        reason = Reason(pod.blocked or Reason.UNSCHEDULABLE)
        what = WAYS_TO_BE_STUCK.get(reason, "cannot start")
        return _finding(pod, reason, f"{what} since {rfc3339(pod.waiting_since)}")
    limit = sight.startup_timeout_seconds
    if all_placed_since is not None and sight.now - all_placed_since >= limit:
        return _finding(pod, Reason.MODEL_LOAD, f"was not ready within startupTimeout ({seconds(limit)})")
    return None


def _finding(pod: PodView, reason: Reason, what: str) -> Finding:
    detail = f": {pod.blocked_message}" if pod.blocked_message else ""
    return Finding(ReplicaState.BLOCKED, reason, f"{pod.name} {what}{detail}".rstrip(".") + ".", pod.node)
