"""Feedback: what the API server refused, kept so that the next plan can take it into account."""

from dataclasses import dataclass, field

from forebay.api.reasons import Reason
from forebay.world.world import ChildView, Refusal

REFUSALS_KEPT_SECONDS = 600.0
FOREIGN_KEPT_SECONDS = 60.0
"""After which we look again whether the name is still somebody else's."""


@dataclass(slots=True)
class Feedback:
    """All times are the caller's, in unix seconds."""

    _refusals: dict[tuple[str, str], Refusal] = field(default_factory=dict)
    """By service uid and pod name."""
    _foreign: dict[tuple[str, str, str], tuple[float, ChildView]] = field(default_factory=dict)
    """By kind, namespace and name, with the time it was seen."""

    def refused(self, refusal: Refusal) -> None:
        """A pod was not created."""
        self._refusals[refusal.service_uid, refusal.pod_name] = refusal

    def created(self, service_uid: str, pod_name: str, now: float, *, placeholder: bool = False) -> None:
        """A pod was created: what was refused in earlier ticks for want of room explains nothing any more.

        A placeholder that was created says nothing of replicas, nor the other way round.
        """
        self._refusals = {
            key: refusal
            for key, refusal in self._refusals.items()
            if key != (service_uid, pod_name)
            and (
                (refusal.service_uid, refusal.placeholder) != (service_uid, placeholder)
                or refusal.reason == Reason.NAME_TAKEN
                or refusal.at >= now
            )
        }

    def foreign(self, child: ChildView, now: float) -> None:
        """A name that one of our services needs belongs to somebody else's object."""
        self._foreign[child.kind, child.namespace, child.name] = (now, child)

    def refusals(self, now: float) -> tuple[Refusal, ...]:
        self._refusals = {
            key: refusal for key, refusal in self._refusals.items() if now - refusal.at < REFUSALS_KEPT_SECONDS
        }
        return tuple(self._refusals.values())

    def foreign_children(self, now: float) -> tuple[ChildView, ...]:
        self._foreign = {
            key: (at, child) for key, (at, child) in self._foreign.items() if now - at < FOREIGN_KEPT_SECONDS
        }
        return tuple(child for _, child in self._foreign.values())
