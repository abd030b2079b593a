"""A guarantee is a promise, and what nobody uses is lent."""

from prove.fault import Fault
from prove.mutations import at, returns

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
)
