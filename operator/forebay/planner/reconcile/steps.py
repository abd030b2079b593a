"""Steps: the actions on one replica as a whole, with the event that reports them."""

from dataclasses import dataclass
from enum import StrEnum

from forebay.api.reasons import Reason
from forebay.world.plan import Action, EventRecord


class StepKind(StrEnum):
    """The kind of a step, by which the operator's own limits count it."""

    CREATE = "Create"
    DRAIN = "Drain"
    """Takes a replica out of service that may be serving, or removes one whose node is lost."""
    OTHER = "Other"


@dataclass(frozen=True, slots=True)
class Step:
    kind: StepKind
    actions: tuple[Action, ...]
    gpus: int = 0
    """GPUs that a creation requests."""
    subject: str = ""
    """Name of the replica. An event of one reason is sent once per subject."""
    charged: bool = True
    """Whether a drain counts against the limit of drains. It does not when the cluster has taken the node, because
    refusing the step would keep nothing."""
    event: EventRecord | None = None


def normal(reason: Reason, message: str) -> EventRecord:
    return EventRecord("Normal", reason, message)


def warning(reason: Reason, message: str) -> EventRecord:
    return EventRecord("Warning", reason, message)
