"""Backlog: replicas for the work that already waits.

The backlog is added to the arrivals and bounded by them: a queue keeps growing while replicas load, and an unbounded
rule would order more and more of them. The target is to finish the waiting work within the lead time, because replicas
that are created for it do not serve earlier.
"""

from typing import Final

from forebay.scaling.decision import Proposal, count, number, significant
from forebay.scaling.learning.offered_work import OfferedWork
from forebay.scaling.load.service_load import ServiceLoad
from forebay.scaling.scaling_inputs import ScalingInputs

SHORTEST_SECONDS: Final = 60.0
"""Shortest time in which waiting work is to be finished."""


def replicas_with_backlog(offered_work: OfferedWork, load: ServiceLoad, scaling_inputs: ScalingInputs) -> float:
    """(A + min(Q/max(60 s, L), max(A/2, u)))/u before it is rounded up.

    A is the arriving work and u the capacity of one replica, both in GPU-seconds per second; Q is the waiting work in
    GPU-seconds, and L the lead time. Unknown arrivals count as 0.
    """
    work, usable = offered_work.work or 0.0, offered_work.capacity.usable
    extra = min(
        waiting_seconds(offered_work, load, scaling_inputs) / max(SHORTEST_SECONDS, scaling_inputs.lead_seconds),
        max(work / 2, usable),
    )
    return (work + extra) / usable


def waiting_seconds(offered_work: OfferedWork, load: ServiceLoad, scaling_inputs: ScalingInputs) -> float:
    """Q: GPU-seconds of the requests that wait in engines and of those that the gateway holds."""
    per_request, demand = offered_work.capacity.work_seconds, scaling_inputs.demand
    held = demand.held_work_seconds
    return load.waiting_requests * per_request + ((demand.held_requests or 0.0) * per_request if held is None else held)


def backlog(offered_work: OfferedWork | None, load: ServiceLoad, scaling_inputs: ScalingInputs) -> Proposal | None:
    """Enough replicas to finish the waiting work. It also starts a service from zero.

    If the capacity of a replica is unknown, the proposal is one replica from zero, and none otherwise.
    """
    requests = load.waiting_requests + (scaling_inputs.demand.held_requests or 0.0)
    if requests <= 0 and not scaling_inputs.demand.waits:
        return None
    waiting = f"{count(round(requests), 'request')} {'waits' if round(requests) == 1 else 'wait'}"
    if offered_work is None:
        return None if load.replicas else Proposal(1, "backlog", f"{waiting} and no replica is serving")
    needed = replicas_with_backlog(offered_work, load, scaling_inputs)
    work = significant(waiting_seconds(offered_work, load, scaling_inputs))
    return Proposal(
        replicas=max(1, load.weights.replicas_for(needed)),
        rule="backlog",
        because=f"{waiting}, {work} GPU-seconds of work; with the arriving work this needs {number(needed)} replicas",
    )
