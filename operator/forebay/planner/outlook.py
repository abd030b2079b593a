"""The outlook of one service, put together from everything that knows something of the time ahead."""

from forebay.api.inference_service import InferenceServiceSpec
from forebay.planner.learned import Learned
from forebay.planner.replicas import Replica
from forebay.planner.state import ServiceMemory
from forebay.planner.world import ServiceView
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
    return Outlook(lead_seconds=prospect.lead_seconds_for(1), growth=learned.growth.fraction, lengths=learned.lengths)
