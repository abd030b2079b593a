"""The outlook of one service, put together from everything that knows something of the time ahead."""

from forebay.api.inference_service import InferenceServiceSpec
from forebay.planner.replicas import Replica
from forebay.planner.state import ServiceMemory
from forebay.planner.world import ServiceView
from forebay.scaling.limits import Limits
from forebay.scaling.outlook import Outlook


def outlook_of(
    service: ServiceView,
    spec: InferenceServiceSpec,
    limits: Limits,
    replicas: tuple[Replica, ...],
    memory: ServiceMemory,
    now: float,
) -> Outlook:
    """`memory` is what was remembered before this tick."""
    return Outlook()
