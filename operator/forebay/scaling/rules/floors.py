"""Floors: counts that hold whatever the load is."""

from collections.abc import Iterable
from dataclasses import replace

from forebay.scaling.decision import Proposal, count
from forebay.scaling.limits import Limits


def floor_rules(limits: Limits, floors: Iterable[Proposal]) -> tuple[Proposal, ...]:
    """minReplicas, and `floors` of schedules and wake requests, each with the warm replicas on top of it."""
    return (min_replicas(limits), *(with_warm(floor, limits) for floor in floors))


def min_replicas(limits: Limits) -> Proposal:
    """minReplicas, and the warm replicas on top of it."""
    return with_warm(Proposal(limits.min_replicas, "min_replicas", f"minReplicas is {limits.min_replicas}"), limits)


def with_warm(proposal: Proposal, limits: Limits) -> Proposal:
    """The proposal with warmPool.replicas on top of it."""
    warm = limits.warm_replicas
    if not warm:
        return proposal
    because = f"{proposal.because}, and warmPool.replicas adds {warm}"
    return replace(proposal, replicas=proposal.replicas + warm, because=because)


def max_replicas(proposal: Proposal, limits: Limits) -> Proposal:
    """The proposal, cut to maxReplicas. Warm replicas give way first, since they are the part on top of the need."""
    if proposal.replicas <= limits.max_replicas:
        return proposal
    return Proposal(
        limits.max_replicas,
        "max_replicas",
        f"maxReplicas is {limits.max_replicas}; {proposal.rule} asks for {count(proposal.replicas, 'replica')} "
        f"({proposal.because})",
    )
