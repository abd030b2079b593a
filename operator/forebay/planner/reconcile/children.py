"""A service's own objects besides its pods: its Services and its PodDisruptionBudget."""

from collections.abc import Iterable

from forebay.world.plan import ApplyChildren
from forebay.world.world import ChildView, ServiceView


def repair(service: ServiceView, live: Iterable[ChildView]) -> tuple[ApplyChildren, ...]:
    """The write of all children of each kind of which one is missing or was changed by hand."""
    existing = {(child.kind, child.namespace, child.name): child for child in live}
    kinds = {
        wanted.kind
        for wanted in service.children
        if (present := existing.get((wanted.kind, wanted.namespace, wanted.name))) is None
        or (present.owner_uid == service.uid and present.fingerprint != wanted.fingerprint)
    }
    if not kinds:
        return ()
    bodies = tuple(child.body for child in service.children if child.kind in kinds and child.body is not None)
    return (ApplyChildren(tuple(sorted(kinds)), bodies),)
