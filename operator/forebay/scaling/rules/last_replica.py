"""The last replica: from one to none is a matter of the idle clock alone, never of load.

Load brings a service down to one replica. That one goes when nothing has been asked of it for scaleToZeroAfter, and not
while anything about it is in doubt. Every check returns the sentence that keeps it, or nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isinf
from typing import Final

from forebay.api.instants import rfc3339
from forebay.scaling.decision import Proposal, count, seconds
from forebay.scaling.load.idleness import Idleness
from forebay.scaling.load.service_load import ServiceLoad


@dataclass(frozen=True, slots=True)
class LastReplica:
    """A service for which one replica is wanted, and what is known of it."""

    after_seconds: float
    """scaleToZeroAfter; infinite keeps the last replica for ever."""
    serving: int
    coming: int
    """Replicas on their way, stuck ones included."""
    replacing: bool
    """Whether replicas are to be replaced: of another revision, or on a node that is to be left."""
    load: ServiceLoad
    idleness: Idleness
    now: float


def last_replica(last: LastReplica) -> str | None:
    return "the last replica is kept: scaling.scaleToZeroAfter is not set" if isinf(last.after_seconds) else None


def replica_coming(last: LastReplica) -> str | None:
    """What still waits for its node, or loads, is not idle: the clock begins when it is Ready."""
    if last.coming == 0:
        return None
    return f"{count(last.coming, 'replica')} on the way: the idle clock begins when it serves"


def replacement_under_way(last: LastReplica) -> str | None:
    """The replica that is known to serve stays until what replaces it does."""
    return "the last replica is being replaced, and stays until the new one serves" if last.replacing else None


def others_serve(last: LastReplica) -> str | None:
    """From many to none in one step there is no way."""
    return f"{last.serving} replicas still serve, and go first" if last.serving > 1 else None


def asked_lately(last: LastReplica) -> str | None:
    idleness = last.idleness
    if idleness.since is None:
        return f"the last replica is kept: {idleness.because}"
    if last.now - idleness.since >= last.after_seconds:
        return None
    return (
        f"the last replica is kept until {rfc3339(idleness.since + last.after_seconds)}: nothing has been "
        f"asked since {rfc3339(idleness.since)}, and scaleToZeroAfter is {seconds(last.after_seconds)}"
    )


Check = Callable[[LastReplica], str | None]
CHECKS: Final[tuple[Check, ...]] = (last_replica, replica_coming, replacement_under_way, others_serve, asked_lately)


def keep_or_release(last: LastReplica) -> Proposal:
    """One replica with the first reason to keep it, or none."""
    for check in CHECKS:
        if held := check(last):
            return Proposal(1, check.__name__, held)
    return scale_to_zero(last)


def scaled_to_zero() -> Proposal:
    """What is said of a service at zero. Without replicas it has no load to be seen, so it takes somebody to ask."""
    return Proposal(0, "scaled_to_zero", "nothing asks for a replica; `forebay wake` starts one")


def scale_to_zero(last: LastReplica) -> Proposal:
    since = "" if last.idleness.since is None else f" since {rfc3339(last.idleness.since)}"
    after = seconds(last.after_seconds)
    return Proposal(0, "scale_to_zero", f"nothing has been asked{since}, and scaleToZeroAfter is {after}")
