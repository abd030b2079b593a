"""Steps: what is to be done to one replica, as a whole, with the event that tells of it."""

from dataclasses import dataclass
from enum import StrEnum

from forebay.api.reasons import Reason
from forebay.world.plan import Action, EventRecord


class StepKind(StrEnum):
    """What a step costs, for the operator's own limits."""

    CREATE = "Create"
    DRAIN = "Drain"
    """Takes a replica that may serve out of service."""
    OTHER = "Other"


@dataclass(frozen=True, slots=True)
class Step:
    kind: StepKind
    actions: tuple[Action, ...]
    gpus: int = 0
    """That a creation asks for."""
    subject: str = ""
    """The replica; an event of one reason is sent once per subject."""
    event: EventRecord | None = None


def normal(reason: Reason, message: str) -> EventRecord:
    return EventRecord("Normal", reason, message)


def warning(reason: Reason, message: str) -> EventRecord:
    return EventRecord("Warning", reason, message)
