"""The outlook of one service, put together from everything that knows something of the time ahead."""

from forebay.api.inference_service import InferenceServiceSpec, InferenceServiceStatus
from forebay.planner.learned import Learned
from forebay.planner.replicas import Replica
from forebay.planner.state import ServiceMemory
from forebay.planner.wake_call import wake_call
from forebay.planner.world import ServiceView
from forebay.scaling.decision import Proposal
from forebay.scaling.lead_time import Prospect
from forebay.scaling.limits import Limits
from forebay.scaling.outlook import Outlook


def outlook_of(
    service: ServiceView,
    spec: InferenceServiceSpec,
    limits: Limits,
    replicas: tuple[Replica, ...],
    memory: ServiceMemory,
    now: float,
    prospect: Prospect,
    learned: Learned,
) -> Outlook:
    """`memory` is what was remembered before this tick; `prospect` and `learned` are of now."""
    before = memory.status or service.status
    floors = (first_start(limits, before), wake_call(service, before, limits, replicas, now).floor)
    return Outlook(
        lead_seconds=prospect.lead_seconds_for(1),
        growth=learned.growth.fraction,
        lengths=learned.lengths,
        floors=tuple(floor for floor in floors if floor is not None),
    )


def first_start(limits: Limits, before: InferenceServiceStatus) -> Proposal | None:
    """A service of which nothing is known begins with one replica, so that it is known to start before it sleeps."""
    if limits.to_zero_after_seconds is None or before.decision is not None:
        return None
    return Proposal(1, "first_start", "nothing has been decided for it before, and it is to have started once")
