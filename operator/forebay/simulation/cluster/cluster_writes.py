"""The effect of a plan's actions on a simulated cluster, in one place for every model of pods.

It keeps the guarantees of an API server that planning relies on: a write to an outdated version is refused, and a name
is taken until its pod is gone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import assert_never

from forebay.api.labels import GROUP_GATE
from forebay.world.plan import (
    Action,
    AdoptPod,
    ApplyChildren,
    CancelDrain,
    CreatePlaceholder,
    CreatePod,
    DeletePlaceholder,
    DeletePod,
    DeleteRevision,
    LiftGate,
    StartDrain,
    StoreRevision,
)
from forebay.world.world import ChildView, PodView, Revision, ServiceView, WarmPoolView

Owner = ServiceView | WarmPoolView
"""The service or WarmPool whose plan contains an action."""
Write = AdoptPod | LiftGate | StartDrain | CancelDrain | DeletePod | DeletePlaceholder
"""Actions on an existing pod, valid for one resourceVersion of it."""


class ClusterWrites(ABC):
    """Keeps revisions and children; a subclass that holds the pods creates, changes and ends them."""

    revisions: dict[str, list[Revision]]
    """Stored revisions by uid of the service."""
    children: list[ChildView]

    @abstractmethod
    def wall_clock(self) -> float:
        """Unix seconds."""

    @abstractmethod
    def pod_view(self, namespace: str, name: str) -> PodView | None:
        """A pod or a placeholder; None when the name is free."""

    @abstractmethod
    def create_pod(self, owner: Owner, action: CreatePod) -> None: ...

    @abstractmethod
    def create_placeholder(self, owner: Owner, action: CreatePlaceholder) -> None: ...

    @abstractmethod
    def change_pod(self, pod: PodView) -> None:
        """Replace the stored pod."""

    @abstractmethod
    def end_pod(self, pod: PodView, action: DeletePod) -> None: ...

    @abstractmethod
    def remove_placeholder(self, pod: PodView) -> None:
        """Remove a placeholder at once, since nothing runs in it."""

    def refused(self, action: Action) -> None:  # noqa: B027 - subclasses need not count refusals
        """Called when a write is refused because the object had changed or the name was taken."""

    def write(self, owner: Owner, action: Action) -> None:
        """Apply one action of a plan, with the effect that `cluster.write.apply` has."""
        match action:
            case StoreRevision():
                kept = [r for r in self.revisions.get(owner.uid, []) if r.hash != action.revision.hash]
                stored = replace(action.revision, name=f"revision-{action.revision.hash}")
                self.revisions[owner.uid] = [*kept, stored]
            case DeleteRevision():
                self.revisions[owner.uid] = [r for r in self.revisions[owner.uid] if r.name != action.name]
            case ApplyChildren():
                self._apply_children(owner, action)
            case CreatePod():
                self.create_pod(owner, action)
            case CreatePlaceholder():
                self.create_placeholder(owner, action)
            case AdoptPod() | LiftGate() | StartDrain() | CancelDrain() | DeletePod() | DeletePlaceholder():
                self._write_pod(owner, action)
            case _:
                assert_never(action)

    def _apply_children(self, owner: Owner, action: ApplyChildren) -> None:
        assert isinstance(owner, ServiceView), "a WarmPool has no children of a service"
        self.children = [c for c in self.children if c.kind not in action.kinds or c.name != owner.key.name]
        self.children += [child for child in owner.children if child.kind in action.kinds]

    def _write_pod(self, owner: Owner, action: Write) -> None:
        pod = self.pod_view(owner.key.namespace, action.name)
        if pod is None or (pod.uid, pod.resource_version) != (action.uid, action.resource_version):
            self.refused(action)
            return
        assert (pod.place is not None) == isinstance(action, DeletePlaceholder), "a placeholder is no replica"
        match action:
            case DeletePlaceholder():
                self.remove_placeholder(pod)
            case DeletePod():
                self.end_pod(pod, action)
            case LiftGate():
                self.change_pod(replace(pod, gates=action.gates, blocked=None, blocked_message=""))
            case CancelDrain():
                self.change_pod(replace(pod, serving=True, drain_started_at=None, drain_reason=None))
            case StartDrain():
                self.change_pod(self._draining(pod, action.reason))
            case AdoptPod():
                adopted = replace(pod, owner_uid=owner.uid)
                reason = action.drain_reason
                self.change_pod(adopted if reason is None else self._draining(adopted, reason))
            case _:
                assert_never(action)

    def _draining(self, pod: PodView, reason: str) -> PodView:
        return replace(pod, serving=False, drain_started_at=self.wall_clock(), drain_reason=reason)


def new_pod(owner: Owner, action: CreatePod | CreatePlaceholder, uid: str, now: float) -> PodView:
    """A pod as the API server stores it right after its creation."""
    pod = PodView(
        key=owner.key,
        name=action.name,
        uid=uid,
        resource_version="1",
        owner_uid=owner.uid,
        service_uid=owner.uid,
        revision="",
        ordinal=-1,
        rank=0,
        serving=False,
        created_at=now,
        phase="Pending",
        gpus=0,
    )
    match action:
        case CreatePlaceholder():
            return replace(pod, gpus=action.place.gpus, place=action.place.hash)
        case CreatePod():
            shape = action.revision.shape
            return replace(
                pod,
                revision=action.revision.hash,
                ordinal=action.ordinal,
                rank=action.rank,
                serving=True,
                gpus=shape.gpus_per_pod,
                gates=(GROUP_GATE,) if shape.pods > 1 else (),
            )
        case _:
            assert_never(action)
