"""Feed-forward: replicas for the work that arrives, before any request is late.

The proposal is ⌈A·(1 + h)/u⌉ replicas. A is the arriving work and u the capacity of one replica, both in GPU-seconds
per second. The headroom is h = min(1, max(headroomPercent, √(burst² + growth²))). Growth is the fraction by which the
load may grow while a replica loads. Burst covers random variation, which is large where few requests are in flight:
z·√(IDC/(r·τ)) for r requests per second that stay τ seconds each (square-root staffing). The index of dispersion IDC is
estimated from the arrivals themselves.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Final

from forebay.scaling.decision import Proposal, amount, number, percent, seconds, significant
from forebay.scaling.learning.offered_work import OfferedWork
from forebay.scaling.limits import Limits
from forebay.scaling.replica_weights import EVEN, ReplicaWeights
from forebay.scaling.scaling_inputs import ScalingInputs

QUANTILE: Final = 2.33
"""z: quantile of the normal distribution that covers 99 of 100 bursts (docs/design/scaling.md compares values)."""
LARGEST_HEADROOM: Final = 1.0


@dataclass(frozen=True, slots=True)
class Headroom:
    """h and its parts, as fractions."""

    fraction: float
    """h."""
    burst: float
    growth: float
    configured: float
    """headroomPercent."""

    def __str__(self) -> str:
        return (
            f"{percent(self.fraction)} (burst {percent(self.burst)}, growth {percent(self.growth)}, "
            f"headroomPercent {percent(self.configured)})"
        )


def headroom(offered_work: OfferedWork, limits: Limits, scaling_inputs: ScalingInputs) -> Headroom:
    """The headroom h. It never exceeds 100 %: a service that may more than double in a lead time needs a schedule."""
    sequences = (offered_work.requests_per_second or 0.0) * offered_work.capacity.residence_seconds
    burst = min(LARGEST_HEADROOM, QUANTILE * sqrt(offered_work.dispersion / sequences)) if sequences > 0 else 0.0
    growth = max(0.0, scaling_inputs.growth)
    fraction = min(LARGEST_HEADROOM, max(limits.headroom, sqrt(burst**2 + growth**2)))
    return Headroom(fraction, burst, growth, limits.headroom)


def replicas_for_arrivals(offered_work: OfferedWork, limits: Limits, scaling_inputs: ScalingInputs) -> float | None:
    """A·(1 + h)/u before it is rounded up; None while arrivals are unknown."""
    work = offered_work.work
    if work is None:
        return None
    return work * (1 + headroom(offered_work, limits, scaling_inputs).fraction) / offered_work.capacity.usable


def feed_forward(
    offered_work: OfferedWork, limits: Limits, scaling_inputs: ScalingInputs, weights: ReplicaWeights = EVEN
) -> Proposal | None:
    """Enough replicas for the work that arrives, with headroom."""
    needed, work = replicas_for_arrivals(offered_work, limits, scaling_inputs), offered_work.work
    if needed is None or work is None:
        return None
    capacity, replicas = offered_work.capacity, weights.replicas_for(needed)
    actual = "" if weights.even else f", so {weights.shown(replicas)}"
    return Proposal(
        replicas=replicas,
        rule="feed_forward",
        because=f"{significant(work)} GPU-seconds of work arrive per second{offered_work.held_clause} "
        f"({amount(offered_work.requests_per_second or 0.0, 'request')} of {seconds(capacity.work_seconds)}); "
        f"with {percent(headroom(offered_work, limits, scaling_inputs).fraction)} headroom this needs {number(needed)} "
        f"replicas of {significant(capacity.usable)} GPU-seconds per second each{actual}",
    )
