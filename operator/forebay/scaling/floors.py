"""Floors: counts that hold whatever the load is."""

from forebay.scaling.decision import Proposal, count
from forebay.scaling.limits import Limits


def min_replicas(limits: Limits) -> Proposal:
    """minReplicas, and the warm replicas on top of it."""
    fewest, warm = limits.min_replicas, limits.warm_replicas
    on_top = f", and warmPool.replicas adds {warm}" if warm else ""
    return Proposal(fewest + warm, "min_replicas", f"minReplicas is {fewest}{on_top}")


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
