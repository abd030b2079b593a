"""Last replica: only the idle clock scales a service from one replica to zero, never its load.

Low load scales a service down to one replica. The last replica is removed after scaleToZeroAfter without a request,
and stays while anything about it is uncertain. Every check returns the sentence that explains why it stays, or nothing.
"""

from collections.abc import Callable
from typing import Final

from forebay.api.instants import rfc3339
from forebay.scaling.decision import Proposal, count, seconds
from forebay.scaling.rules.situation import Situation


def last_replica(situation: Situation) -> str | None:
    kept = "the last replica is kept: scaling.scaleToZeroAfter is not set"
    return kept if situation.limits.to_zero_after_seconds is None else None


def replica_coming(situation: Situation) -> str | None:
    """A replica that waits for a node or loads is not idle: the idle clock begins when it is Ready."""
    starting = situation.counts.loading + situation.counts.blocked
    if starting == 0:
        return None
    return f"{count(starting, 'replica')} still starting; the idle clock begins when one serves"


def replacement_under_way(situation: Situation) -> str | None:
    """The serving replica stays until its replacement serves."""
    return (
        "the last replica is being replaced and stays until the new one serves" if situation.counts.replacing else None
    )


def others_serve(situation: Situation) -> str | None:
    """A service is never scaled from several replicas to zero in one step."""
    serving = situation.counts.serving
    return f"{serving} replicas still serve; all but one are removed first" if serving > 1 else None


def asked_lately(situation: Situation) -> str | None:
    idleness, after_seconds = situation.idleness, situation.limits.to_zero_after_seconds or 0.0
    if idleness.since is None:
        return f"the last replica is kept: {idleness.because}"
    if situation.now - idleness.since >= after_seconds:
        return None
    return (
        f"the last replica is kept until {rfc3339(idleness.since + after_seconds)}: no request has "
        f"arrived since {rfc3339(idleness.since)}, and scaleToZeroAfter is {seconds(after_seconds)}"
    )


Check = Callable[[Situation], str | None]
CHECKS: Final[tuple[Check, ...]] = (last_replica, replica_coming, replacement_under_way, others_serve, asked_lately)


def keep_or_release(situation: Situation) -> Proposal:
    """A proposal of one replica with the first reason to keep it, or of zero."""
    for check in CHECKS:
        if held := check(situation):
            return Proposal(1, check.__name__, held)
    return scale_to_zero(situation)


def scaled_to_zero() -> Proposal:
    """The proposal for a service at zero. Without replicas it has no load, so only demand or a wake starts it."""
    return Proposal(0, "scaled_to_zero", "no rule asks for a replica; `forebay wake` starts one")


def scale_to_zero(situation: Situation) -> Proposal:
    since = "" if situation.idleness.since is None else f" since {rfc3339(situation.idleness.since)}"
    after = seconds(situation.limits.to_zero_after_seconds or 0.0)
    return Proposal(0, "scale_to_zero", f"no request has arrived{since}, and scaleToZeroAfter is {after}")
