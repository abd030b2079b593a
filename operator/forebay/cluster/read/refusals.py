"""Refusals of the API server, remembered so that the next plan can take them into account."""

from dataclasses import dataclass, field

from forebay.api.reasons import Reason
from forebay.world.world import ChildKey, ChildView, Refusal

REFUSALS_KEPT_SECONDS = 600.0
FOREIGN_KEPT_SECONDS = 60.0
"""After this time Forebay tries again whether the name is free."""


@dataclass(slots=True)
class Refusals:
    """Refused pods and names in use by foreign objects. The caller gives all times, in unix seconds."""

    _pods: dict[tuple[str, str], Refusal] = field(default_factory=dict)
    """By service uid and pod name."""
    _foreign: dict[ChildKey, tuple[float, ChildView]] = field(default_factory=dict)
    """Foreign objects with the time of the refusal, by kind, namespace and name."""

    def add(self, refusal: Refusal) -> None:
        """Remember that a pod was not created."""
        self._pods[refusal.service_uid, refusal.pod_name] = refusal

    def pod_created(self, service_uid: str, pod_name: str, now: float, *, placeholder: bool = False) -> None:
        """Forget the service's earlier refusals for lack of capacity, since one of its pods was created.

        Replicas and placeholders are separate: the creation of one does not clear the refusals of the other.
        """
        self._pods = {
            key: refusal
            for key, refusal in self._pods.items()
            if key != (service_uid, pod_name)
            and (
                (refusal.service_uid, refusal.placeholder) != (service_uid, placeholder)
                or refusal.reason == Reason.NAME_TAKEN
                or refusal.at >= now
            )
        }

    def add_foreign(self, child: ChildView, now: float) -> None:
        """Remember that a foreign object has a name that one of our services needs."""
        self._foreign[child.child_key] = (now, child)

    def clear(self) -> None:
        """Forget all refusals, when their times can no longer be compared with the present."""
        self._pods, self._foreign = {}, {}

    def of_pods(self, now: float) -> tuple[Refusal, ...]:
        self._pods = {key: refusal for key, refusal in self._pods.items() if now - refusal.at < REFUSALS_KEPT_SECONDS}
        return tuple(self._pods.values())

    def foreign_children(self, now: float) -> tuple[ChildView, ...]:
        self._foreign = {
            key: (at, child) for key, (at, child) in self._foreign.items() if now - at < FOREIGN_KEPT_SECONDS
        }
        return tuple(child for _, child in self._foreign.values())
