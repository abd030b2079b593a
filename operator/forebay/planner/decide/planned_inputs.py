"""The outlook of one service, put together from everything that knows something of the time ahead."""

from forebay.api.inference_service import InferenceServiceStatus
from forebay.planner.decide.wake_request import WakeRequest
from forebay.planner.observe.learned import Learned
from forebay.scaling.decision import Proposal
from forebay.scaling.learning.lead_time import Prospect
from forebay.scaling.limits import Limits
from forebay.scaling.scaling_inputs import ScalingInputs


def scaling_inputs_of(
    limits: Limits, before: InferenceServiceStatus, call: WakeRequest, prospect: Prospect, learned: Learned
) -> ScalingInputs:
    """`before` is the status of until now; all else is of now."""
    floors = (first_start(limits, before), call.floor)
    return ScalingInputs(
        lead_seconds=prospect.lead_seconds,
        growth=learned.growth.fraction,
        lengths=learned.lengths,
        floors=tuple(floor for floor in floors if floor is not None),
    )


def first_start(limits: Limits, before: InferenceServiceStatus) -> Proposal | None:
    """A service of which nothing is known begins with one replica, so that it is known to start before it sleeps."""
    if limits.to_zero_after_seconds is None or before.decision is not None:
        return None
    return Proposal(1, "first_start", "nothing has been decided for it before, and it is to have started once")
