"""What is offered: the work that arrives at a service, and what one replica carries of it.

Both are in GPU-seconds per second, since tokens alone are no unit of capacity: the same replica carries several times
the tokens of one mix than of another.
"""

from dataclasses import dataclass

from forebay.scaling.learning.replica_capacity import Carried, Refinement, ReplicaCapacity
from forebay.scaling.load.arrivals import Arrivals, RequestLengths

NO_CARRIER = "what a replica carries is not known: it takes a model of the catalogue (or its shape) and gpu.product"
NO_LENGTHS = "the lengths of requests are not known yet: none has been seen, and no traffic is declared"
NO_PROMISE = "no number of such replicas keeps the promises of slo, so none can be computed"
NO_ARRIVALS = "arrivals are not known yet"


@dataclass(frozen=True, slots=True)
class OfferedWork:
    """The load in the unit of capacity."""

    requests_per_second: float | None
    """Of the last minute; None while unknown."""
    lengths: RequestLengths
    carried: Carried
    dispersion: float
    """Of arrivals: variance over mean."""
    held: bool = False
    """The rate is the last that was seen, since nobody tells of one now."""

    @property
    def work(self) -> float | None:
        """A: GPU-seconds that arrive per second."""
        rate = self.requests_per_second
        return None if rate is None else rate * self.carried.work_seconds

    @property
    def as_seen(self) -> str:
        """What has to be said of a rate that is only held, as a clause."""
        return ", as last seen" if self.held else ""


def offer(
    replica_capacity: ReplicaCapacity | None,
    arrivals: Arrivals,
    refinement: Refinement | None,
    earlier: RequestLengths | None,
    now: float,
    *,
    held: bool = False,
) -> OfferedWork | str:
    """What is offered, or why it cannot be told. Lengths seen now go before those of earlier, then declared ones."""
    if replica_capacity is None:
        return NO_CARRIER
    lengths = lengths_of(replica_capacity, arrivals, earlier)
    if lengths is None:
        return NO_LENGTHS
    carried = replica_capacity.carries(lengths, refinement)
    if carried is None:
        return NO_PROMISE
    return OfferedWork(arrivals.requests_per_second(now), lengths, carried, arrivals.dispersion, held)


def lengths_of(
    replica_capacity: ReplicaCapacity, arrivals: Arrivals, earlier: RequestLengths | None
) -> RequestLengths | None:
    return arrivals.lengths or earlier or replica_capacity.declared
