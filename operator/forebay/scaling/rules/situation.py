"""The situation of one service at one moment: everything that a scaling rule may read, and nothing else.

`situation_of` adds one observation of the load and computes what follows from it: the arriving work, the capacity of a
replica, and the load window. It decides nothing. `remember` stores what the next tick needs, once the count is final.
The final count may be lower than the decision, since the operator shares GPUs between services after they decide.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from forebay.api.inference_service import ScalingMode
from forebay.scaling.decision import Decision, Proposal
from forebay.scaling.learning.offered_work import OfferedWork, compute_offered_work, lengths_of
from forebay.scaling.learning.replica_capacity import Refinement, ReplicaCapacity, refine
from forebay.scaling.limits import Limits
from forebay.scaling.load.arrivals import Arrivals, update_arrivals
from forebay.scaling.load.idleness import Idleness, update_idleness
from forebay.scaling.load.load_window import LoadWindow, update_load_window
from forebay.scaling.load.service_load import ServiceLoad
from forebay.scaling.rules import floors, guards
from forebay.scaling.rules.backlog import replicas_with_backlog
from forebay.scaling.rules.feed_forward import replicas_for_arrivals
from forebay.scaling.rules.queue_recovery import QueueRecovery, update_queue_recovery
from forebay.scaling.scaling_inputs import ScalingInputs

FEWEST_COUNTED: Final = 0.5
"""Share of the serving replicas that have to count requests before the work is known for a step down."""


@dataclass(frozen=True, slots=True)
class ReplicaCounts:
    """Numbers of replicas of one service, by state."""

    serving: int = 0
    loading: int = 0
    """Replicas that are starting: future capacity."""
    blocked: int = 0
    """Replicas that are stuck while starting: no capacity."""
    blocked_for_all: int = 0
    """Stuck replicas whose reason would also stop another replica: no node has free GPUs, or no replica has become
    ready since they were created."""
    stalled: int = 0
    """Replicas that have requests and make no step. They are replaced beyond the desired count."""
    returning: int = 0
    """Loading replicas whose engines crashed again and again after they had served: no capacity to wait for."""
    draining: int = 0
    replacing: bool = False
    """Whether replicas are to be replaced: those of another revision, or on a node that is to be drained."""
    wanted_before: int = 0
    """Desired count before this operator process started, as far as status and pods show it."""
    newest_created_at: float | None = None
    """Creation time of the newest replica. After a start of the operator it stands for the time of the last rise."""


@dataclass(frozen=True, slots=True)
class ScalingMemory:
    """What scaling remembers of a service between two ticks."""

    desired: int | None = None
    raised_at: float | None = None
    """When the count last rose."""
    guard_raised_at: float | None = None
    """When a guard last made it rise."""
    lowered_at: float | None = None
    """When the count last fell."""
    load_window: LoadWindow = field(default_factory=LoadWindow)
    queue_recovery: QueueRecovery = field(default_factory=QueueRecovery)
    arrivals: Arrivals = field(default_factory=Arrivals)
    refinement: Refinement | None = None
    """Measured speed of live replicas against their profile."""
    offered_work: OfferedWork | None = None
    """Offered work at the last tick; None while it is unknown."""
    idleness: Idleness = field(default_factory=Idleness)


@dataclass(frozen=True)
class Situation:
    """Everything that a scaling rule may read."""

    limits: Limits
    load: ServiceLoad
    now: float
    counts: ReplicaCounts = field(default_factory=ReplicaCounts)
    mode: ScalingMode = ScalingMode.AUTO
    desired: int = 0
    """Count that the planner worked towards until now."""
    raised_at: float = 0.0
    """When the count last rose."""
    guard_raised_at: float = 0.0
    """When a guard last made it rise."""
    lowered_at: float | None = None
    """When the count last fell; None when this operator process has not seen it fall."""
    load_window: LoadWindow = field(default_factory=LoadWindow)
    idleness: Idleness = field(default_factory=Idleness)
    queue_recovery: QueueRecovery = field(default_factory=QueueRecovery)
    scaling_inputs: ScalingInputs = field(default_factory=ScalingInputs)
    arrivals: Arrivals = field(default_factory=Arrivals)
    refinement: Refinement | None = None
    offered_work: OfferedWork | None = None
    """The arriving work and the capacity of a replica; None while they are unknown."""
    unknown_because: str = ""
    """Why the offered work is unknown."""

    @cached_property
    def floor(self) -> int:
        """The highest floor, within maxReplicas: the count that holds under any load."""
        proposals = floors.floor_rules(self.limits, self.scaling_inputs.floors)
        return min(max(proposal.replicas for proposal in proposals), self.limits.max_replicas)

    @property
    def stuck(self) -> int:
        """Stuck replicas among the desired ones; a stuck replica that a rollout adds as surge does not count."""
        missing = self.desired - self.counts.serving - self.counts.loading
        return max(0, min(missing, self.counts.blocked))

    @property
    def replaceable(self) -> int:
        """Stuck replicas beside which guards ask for another one.

        Some replicas are stuck for a reason that would also stop another one. For all of these together, only one more
        is tried: where no node has free GPUs, all would wait for the same GPU, and while no replica starts at all,
        another try at every step would only add more stuck replicas.
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
    """The situation of a service with one more observation of its load. `now` is in unix seconds."""
    began = now if counts.newest_created_at is None else min(now, counts.newest_created_at)
    held = _arrivals_unknown(load, scaling_inputs)
    received_requests = scaling_inputs.demand.received_requests
    arrivals = update_arrivals(
        memory.arrivals,
        load.flow,
        now,
        received_requests,
        holds=held,
        doubted=frozenset(pod for pod, _ in load.distrusted),
    )
    refinement = _refined(memory, arrivals, replica_capacity, load, limits, scaling_inputs, now)
    result = compute_offered_work(replica_capacity, arrivals, refinement, scaling_inputs.lengths, now, held=held)
    offered_work = result if isinstance(result, OfferedWork) else None
    if offered_work is not None:
        limits = replace(limits, idle_token_seconds=offered_work.capacity.idle_token_seconds)
    replicas = _replicas_for_work(offered_work, load, limits, scaling_inputs)
    desired = counts.wanted_before if memory.desired is None else memory.desired
    window = update_load_window(memory.load_window, load, limits, now, guards.late, replicas)
    return Situation(
        limits=limits,
        load=load,
        now=now,
        counts=counts,
        mode=mode,
        desired=desired,
        raised_at=began if memory.raised_at is None else memory.raised_at,
        guard_raised_at=began if memory.guard_raised_at is None else memory.guard_raised_at,
        lowered_at=memory.lowered_at,
        load_window=window,
        idleness=update_idleness(memory.idleness, load, scaling_inputs.demand, counts.draining, now),
        queue_recovery=update_queue_recovery(
            memory.queue_recovery, counts.serving, desired, load, window, scaling_inputs.lead_seconds, now
        ),
        scaling_inputs=scaling_inputs,
        arrivals=arrivals,
        refinement=refinement,
        offered_work=offered_work,
        unknown_because="" if isinstance(result, OfferedWork) else result,
    )


def remember(situation: Situation, decision: Decision) -> ScalingMemory:
    """The memory for the next tick, once the count is final."""
    rose = decision.applied > situation.desired
    by_guard = rose and binding(decision.proposals).rule in {guard.__name__ for guard in guards.GUARDS}
    return ScalingMemory(
        desired=decision.applied,
        raised_at=situation.now if rose else situation.raised_at,
        guard_raised_at=situation.now if by_guard else situation.guard_raised_at,
        lowered_at=situation.now if decision.applied < situation.desired else situation.lowered_at,
        load_window=situation.load_window,
        queue_recovery=situation.queue_recovery,
        arrivals=situation.arrivals,
        refinement=situation.refinement,
        offered_work=situation.offered_work,
        idleness=situation.idleness,
    )


def binding(proposals: tuple[Proposal, ...]) -> Proposal:
    """The largest proposal that counts now; the first wins a tie."""
    active = (proposal for proposal in proposals if not proposal.waits_for)
    return max(active, key=lambda proposal: proposal.replicas)


def _arrivals_unknown(load: ServiceLoad, scaling_inputs: ScalingInputs) -> bool:
    """Whether no metrics give the present arrivals, so that the last known rate is used."""
    return load.replicas > 0 and load.flow is None and scaling_inputs.demand.received_requests is None


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


def _mostly_counted(load: ServiceLoad) -> bool:
    """Whether half of the replicas count requests. What a few of many get is no measure of the whole: a router sends
    them less or more than the others."""
    return load.flow is None or load.flow.counted_share >= FEWEST_COUNTED


def _replicas_for_work(
    offered_work: OfferedWork | None, load: ServiceLoad, limits: Limits, scaling_inputs: ScalingInputs
) -> float | None:
    """The replicas that arrivals and backlog ask for, before rounding; None while arrivals are unknown, or only known
    of a minority of the replicas."""
    arriving = None if offered_work is None else replicas_for_arrivals(offered_work, limits, scaling_inputs)
    if offered_work is None or arriving is None or not _mostly_counted(load):
        return None
    return max(arriving, replicas_with_backlog(offered_work, load, scaling_inputs))
