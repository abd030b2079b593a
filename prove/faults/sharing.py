"""A guarantee is a promise, and what nobody uses is lent."""

from prove.fault import Fault
from prove.mutations import at, replaced, returns, without

FAULTS = (
    Fault(
        "sharing.guarantee-ignored",
        claim="every tenant gets what it asks for of its guarantee before anybody gets more, if the guarantees fit",
        planted="no guarantee is granted before the division by weight",
        changes=(at("Division._guaranteed", returns("[0] * (block.end - block.start)")),),
        guards=(
            "test_shares",
            "test_groups",
            "test_guarantees_are_kept_unless_some_are_said_to_be_scaled",
            "test_amounts_of_groups_as_by_bisection",
        ),
    ),
    Fault(
        "sharing.charge-at-arrival",
        claim="a request is charged when it starts, so one that waits and goes away costs its tenant nothing",
        planted="the cost is charged on arrival",
        changes=(
            at("Scheduler.arrive", replaced("heappush", "(_, charge(tenant, request.cost, CLASSES, now))")),
            at("Scheduler._start", without("charge", nth=1)),
        ),
        guards=("test_a_request_that_waits_and_goes_away_is_not_charged",),
    ),
)
