"""The situation of one service at one moment: everything that a scaling rule may read, and nothing else.

`situation_of` takes one more look at the load and computes what follows from it: how much work arrives, what a replica
carries of it, what the load window holds. It decides nothing. `remember` writes down what the next look needs once the
count is final, which may be less than the rules came to: the operator shares GPUs between services after they decide.
"""

from dataclasses import dataclass, field, replace

from forebay.api.inference_service import ScalingMode
from forebay.scaling.decision import Decision, Proposal
from forebay.scaling.learning.offered_work import OfferedWork, lengths_of, offer
from forebay.scaling.learning.replica_capacity import Refinement, ReplicaCapacity, refine
from forebay.scaling.limits import Limits
from forebay.scaling.load.arrivals import Arrivals, observe
from forebay.scaling.load.idleness import Idleness, look_idle
from forebay.scaling.load.load_window import LoadWindow, extended
from forebay.scaling.load.service_load import ServiceLoad
from forebay.scaling.rules import floors, guards
from forebay.scaling.rules.backlog import replicas_with_backlog
from forebay.scaling.rules.feed_forward import replicas_for_arrivals
from forebay.scaling.rules.queue_recovery import QueueRecovery, follow
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
    """Stuck for a reason that would hold another one as well: no node has room, or nothing has become ready since they
    were created."""
    draining: int = 0
    replacing: bool = False
    """Whether replicas are to be replaced: of another revision, or on a node that is to be left."""
    wanted_before: int = 0
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
    now: float
    counts: ReplicaCounts = field(default_factory=ReplicaCounts)
    mode: ScalingMode = ScalingMode.AUTO
    desired: int = 0
    """What has been worked towards until now."""
    raised_at: float = 0.0
    """When the count last rose."""
    jumped_at: float = 0.0
    """When a guard last made it rise."""
    load_window: LoadWindow = field(default_factory=LoadWindow)
    idleness: Idleness = field(default_factory=Idleness)
    queue_recovery: QueueRecovery = field(default_factory=QueueRecovery)
    scaling_inputs: ScalingInputs = field(default_factory=ScalingInputs)
    arrivals: Arrivals = field(default_factory=Arrivals)
    refinement: Refinement | None = None
    offered: OfferedWork | None = None
    """The work that arrives and what a replica carries of it; None while that cannot be told."""
    silent_because: str = ""
    """Why it cannot."""

    @property
    def floor(self) -> int:
        """The highest count that holds whatever the load is."""
        proposals = floors.floor_rules(self.limits, self.scaling_inputs.floors)
        return min(max(proposal.replicas for proposal in proposals), self.limits.max_replicas)

    @property
    def stuck(self) -> int:
        """Stuck replicas among those that are wanted; one that a rollout tries on top is not."""
        missing = self.desired - self.counts.serving - self.counts.loading
        return max(0, min(missing, self.counts.blocked))

    @property
    def replaceable(self) -> int:
        """Stuck replicas that another one may do better than.

        Of those that are stuck for a reason that would hold another one as well, one more is tried and no further
        ones: what no node has room for would all wait for the same GPU, and while nothing starts at all, another try
        at every step would only add to what is stuck.
        """
        counts = self.counts
        return min(self.stuck, counts.blocked - counts.blocked_for_all + min(counts.blocked_for_all, 1))


def situation_of(
    limits: Limits,
    load: ServiceLoad,
    counts: ReplicaCounts,
    mode: ScalingMode,
    memory: ScalingMemory,
    now: float,
    scaling_inputs: ScalingInputs,
    replica_capacity: ReplicaCapacity | None,
) -> Situation:
    """One more look at a service. `now` is in unix seconds."""
    began = now if counts.newest_created_at is None else min(now, counts.newest_created_at)
    arrivals = observe(memory.arrivals, load.flow, now, scaling_inputs.demand.asked_requests)
    refinement = _refined(memory, arrivals, replica_capacity, load, limits, scaling_inputs, now)
    held = _arrivals_unseen(load, scaling_inputs)
    found = offer(replica_capacity, arrivals, refinement, scaling_inputs.lengths, now, held=held)
    offered = found if isinstance(found, OfferedWork) else None
    if offered is not None:
        limits = replace(limits, idle_token_seconds=offered.carried.idle_token_seconds)
    replicas = _replicas_for_work(offered, load, limits, scaling_inputs)
    window = extended(memory.load_window, load, limits, now, guards.late, replicas)
    return Situation(
        limits=limits,
        load=load,
        now=now,
        counts=counts,
        mode=mode,
        desired=counts.wanted_before if memory.desired is None else memory.desired,
        raised_at=began if memory.raised_at is None else memory.raised_at,
        jumped_at=began if memory.jumped_at is None else memory.jumped_at,
        load_window=window,
        idleness=look_idle(memory.idleness, load, scaling_inputs.demand, counts.draining, now),
        queue_recovery=follow(memory.queue_recovery, counts.serving, load, window, scaling_inputs.lead_seconds, now),
        scaling_inputs=scaling_inputs,
        arrivals=arrivals,
        refinement=refinement,
        offered=offered,
        silent_because="" if isinstance(found, OfferedWork) else found,
    )


def remember(situation: Situation, decision: Decision) -> ScalingMemory:
    """What the next look needs to know, once the count is final."""
    rose = decision.applied > situation.desired
    by_guard = rose and binding(decision.proposals).rule in {guard.__name__ for guard in guards.GUARDS}
    return ScalingMemory(
        desired=decision.applied,
        raised_at=situation.now if rose else situation.raised_at,
        jumped_at=situation.now if by_guard else situation.jumped_at,
        load_window=situation.load_window,
        queue_recovery=situation.queue_recovery,
        arrivals=situation.arrivals,
        refinement=situation.refinement,
        offered=situation.offered,
        idleness=situation.idleness,
    )


def binding(proposals: tuple[Proposal, ...]) -> Proposal:
    """The largest proposal of those that count; the first wins a tie."""
    return max((each for each in proposals if not each.waits_for), key=lambda proposal: proposal.replicas)


def _arrivals_unseen(load: ServiceLoad, scaling_inputs: ScalingInputs) -> bool:
    """Whether nobody tells of arrivals now, so that the last ones seen stand for them."""
    return load.replicas > 0 and not load.known and scaling_inputs.demand.asked_requests is None


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
