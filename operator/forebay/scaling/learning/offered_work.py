"""Offered work: the work that arrives at a service, and the capacity of one replica for it.

Both are in GPU-seconds per second. Tokens are not a unit of capacity, because one replica can serve several times as
many tokens of one mix of lengths as of another.
"""

from dataclasses import dataclass

from forebay.scaling.learning.replica_capacity import MixCapacity, Refinement, ReplicaCapacity
from forebay.scaling.load.arrivals import Arrivals, RequestLengths

CAPACITY_UNKNOWN = (
    "the capacity of a replica is unknown: it needs gpu.product, and a model of the catalogue or model.architecture"
)
LENGTHS_UNKNOWN = "request lengths are unknown: too few requests have finished, and spec.traffic is not set"
SLO_UNREACHABLE = "no number of these replicas meets spec.slo, so no count can be computed"
ARRIVALS_UNKNOWN = "arrivals are not known yet"


@dataclass(frozen=True, slots=True)
class OfferedWork:
    """The arriving load in the unit of capacity."""

    requests_per_second: float | None
    """λ: arrival rate; None while unknown."""
    lengths: RequestLengths
    capacity: MixCapacity
    dispersion: float
    """IDC: index of dispersion of the arrivals, variance over mean."""
    held: bool = False
    """Whether the rate is the last known one, because no metrics give a current rate."""

    @property
    def work(self) -> float | None:
        """A: GPU-seconds of work that arrive per second, λ·s."""
        rate = self.requests_per_second
        return None if rate is None else rate * self.capacity.work_seconds

    @property
    def held_clause(self) -> str:
        """A clause that marks a rate that is only held; empty for a current rate."""
        return ", as last seen" if self.held else ""


def compute_offered_work(
    replica_capacity: ReplicaCapacity | None,
    arrivals: Arrivals,
    refinement: Refinement | None,
    earlier: RequestLengths | None,
    now: float,
    *,
    held: bool = False,
) -> OfferedWork | str:
    """The offered work, or the reason why it is unknown.

    Lengths that are measured now take precedence over `earlier` ones, and those over declared ones.
    """
    if replica_capacity is None:
        return CAPACITY_UNKNOWN
    lengths = lengths_of(replica_capacity, arrivals, earlier)
    if lengths is None:
        return LENGTHS_UNKNOWN
    capacity = replica_capacity.mix_capacity(lengths, refinement)
    if capacity is None:
        return SLO_UNREACHABLE
    return OfferedWork(arrivals.requests_per_second(now), lengths, capacity, arrivals.dispersion, held)


def lengths_of(
    replica_capacity: ReplicaCapacity, arrivals: Arrivals, earlier: RequestLengths | None
) -> RequestLengths | None:
    return arrivals.lengths or earlier or replica_capacity.declared
