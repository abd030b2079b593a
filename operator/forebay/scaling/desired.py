"""Desired replicas: every rule proposes, the largest proposal binds, bounds cut it.

Feed-forward, backlog and floors say what is needed, and warm replicas come on top of that; guards and the stabilizer
speak of the replicas that are there, warm ones among them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final

from forebay.api.inference_service import ScalingMode
from forebay.scaling.decision import Decision, Proposal, count, seconds
from forebay.scaling.decision_inputs import DecisionInput, inputs_of
from forebay.scaling.learning.replica_capacity import Refinement, ReplicaCapacity, refine
from forebay.scaling.limits import Limits
from forebay.scaling.load.arrivals import Arrivals, observe
from forebay.scaling.load.idleness import Idleness, idle_text, look_idle
from forebay.scaling.load.load_window import LoadWindow, extended
from forebay.scaling.learning.offered_work import OfferedWork, lengths_of, offer
from forebay.scaling.load.service_load import ServiceLoad
from forebay.scaling.rules import floors, guards
from forebay.scaling.rules.backlog import backlog, replicas_with_backlog
from forebay.scaling.rules.feed_forward import feed_forward, replicas_for_arrivals
from forebay.scaling.rules.last_replica import LastReplica, keep_or_release, scaled_to_zero
from forebay.scaling.rules.queue_recovery import QueueRecovery, follow, waits_for
from forebay.scaling.rules.stabilizer import ScaleDownInput, stabilize
from forebay.scaling.rules.turning_points import ThresholdInput, ahead, would_lower, would_raise
from forebay.scaling.scaling_inputs import ScalingInputs


@dataclass(frozen=True, slots=True)
class ReplicaCounts:
    """The replicas of one service, counted."""

    serving: int = 0
    loading: int = 0
    """On their way: capacity that is coming."""
    blocked: int = 0
    """Stuck on their way: no capacity, but still there."""
    blocked_for_all: int = 0
    """Of them, those that another one would fare like: no node has room, or nothing has become ready since they were
    created."""
    draining: int = 0
    replacing: bool = False
    """Whether replicas are to be replaced: of another revision, or on a node that is to be left."""
    standing: int = 0
    """What was wanted before this operator began to remember, as far as status and pods tell."""
    newest_created_at: float | None = None
    """Tells when the count last rose, to an operator that has just started."""


@dataclass(frozen=True, slots=True)
class ScalingMemory:
    """What scaling remembers of a service between two looks."""

    desired: int | None = None
    raised_at: float | None = None
    """When the count last rose."""
    jumped_at: float | None = None
    """When a guard last made it rise."""
    load_window: LoadWindow = field(default_factory=LoadWindow)
    queue_recovery: QueueRecovery = field(default_factory=QueueRecovery)
    arrivals: Arrivals = field(default_factory=Arrivals)
    refinement: Refinement | None = None
    """What live replicas have shown of their profile."""
    offered: OfferedWork | None = None
    """At the last look; None while it cannot be told."""
    idleness: Idleness = field(default_factory=Idleness)


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything that a rule may read."""

    limits: Limits
    load: ServiceLoad
    counts: ReplicaCounts
    mode: ScalingMode
    desired: int
    raised_at: float
    jumped_at: float
    load_window: LoadWindow
    idleness: Idleness
    queue_recovery: QueueRecovery
    scaling_inputs: ScalingInputs
    now: float
    offered: OfferedWork | None = None
    """The work that arrives and what a replica carries of it; None while that cannot be told."""
    silent_because: str = ""
    """Why it cannot."""

    @property
    def floor(self) -> int:
        """The highest count that holds whatever the load is."""
        return min(max(proposal.replicas for proposal in floor_rules(self)), self.limits.max_replicas)

    @property
    def stuck(self) -> int:
        """Stuck replicas among those that are wanted; one that a rollout tries on top is not."""
        missing = self.desired - self.counts.serving - self.counts.loading
        return max(0, min(missing, self.counts.blocked))

    @property
    def replaceable(self) -> int:
        """Stuck replicas that another one may do better than.

        Where it would fare like them, one more is tried and no further ones: what no node has room for would all wait
        for the same GPU, and while nothing starts at all, another try at every step would only add to what is stuck.
        """
        counts = self.counts
        return min(self.stuck, counts.blocked - counts.blocked_for_all + min(counts.blocked_for_all, 1))


def guard_rules(situation: Situation) -> tuple[Proposal, ...]:
    """What the guards propose, on top of stuck replicas, which carry nothing.

    They wait while replicas that they asked for load, since the signal they look at is not cured before those serve,
    and for scaleUpCooldown between two steps.
    """
    waits_for = _guards_wait_for(situation)
    stuck = situation.replaceable
    return tuple(
        replace(
            proposal,
            replicas=proposal.replicas + stuck,
            because=f"{proposal.because}; {_stuck_text(stuck, situation.stuck)}" if stuck else proposal.because,
            waits_for=waits_for,
        )
        for proposal in guards.propose(situation.load, situation.limits)
    )


def _stuck_text(counted: int, stuck: int) -> str:
    if counted < stuck:
        return f"plus {counted} for the {stuck} that are stuck: further ones would fare like them"
    return f"on top of {count(stuck, 'stuck replica')}, which {'carries' if stuck == 1 else 'carry'} nothing"


def arrival_rules(situation: Situation) -> tuple[Proposal, ...]:
    """What the work asks for that arrives and that waits; replicas on their way are in the count already."""
    offered, load, scaling_inputs = situation.offered, situation.load, situation.scaling_inputs
    ahead = None if offered is None else feed_forward(offered, situation.limits, scaling_inputs, load.weights)
    proposals = (ahead, backlog(offered, load, scaling_inputs))
    return tuple(floors.with_warm(proposal, situation.limits) for proposal in proposals if proposal is not None)


def floor_rules(situation: Situation) -> tuple[Proposal, ...]:
    limits = situation.limits
    return (
        floors.min_replicas(limits),
        *(floors.with_warm(floor, limits) for floor in situation.scaling_inputs.floors),
    )


def stabilizer_rules(situation: Situation) -> tuple[Proposal, ...]:
    """One step down or none. Nothing at the floor, which needs nobody to hold it."""
    if situation.desired == situation.floor == situation.counts.serving == 0:
        return (scaled_to_zero(),)
    if situation.desired <= situation.floor > 0:
        return ()
    if situation.desired <= 1:
        return (keep_or_release(_last_replica(situation)),)
    return (stabilize(_standing(situation)),)


NOTHING_AHEAD: Final = ScalingInputs()
Rule = Callable[[Situation], tuple[Proposal, ...]]
RULES: Final[tuple[Rule, ...]] = (guard_rules, arrival_rules, stabilizer_rules, floor_rules)


def decide(
    limits: Limits,
    load: ServiceLoad,
    counts: ReplicaCounts,
    mode: ScalingMode,
    memory: ScalingMemory,
    now: float,
    scaling_inputs: ScalingInputs = NOTHING_AHEAD,
    replica_capacity: ReplicaCapacity | None = None,
) -> tuple[Decision, ScalingMemory]:
    """The decision for one service, and what to remember of it. The first rule wins a tie."""
    began = now if counts.newest_created_at is None else min(now, counts.newest_created_at)
    arrivals = observe(memory.arrivals, load.flow, now, scaling_inputs.demand.asked_requests)
    refinement = _refined(memory, arrivals, replica_capacity, load, limits, scaling_inputs, now)
    found = offer(replica_capacity, arrivals, refinement, scaling_inputs.lengths, now, held=_held(load, scaling_inputs))
    offered = found if isinstance(found, OfferedWork) else None
    if offered is not None:
        limits = replace(limits, idle_token_seconds=offered.carried.idle_token_seconds)
    load_window = extended(
        memory.load_window, load, limits, now, _replicas_for_work(offered, load, limits, scaling_inputs)
    )
    situation = Situation(
        limits=limits,
        load=load,
        counts=counts,
        mode=mode,
        desired=counts.standing if memory.desired is None else memory.desired,
        raised_at=began if memory.raised_at is None else memory.raised_at,
        jumped_at=began if memory.jumped_at is None else memory.jumped_at,
        idleness=look_idle(memory.idleness, load, scaling_inputs.demand, counts.draining, now),
        load_window=load_window,
        queue_recovery=follow(
            memory.queue_recovery, counts.serving, load, load_window, scaling_inputs.lead_seconds, now
        ),
        scaling_inputs=scaling_inputs,
        now=now,
        offered=offered,
        silent_because="" if isinstance(found, OfferedWork) else found,
    )
    proposals = tuple(proposal for rule in RULES for proposal in rule(situation))
    counted = [proposal for proposal in proposals if not proposal.waits_for]
    largest = max(counted, key=lambda proposal: proposal.replicas)
    bound = floors.max_replicas(largest, limits)
    applied = bound.replicas if mode is ScalingMode.AUTO else _advised_only(situation)
    here = _crossroads(situation, proposals, bound.replicas, largest.replicas)
    decision = Decision(
        desired=bound.replicas,
        rule=bound.rule,
        because=bound.because,
        applied=applied,
        proposals=proposals,
        inputs={**_idle(situation), **inputs_of(_account(situation), proposals)},
        unbounded=largest.replicas,
        before=situation.desired,
        needed=_needed(situation),
        would_raise=would_raise(here),
        would_lower=would_lower(here),
        ahead=ahead(here),
    )
    remembered = _remember(situation, applied, largest.rule)
    return decision, replace(remembered, arrivals=arrivals, refinement=refinement, offered=offered)


def _held(load: ServiceLoad, scaling_inputs: ScalingInputs) -> bool:
    """Whether nobody tells of arrivals now, so that those that were seen last stand for them."""
    return load.replicas > 0 and not load.known and scaling_inputs.demand.asked_requests is None


def _crossroads(situation: Situation, proposals: tuple[Proposal, ...], desired: int, unbounded: int) -> ThresholdInput:
    return ThresholdInput(
        standing=_standing(situation),
        proposals=proposals,
        desired=desired,
        unbounded=unbounded,
        offered=situation.offered,
        scaling_inputs=situation.scaling_inputs,
        jumped_at=situation.jumped_at,
        idle_since=situation.idleness.since,
    )


def _refined(
    memory: ScalingMemory,
    arrivals: Arrivals,
    replica_capacity: ReplicaCapacity | None,
    load: ServiceLoad,
    limits: Limits,
    scaling_inputs: ScalingInputs,
    now: float,
) -> Refinement | None:
    if replica_capacity is None:
        return None
    if not load.all_own:
        return memory.refinement
    lengths = lengths_of(replica_capacity, arrivals, scaling_inputs.lengths)
    if lengths is None:
        return memory.refinement
    return refine(memory.refinement, replica_capacity, lengths, load, bool(guards.propose(load, limits)), now)


def _replicas_for_work(
    offered: OfferedWork | None, load: ServiceLoad, limits: Limits, scaling_inputs: ScalingInputs
) -> float | None:
    """The load as a count that is not rounded, with its headroom; None while arrivals are not known."""
    ahead = None if offered is None else replicas_for_arrivals(offered, limits, scaling_inputs)
    if offered is None or ahead is None:
        return None
    return max(ahead, replicas_with_backlog(offered, load, scaling_inputs))


def _needed(situation: Situation) -> int:
    """By the largest of the rules that warm replicas come on top of, without them."""
    proposals = (*arrival_rules(situation), *floor_rules(situation))
    return max(proposal.replicas for proposal in proposals) - situation.limits.warm_replicas


def _advised_only(situation: Situation) -> int:
    """Load only advises: the count stays as it is, within its bounds."""
    return min(max(situation.desired, situation.floor), situation.limits.max_replicas)


def _remember(situation: Situation, applied: int, rule: str) -> ScalingMemory:
    rose = applied > situation.desired
    by_guard = rose and rule in {guard.__name__ for guard in guards.GUARDS}
    return ScalingMemory(
        desired=applied,
        raised_at=situation.now if rose else situation.raised_at,
        jumped_at=situation.now if by_guard else situation.jumped_at,
        load_window=situation.load_window,
        idleness=situation.idleness,
        queue_recovery=situation.queue_recovery,
    )


def _guards_wait_for(situation: Situation) -> str:
    counts, limits = situation.counts, situation.limits
    coming = situation.desired - situation.stuck - counts.serving
    if counts.loading and coming > 0:
        return f"{count(min(counts.loading, coming), 'replica')} still loading"
    if situation.now - situation.jumped_at < limits.scale_up_cooldown_seconds:
        return f"scaleUpCooldown of {seconds(limits.scale_up_cooldown_seconds)}"
    return waits_for(situation.queue_recovery, limits, situation.now)


def _standing(situation: Situation) -> ScaleDownInput:
    return ScaleDownInput(
        desired=situation.desired,
        serving=situation.counts.serving,
        draining=situation.counts.draining,
        raised_at=situation.raised_at,
        load=situation.load,
        load_window=situation.load_window,
        limits=situation.limits,
        now=situation.now,
        floor=situation.floor,
        counts_work=situation.offered is not None,
    )


def _idle(situation: Situation) -> dict[str, str]:
    after_seconds = situation.limits.to_zero_after_seconds
    if after_seconds is None or situation.desired == 0:
        return {}
    return {"idle": idle_text(situation.idleness, after_seconds)}


def _account(situation: Situation) -> DecisionInput:
    counts = situation.counts
    return DecisionInput(
        limits=situation.limits,
        load=situation.load,
        scaling_inputs=situation.scaling_inputs,
        serving=counts.serving,
        loading=counts.loading,
        stuck=counts.blocked,
        offered=situation.offered,
        silent_because=situation.silent_because,
    )


def _last_replica(situation: Situation) -> LastReplica:
    counts, after_seconds = situation.counts, situation.limits.to_zero_after_seconds
    return LastReplica(
        after_seconds=inf if after_seconds is None else after_seconds,
        serving=counts.serving,
        coming=counts.loading + counts.blocked,
        replacing=counts.replacing,
        load=situation.load,
        idleness=situation.idleness,
        now=situation.now,
    )
