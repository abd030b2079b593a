"""Feed-forward: replicas for the work that arrives, before anything is late.

⌈A·(1 + h)/u⌉ with A the GPU-seconds of work that arrive per second, u what one replica may give of each second, and
h = min(1, max(headroom, √(burst² + growth²))). Growth is what the load may gain while a replica loads. Burst is what
chance adds where few requests are in flight: z·√(IDC/(r·τ)), r requests per second that stay τ seconds each
(square-root staffing); the index of dispersion IDC is estimated from the arrivals themselves.
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
"""z: 99 of 100 bursts are within it (docs/design/scaling.md says what other values gave)."""
LARGEST_HEADROOM: Final = 1.0


@dataclass(frozen=True, slots=True)
class Headroom:
    """h and where it comes from, as fractions."""

    fraction: float
    burst: float
    growth: float
    asked: float
    """headroomPercent."""

    def __str__(self) -> str:
        return (
            f"{percent(self.fraction)} (burst {percent(self.burst)}, growth {percent(self.growth)}, "
            f"headroomPercent {percent(self.asked)})"
        )


def headroom(offered: OfferedWork, limits: Limits, scaling_inputs: ScalingInputs) -> Headroom:
    """Never above 100 %: a service that may more than double within a lead time needs a schedule."""
    sequences = (offered.requests_per_second or 0.0) * offered.carried.residence_seconds
    burst = min(LARGEST_HEADROOM, QUANTILE * sqrt(offered.dispersion / sequences)) if sequences > 0 else 0.0
    growth = max(0.0, scaling_inputs.growth)
    fraction = min(LARGEST_HEADROOM, max(limits.headroom, sqrt(burst**2 + growth**2)))
    return Headroom(fraction, burst, growth, limits.headroom)


def replicas_for_arrivals(offered: OfferedWork, limits: Limits, scaling_inputs: ScalingInputs) -> float | None:
    """A·(1 + h)/u before it is rounded up; None while arrivals are not known."""
    work = offered.work
    if work is None:
        return None
    return work * (1 + headroom(offered, limits, scaling_inputs).fraction) / offered.carried.usable


def feed_forward(
    offered: OfferedWork, limits: Limits, scaling_inputs: ScalingInputs, weights: ReplicaWeights = EVEN
) -> Proposal | None:
    """Enough replicas for the work that arrives, with headroom."""
    needed, work = replicas_for_arrivals(offered, limits, scaling_inputs), offered.work
    if needed is None or work is None:
        return None
    carried, replicas = offered.carried, weights.replicas_for(needed)
    each = "" if weights.even else f", so {weights.shown(replicas)}"
    return Proposal(
        replicas=replicas,
        rule="feed_forward",
        because=f"{significant(work)} GPU-seconds of work arrive per second{offered.as_seen} "
        f"({amount(offered.requests_per_second or 0.0, 'request')} of {seconds(carried.work_seconds)}); "
        f"with {percent(headroom(offered, limits, scaling_inputs).fraction)} headroom that takes {number(needed)} "
        f"replicas of {significant(carried.usable)} GPU-seconds per second each{each}",
    )
