"""Floors and the ceiling: replica counts that hold under any load."""

from collections.abc import Iterable
from dataclasses import replace

from forebay.scaling.decision import Proposal, count
from forebay.scaling.limits import Limits


def floor_rules(limits: Limits, floors: Iterable[Proposal]) -> tuple[Proposal, ...]:
    """Proposals for minReplicas and for `floors` of schedules and wake requests, each with the warm replicas added."""
    return (min_replicas(limits), *(with_warm(floor, limits) for floor in floors))


def min_replicas(limits: Limits) -> Proposal:
    """minReplicas with the warm replicas added."""
    return with_warm(Proposal(limits.min_replicas, "min_replicas", f"minReplicas is {limits.min_replicas}"), limits)


def with_warm(proposal: Proposal, limits: Limits) -> Proposal:
    """The proposal with warmPool.replicas added."""
    warm = limits.warm_replicas
    if not warm:
        return proposal
    because = f"{proposal.because}, and warmPool.replicas adds {warm}"
    return replace(proposal, replicas=proposal.replicas + warm, because=because)


def max_replicas(proposal: Proposal, limits: Limits) -> Proposal:
    """The proposal, cut to maxReplicas. The cut takes the warm replicas first, since they were added to the need."""
    if proposal.replicas <= limits.max_replicas:
        return proposal
    return Proposal(
        limits.max_replicas,
        "max_replicas",
        f"maxReplicas is {limits.max_replicas}; {proposal.rule} asks for {count(proposal.replicas, 'replica')} "
        f"({proposal.because})",
    )
