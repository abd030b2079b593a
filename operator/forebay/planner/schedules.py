"""How it stands with each schedule: will its window find enough replicas, did it, and if not, why.

Every hindrance is a small check that returns a sentence, or nothing. Before a start they tell that it is at risk, while
there is time to act; after it they tell why it was missed. A start is judged once, by when its replicas became ready.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from forebay.api.inference_service import ScalingMode, ScheduleState, ScheduleStatus
from forebay.api.instants import rfc3339
from forebay.planner.conditions import Outcome
from forebay.planner.replicas import Replica, ReplicaState
from forebay.planner.room import Room
from forebay.planner.scene import Scene
from forebay.scaling.decision import count, seconds
from forebay.scaling.schedules import MARGIN_SECONDS, Booking, Window, asked_for, local_time

NODE_SHARE: Final = 0.5
"""Of the lead time; a replica that has found no node by then will not be ready within the rest of it."""


@dataclass(frozen=True, slots=True)
class Case:
    """One schedule with a window that is open or ahead, and the replicas there are for it."""

    booked: Booking
    window: Window
    outcome: Outcome
    before: ScheduleStatus | None
    """What was said last of the same window."""
    serving: tuple[Replica, ...]
    loading: tuple[Replica, ...]

    @property
    def scene(self) -> Scene:
        return self.outcome.scene

    @property
    def now(self) -> float:
        return self.outcome.scene.now

    @property
    def missing(self) -> int:
        return max(0, self.booked.replicas - len(self.serving))

    @property
    def counts(self) -> bool:
        return self.booked.counts(self.now)

    @property
    def ready_times(self) -> list[float]:
        return sorted(ready_since(replica) for replica in self.serving)

    @property
    def ready_at(self) -> float | None:
        """When as many served as were asked for."""
        return self.ready_times[self.booked.replicas - 1] if not self.missing else None

    @property
    def expected_at(self) -> float | None:
        """When all will be ready if each takes its lead time; None when one is later than that already."""
        if not self.missing:
            return self.now
        lead = self.booked.lead_seconds
        due = sorted(replica.created_at + lead for replica in self.loading)[: self.missing]
        if due and due[0] < self.now:
            return None
        return max(due) if len(due) == self.missing else self.now + lead


Check = Callable[[Case], str | None]


def above_max_replicas(case: Case) -> str | None:
    most = case.scene.limits.max_replicas
    if case.booked.replicas <= most:
        return None
    return f"scaling.maxReplicas is {most}; raise it, or lower the floor"


def mode_paused(case: Case) -> str | None:
    if case.scene.spec.scaling.mode is not ScalingMode.PAUSED or not _to_create(case):
        return None
    return "scaling.mode is Paused, so no replica is created"


def replica_stuck(case: Case) -> str | None:
    """One that is marked as stuck, or that has waited for a node for half of the lead time."""
    if not case.counts or not case.missing:
        return None
    stuck = case.outcome.replicas(ReplicaState.BLOCKED)
    if stuck and len(case.loading) < case.missing:
        return stuck[0].message.rstrip(".")
    patience = case.booked.lead_seconds * NODE_SHARE
    for replica in case.loading:
        for pod in replica.pods:
            if pod.node is None and case.now - pod.created_at >= patience:
                detail = f": {pod.blocked_message.rstrip('.')}" if pod.blocked_message else ""
                return f"{pod.name} finds no node since {rfc3339(pod.created_at)}{detail}"
    return None


def held_back(case: Case) -> str | None:
    """The operator's own limits, or a wait after creations that failed."""
    return case.outcome.held or None if case.counts and _to_create(case) else None


def ceiling_too_low(case: Case) -> str | None:
    room, needed = case.scene.room, _to_create(case)
    if room is None or room.under_ceiling is None or needed <= room.under_ceiling:
        return None
    return (
        f"the operator's ceiling of {case.scene.settings.max_gpus} GPUs leaves {room.under_ceiling} of the "
        f"{count(needed, 'replica')} that are still to come"
    )


def nodes_too_full(case: Case) -> str | None:
    room, needed = case.scene.room, _to_place(case)
    if room is None or needed <= room.replicas:
        return None
    return _no_room(room, needed, case.scene)


def not_in_time(case: Case) -> str | None:
    """The lead time is longer than what is left of the time."""
    if not case.counts or not case.missing:
        return None
    expected = case.expected_at
    if expected is None:
        late = [r for r in case.loading if r.created_at + case.booked.lead_seconds < case.now]
        return (
            f"{late[0].name} takes longer than the {seconds(case.booked.lead_seconds)} that were expected, and it "
            "cannot be told when it will serve"
        )
    was_at_risk = case.before is not None and case.before.state is ScheduleState.AT_RISK
    latest = case.window.start - (MARGIN_SECONDS if was_at_risk else 0.0)
    if expected <= latest:
        return None
    late_by = expected - case.window.start
    tail = f", {seconds(late_by)} after the start" if late_by > 0 else ""
    return f"all will be ready at about {local_time(expected, case.booked.schedule.time_zone)}{tail}"


HINDRANCES: Final[tuple[Check, ...]] = (
    above_max_replicas,
    mode_paused,
    replica_stuck,
    held_back,
    ceiling_too_low,
    nodes_too_full,
    not_in_time,
)


def schedule_statuses(outcome: Outcome, before: tuple[ScheduleStatus, ...]) -> tuple[ScheduleStatus, ...]:
    known = {seen.name: seen for seen in before}
    return tuple(_status(booked, outcome, known.get(booked.schedule.name)) for booked in outcome.scene.bookings)


def ready_since(replica: Replica) -> float:
    """When the last of its pods became ready."""
    return max(pod.ready_since or pod.created_at for pod in replica.pods)


def _status(booked: Booking, outcome: Outcome, before: ScheduleStatus | None) -> ScheduleStatus:
    name, window = booked.schedule.name, booked.window
    if booked.fault:
        return ScheduleStatus(name=name, state=ScheduleState.AT_RISK, message=f"{booked.fault}.")
    if window is None:
        idle = ScheduleStatus(name=name, state=ScheduleState.IDLE, message="No window is ahead.")
        return idle.model_copy(update={"replicas": booked.replicas, **_released(booked, outcome.scene)})
    start = rfc3339(window.start)
    same = before is not None and before.start == start and before.replicas == booked.replicas
    case = Case(
        booked,
        window,
        outcome,
        before if same else None,
        outcome.replicas(ReplicaState.SERVING),
        outcome.replicas(ReplicaState.LOADING),
    )
    state, message = _judged(case)
    return ScheduleStatus(
        name=name,
        state=state,
        message=f"{message}.",
        warm_from=rfc3339(booked.warm_from) if booked.opened is None else None,
        start=start,
        end=rfc3339(window.end),
        replicas=booked.replicas,
        ready_at=_ready_at(case),
        **_released(booked, outcome.scene),
    )


def _judged(case: Case) -> tuple[ScheduleState, str]:
    why = next((said for check in HINDRANCES if (said := check(case))), "")
    if case.booked.opened is not None:
        return _opened(case, why)
    zone = case.booked.schedule.time_zone
    asked = f"{asked_for(case.booked)} from {local_time(case.window.start, zone)}"
    if not case.counts:
        text = f"{asked}; they are ordered from {local_time(case.booked.warm_from, zone)} on"
        return (ScheduleState.AT_RISK, f"{text}, but {why}") if why else (ScheduleState.IDLE, text)
    text = f"{asked}; {len(case.serving)} serve"
    if why:
        return ScheduleState.AT_RISK, f"{text}; {why}"
    expected = case.expected_at
    if case.missing and expected is not None:
        text += f", all by about {local_time(expected, zone)}"
    return ScheduleState.WARMING, text


def _opened(case: Case, why: str) -> tuple[ScheduleState, str]:
    zone = case.booked.schedule.time_zone
    text = f"{asked_for(case.booked)} until {local_time(case.window.end, zone)}; {len(case.serving)} serve"
    rest = f"; {why}" if why and case.missing else ""
    if case.booked.since > case.window.start:
        text += "; it was asked for after its start"
        return (ScheduleState.AT_RISK if case.missing else ScheduleState.MET), text + rest
    state = _at_the_start(case)
    if state is ScheduleState.MISSED and (ready_at := case.ready_at) is not None:
        late = seconds(max(0.0, ready_at - case.window.start))
        return state, f"{text}, all since {local_time(ready_at, zone)}, {late} after the start{rest}"
    return state, text + rest


def _at_the_start(case: Case) -> ScheduleState:
    """Judged once; what happens later is another matter."""
    if case.before is not None and case.before.state in (ScheduleState.MET, ScheduleState.MISSED):
        return case.before.state
    in_time = sum(at <= case.window.start for at in case.ready_times)
    return ScheduleState.MET if in_time >= case.booked.replicas else ScheduleState.MISSED


def _ready_at(case: Case) -> str | None:
    """Kept once it is known: a replica that is replaced later does not change it."""
    if case.before is not None and case.before.ready_at is not None:
        return case.before.ready_at
    ready_at = case.ready_at if case.counts else None
    return None if ready_at is None else rfc3339(ready_at)


def _released(booked: Booking, scene: Scene) -> dict[str, str]:
    released_at = booked.released_at
    if released_at is None:
        return {}
    surplus = max(0, min(booked.replicas, scene.limits.max_replicas) - scene.limits.min_replicas)
    drains = surplus * scene.spec.rollout.drain_timeout.seconds
    until = released_at + (scene.limits.scale_down_cooldown_seconds + drains if surplus else 0.0)
    return {"floor_released_at": rfc3339(released_at), "drains_until": rfc3339(until)}


def _to_create(case: Case) -> int:
    """Replicas that are asked for and do not exist yet, as far as maxReplicas lets them."""
    wanted = min(case.booked.replicas, case.scene.limits.max_replicas)
    return max(0, wanted - len(case.serving) - len(case.loading))


def _to_place(case: Case) -> int:
    """The same with those that have not found a node."""
    placed = sum(all(pod.node is not None for pod in replica.pods) for replica in case.loading)
    wanted = min(case.booked.replicas, case.scene.limits.max_replicas)
    return max(0, wanted - len(case.serving) - placed)


def _no_room(room: Room, needed: int, scene: Scene) -> str:
    shape = scene.target.shape
    each = f"{count(shape.pods, 'pod')} with {shape.gpus_per_pod} × {shape.resource_name}"
    are = "is" if needed == 1 else "are"
    return (
        f"{count(needed, 'replica')} of {each} {are} still to be placed, and the nodes that match ({room.nodes}) "
        f"have {count(room.gpus, 'GPU')} free, enough for {room.replicas} (Forebay's own pods are counted, neither "
        "those of others nor nodes that an autoscaler may add)"
    )
