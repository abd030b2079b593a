"""A service's own objects besides its pods: its Services and its PodDisruptionBudget."""

from collections.abc import Mapping

from forebay.world.plan import ApplyChildren
from forebay.world.world import ChildKey, ChildView, ServiceView


def repair(service: ServiceView, live: Mapping[ChildKey, ChildView]) -> tuple[ApplyChildren, ...]:
    """The write of all children of each kind of which one is missing or was changed by hand."""
    kinds = {
        wanted.kind
        for wanted in service.children
        if (present := live.get(wanted.child_key)) is None
        or (present.owner_uid == service.uid and present.fingerprint != wanted.fingerprint)
    }
    if not kinds:
        return ()
    bodies = tuple(child.body for child in service.children if child.kind in kinds and child.body is not None)
    return (ApplyChildren(tuple(sorted(kinds)), bodies),)
