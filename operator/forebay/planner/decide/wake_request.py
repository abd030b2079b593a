"""Wake requests: a user or a tool asks for a replica of a service that has scaled to zero.

A request is an annotation with the time of asking, so it is written with the caller's own rights and survives a restart
of the operator. It is answered once: when a service goes to zero, its status keeps the answered value, and that value
wakes nothing again, however often a GitOps tool restores it. Clocks may differ by `CLOCK_SKEW_SECONDS`.
"""

from dataclasses import dataclass
from typing import Final

from forebay.api.instants import rfc3339, unix_seconds
from forebay.api.labels import WAKE_REQUESTED_AT
from forebay.api.reasons import Reason
from forebay.api.status import InferenceServiceStatus
from forebay.planner.observe.replicas import Replica, ReplicaState
from forebay.scaling.decision import Proposal, seconds
from forebay.scaling.limits import Limits
from forebay.world.world import ServiceView, SpecProblem

CLOCK_SKEW_SECONDS: Final = 300.0
"""How far the requester's clock may differ from the operator's."""
LONGEST_SHOWN: Final = 64
"""Characters of an unreadable value that the message quotes."""


@dataclass(frozen=True, slots=True)
class WakeRequest:
    """What a service's wake annotation asks for."""

    floor: Proposal | None = None
    until: float | None = None
    """When the floor ends; None while no replica serves, because the end depends on when one is ready."""
    problem: SpecProblem | None = None
    """Why the request cannot be answered."""


NO_REQUEST: Final = WakeRequest()


def wake_request_of(
    service: ServiceView, before: InferenceServiceStatus, limits: Limits, replicas: tuple[Replica, ...], now: float
) -> WakeRequest:
    """The wake request of a service. `before` is its previous status."""
    text, after_seconds = service.wake_requested_at, limits.to_zero_after_seconds
    if not text or after_seconds is None:
        return NO_REQUEST
    asked_at = unix_seconds(text)
    if asked_at is None:
        return WakeRequest(problem=_unreadable(text))
    if asked_at > now + CLOCK_SKEW_SECONDS:
        return WakeRequest(problem=_in_the_future(text))
    if _was_answered(text, asked_at, before):
        return NO_REQUEST
    return woken(asked_at, _serving_since(replicas), after_seconds, now)


def answered_wake(service: ServiceView, now: float) -> str:
    """The answered request to remember when the service goes to zero."""
    asked_at = unix_seconds(service.wake_requested_at)
    return service.wake_requested_at if asked_at is not None and asked_at <= now + CLOCK_SKEW_SECONDS else ""


def woken(asked_at: float, serving_since: float | None, after_seconds: float, now: float) -> WakeRequest:
    """The floor of one replica that an open request asks for. It ends scaleToZeroAfter after the replica became Ready,
    or after the request if that was later."""
    because = f"a replica was requested at {rfc3339(asked_at)}"
    if serving_since is None:
        return WakeRequest(Proposal(1, "woken", f"{because}; it is kept for {seconds(after_seconds)} once it is Ready"))
    until = max(asked_at, serving_since) + after_seconds
    if now >= until:
        return NO_REQUEST
    return WakeRequest(Proposal(1, "woken", f"{because}; it is kept until {rfc3339(until)}"), until)


def _was_answered(text: str, asked_at: float, before: InferenceServiceStatus) -> bool:
    zero = before.scaled_to_zero
    if zero is None:
        return False
    since = unix_seconds(zero.since)
    return text == zero.answered_wake or (since is not None and asked_at < since - CLOCK_SKEW_SECONDS)


def _serving_since(replicas: tuple[Replica, ...]) -> float | None:
    """Since when the longest-serving replica has served; None when none serves."""
    serving = [replica for replica in replicas if replica.state is ReplicaState.SERVING]
    return min((replica.ready_since for replica in serving), default=None)


def _unreadable(text: str) -> SpecProblem:
    shown = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
    return SpecProblem(
        Reason.WAKE_REQUEST_INVALID,
        f'metadata.annotations["{WAKE_REQUESTED_AT}"]: "{shown}" is not a time with a zone, so it wakes nothing; '
        "use `forebay wake`, or a time such as 2026-01-31T08:00:00Z.",
    )


def _in_the_future(text: str) -> SpecProblem:
    return SpecProblem(
        Reason.WAKE_REQUEST_INVALID,
        f'metadata.annotations["{WAKE_REQUESTED_AT}"]: "{text}" is more than {seconds(CLOCK_SKEW_SECONDS)} in the '
        "future, so it wakes nothing yet; use `forebay wake`, or correct the clock.",
    )


def first_start(limits: Limits, before: InferenceServiceStatus) -> Proposal | None:
    """A floor of one for a service without any past decision. A new service thus starts once before it goes to zero,
    which shows that it can start."""
    if limits.to_zero_after_seconds is None or before.decision is not None:
        return None
    return Proposal(1, "first_start", "the service is new, and must start once before it can scale to zero")
