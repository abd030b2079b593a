"""Backlog: replicas for the work that already waits.

A term of its own beside the arrivals, and bounded by them: a queue keeps growing while replicas load, and a rule that
followed it would order ever more of them. Waiting work is to be done within the lead time, since replicas ordered for
it do not serve before that.
"""

from typing import Final

from forebay.scaling.decision import Proposal, count, number, significant
from forebay.scaling.learning.offered_work import OfferedWork
from forebay.scaling.load.service_load import ServiceLoad
from forebay.scaling.scaling_inputs import ScalingInputs

SHORTEST_SECONDS: Final = 60.0


def replicas_with_backlog(offered: OfferedWork, load: ServiceLoad, scaling_inputs: ScalingInputs) -> float:
    """(A + min(Q/max(60 s, L), max(A/2, u)))/u with Q the GPU-seconds of waiting work; unknown arrivals add none."""
    work, usable = offered.work or 0.0, offered.carried.usable
    extra = min(
        waiting_seconds(offered, load, scaling_inputs) / max(SHORTEST_SECONDS, scaling_inputs.lead_seconds),
        max(work / 2, usable),
    )
    return (work + extra) / usable


def waiting_seconds(offered: OfferedWork, load: ServiceLoad, scaling_inputs: ScalingInputs) -> float:
    """Q: what waits in engines, and what the gateway holds back."""
    each, demand = offered.carried.work_seconds, scaling_inputs.demand
    held = demand.held_work_seconds
    return load.waiting_requests * each + ((demand.held_requests or 0.0) * each if held is None else held)


def backlog(offered: OfferedWork | None, load: ServiceLoad, scaling_inputs: ScalingInputs) -> Proposal | None:
    """Enough replicas to work off what waits, from none as well; one where it is not known what a replica carries."""
    requests = load.waiting_requests + (scaling_inputs.demand.held_requests or 0.0)
    if requests <= 0 and not scaling_inputs.demand.waits:
        return None
    waiting = f"{count(round(requests), 'request')} {'waits' if round(requests) == 1 else 'wait'}"
    if offered is None:
        return None if load.replicas else Proposal(1, "backlog", f"{waiting} and no replica serves")
    needed = replicas_with_backlog(offered, load, scaling_inputs)
    return Proposal(
        replicas=max(1, load.weights.replicas_for(needed)),
        rule="backlog",
        because=f"{waiting}, {significant(waiting_seconds(offered, load, scaling_inputs))} GPU-seconds of work; with "
        f"what arrives that takes {number(needed)} replicas",
    )
