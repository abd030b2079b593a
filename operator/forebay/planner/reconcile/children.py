"""A service's own objects besides its pods: its Services and its PodDisruptionBudget."""

from collections.abc import Iterable

from forebay.world.plan import ApplyChildren
from forebay.world.world import ChildView, ServiceView


def repair(service: ServiceView, live: Iterable[ChildView]) -> tuple[ApplyChildren, ...]:
    """Writes again what is missing or was changed by hand."""
    found = {(child.kind, child.namespace, child.name): child for child in live}
    kinds = {
        wanted.kind
        for wanted in service.children
        if (there := found.get((wanted.kind, wanted.namespace, wanted.name))) is None
        or (there.owner_uid == service.uid and there.fingerprint != wanted.fingerprint)
    }
    if not kinds:
        return ()
    bodies = tuple(child.body for child in service.children if child.kind in kinds and child.body is not None)
    return (ApplyChildren(tuple(sorted(kinds)), bodies),)
