"""What is learned about one service: from its pods and its load while the operator runs, and from its status after a
restart.

The status is updated rarely: after each start of a replica, which changes the status anyway, and otherwise every half
hour, at a different time for each service. A restart may lose half an hour of load, which is little compared with the
three days that are kept. Starts are not lost, because they are computed again from the existing pods.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Final
from zlib import crc32

from forebay.api.instants import rfc3339
from forebay.api.learned_status import (
    LEARNED_VERSION,
    MOST_REQUESTS,
    UNREADABLE_VERSION,
    GrowthDay,
    GrowthStatus,
    LeadTimeStatus,
    LearnedStatus,
    LengthsStatus,
    StartTimes,
)
from forebay.planner.memory import Learned
from forebay.planner.observe.replicas import Replica, ReplicaState
from forebay.scaling.learning.growth import DAY_SECONDS, Growth, update_growth
from forebay.scaling.learning.lead_time import LeadTimes, Start, WarmState, learn
from forebay.scaling.load.arrivals import RequestLengths
from forebay.scaling.rules.situation import Situation
from forebay.world.world import NodeView

PUBLISH_SECONDS: Final = 1800
_FIELDS: Final[Mapping[WarmState, str]] = {
    WarmState.PLACEHOLDER_NODE: "placeholder_node",
    WarmState.READY_NODE: "ready_node",
    WarmState.NEW_NODE: "new_node",
}
_FIRST_DAY: Final = date(1970, 1, 1).toordinal()


def recall(stored: LearnedStatus | None, uid: str, now: float) -> Learned:
    """What the previous operator learned. Data that cannot be used is discarded and is never an error."""
    fresh = Learned(publish_at=now + crc32(uid.encode()) % PUBLISH_SECONDS)
    if stored is None:
        return fresh
    if stored.version == LEARNED_VERSION:
        try:
            return _read(stored, fresh, now)
        except (ValueError, OverflowError) as error:
            return _reset(fresh, str(error), now)
    if stored.version == UNREADABLE_VERSION:
        return _reset(fresh, "it does not match the schema", now)
    return _reset(fresh, f"it has version {stored.version}, but this operator reads version {LEARNED_VERSION}", now)


def _reset(fresh: Learned, why: str, now: float) -> Learned:
    reset = f"status.learned cannot be used, so lead time and growth start from priors: {why}."
    return publish(replace(fresh, reset=reset), now, at_once=True)


def _read(stored: LearnedStatus, fresh: Learned, now: float) -> Learned:
    lead, growth = stored.lead_time, stored.growth
    starts: dict[WarmState, tuple[int, ...]] = {}
    until = 0.0
    if lead is not None:
        times = {state: getattr(lead, name).seconds for state, name in _FIELDS.items()}
        starts = {state: seconds for state, seconds in times.items() if seconds}
        moment = datetime.fromisoformat(lead.counted_until)
        until = min(now, (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    days = {
        date.fromisoformat(day.date).toordinal() - _FIRST_DAY: {n: c for n, c in enumerate(day.steps) if c}
        for day in (() if growth is None else growth.days)
    }
    today = int(now // DAY_SECONDS)
    return replace(
        fresh,
        lead_times=LeadTimes(starts),
        growth=Growth({day: days[day] for day in sorted(days) if day <= today}),
        lengths=_lengths(stored.lengths),
        recalled_until=until,
        newest_start=until,
        published=stored,
    )


def _lengths(stored: LengthsStatus | None) -> RequestLengths | None:
    if stored is None or not (stored.prompt_tokens and stored.output_tokens):
        return None
    return RequestLengths(
        prompt_tokens=float(stored.prompt_tokens),
        output_tokens=float(stored.output_tokens),
        computed_share=max(1, stored.computed_percent) / 100,
        requests=float(stored.requests),
    )


def learn_load(learned: Learned, situation: Situation) -> Learned:
    """What is known after this tick's arriving work. While the load of a replica is unknown, so is the work."""
    offered_work, lengths = situation.offered_work, situation.arrivals.lengths or learned.lengths
    growth = learned.growth
    if offered_work is not None and situation.load.complete:
        usable, lead_seconds = offered_work.capacity.usable, situation.scaling_inputs.lead_seconds
        growth = update_growth(growth, offered_work.work, usable, lead_seconds, situation.now)
    if growth is learned.growth and lengths is learned.lengths:
        return learned
    return replace(learned, growth=growth, lengths=lengths)


def learn_starts(
    learned: Learned,
    replicas: Iterable[Replica],
    nodes: Mapping[str, NodeView],
    watching_since: float,
    longest_start_seconds: float,
    preempting_pods: frozenset[str] = frozenset(),
) -> Learned:
    """What is known after counting the starts that have ended since the last tick.

    The time of a pod's Ready condition is that of its last change. For a pod created before this operator led, it may
    be a change after the start. So such a start counts only up to `longest_start_seconds`, the longest that a start
    may take before it is given up.
    """
    existing = tuple(replicas)
    started = [r for r in existing if r.state in (ReplicaState.SERVING, ReplicaState.DRAINING)]
    known = frozenset(learned.counted)
    new = [(r, start) for r in started if r.pods[0].uid not in known and (start := start_of(r, nodes, preempting_pods))]
    counted_starts = [
        start
        for replica, start in new
        if start.ready_at > learned.recalled_until
        and not any(pod.restarts for pod in replica.pods)
        and (start.created_at >= watching_since or start.seconds <= longest_start_seconds)
    ]
    examined = known | {replica.pods[0].uid for replica, _ in new}
    counted = tuple(sorted(replica.pods[0].uid for replica in existing if replica.pods[0].uid in examined))
    if not counted_starts and counted == learned.counted:
        return learned
    return replace(
        learned,
        lead_times=learn(learned.lead_times, counted_starts),
        counted=counted,
        newest_start=max((learned.newest_start, *(start.ready_at for start in counted_starts))),
    )


def start_of(
    replica: Replica, nodes: Mapping[str, NodeView], preempting_pods: frozenset[str] = frozenset()
) -> Start | None:
    """The start of a replica; None until all of its pods are ready, or when one of their nodes is gone.

    `preempting_pods` are the uids of pods that started in the place of a placeholder.
    """
    ready = [pod.ready_since for pod in replica.pods if pod.ready_since is not None]
    placed_on = [node for pod in replica.pods if pod.node is not None and (node := nodes.get(pod.node)) is not None]
    if not len(ready) == len(placed_on) == len(replica.pods) or max(ready) < replica.created_at:
        return None
    scheduled = [pod.scheduled_at for pod in replica.pods if pod.scheduled_at is not None]
    state = WarmState.READY_NODE
    if any(node.created_at > pod.created_at for node, pod in zip(placed_on, replica.pods, strict=True)):
        state = WarmState.NEW_NODE
    elif all(pod.uid in preempting_pods for pod in replica.pods):
        state = WarmState.PLACEHOLDER_NODE
    return Start(
        created_at=replica.created_at,
        scheduled_at=max(scheduled) if len(scheduled) == len(replica.pods) else None,
        ready_at=max(ready),
        state=state,
    )


def publish(learned: Learned, now: float, *, at_once: bool = False) -> Learned:
    """What is known, with the status to publish when an update is due."""
    if not at_once and now < learned.publish_at:
        return learned
    due = now + PUBLISH_SECONDS
    return replace(learned, published=to_status(learned), publish_at=max(due, learned.publish_at))


def to_status(learned: Learned) -> LearnedStatus | None:
    """The complete status, so that a merge patch replaces whatever was stored; None while nothing has been learned."""
    growth = learned.growth
    nothing = not (learned.lead_times.starts or growth.pairs or learned.lengths)
    if nothing and learned.published is None and not learned.reset:
        return None
    return LearnedStatus(
        version=LEARNED_VERSION,
        lead_time=LeadTimeStatus(
            counted_until=rfc3339(learned.newest_start),
            **{name: _times(learned.lead_times, state) for state, name in _FIELDS.items()},
        ),
        growth=GrowthStatus(
            p95_percent=round(growth.fraction * 100),
            days=tuple(GrowthDay(date=_date(day), steps=_steps(growth.days[day])) for day in sorted(growth.days)),
        ),
        lengths=_lengths_status(learned.lengths),
    )


def _lengths_status(lengths: RequestLengths | None) -> LengthsStatus:
    if lengths is None:
        return LengthsStatus()
    return LengthsStatus(
        prompt_tokens=max(1, round(lengths.prompt_tokens)),
        output_tokens=max(1, round(lengths.output_tokens)),
        computed_percent=max(1, round(lengths.computed_share * 100)),
        requests=min(MOST_REQUESTS, round(lengths.requests)),
    )


def _times(lead_times: LeadTimes, state: WarmState) -> StartTimes:
    middle, most = (lead_times.quantile_seconds(state, quantile) for quantile in (0.5, 0.95))
    return StartTimes(p50_seconds=int(middle), p95_seconds=int(most), seconds=lead_times.of(state))


def _date(day: int) -> str:
    return date.fromordinal(day + _FIRST_DAY).isoformat()


def _steps(counts: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(counts.get(step, 0) for step in range(max(counts, default=-1) + 1))
