"""A service's own objects besides its pods: its Services and its PodDisruptionBudget."""

from collections.abc import Iterable

from forebay.api.inference_service import InferenceServiceSpec
from forebay.api.reasons import Reason
from forebay.world.plan import ApplyChildren
from forebay.world.world import ChildView, ReplicaShape, ServiceView, SpecProblem


def min_available(spec: InferenceServiceSpec, shape: ReplicaShape) -> int:
    """Of the budget, in pods: as many as can ever serve at once, so that none of them is evicted."""
    return (spec.scaling.max_replicas + spec.rollout.max_surge) * shape.pods


def widest(service: ServiceView, own: ReplicaShape) -> ReplicaShape:
    """Of the shapes of a service the one of the most pods; `own` is the service's own."""
    shapes = (own, *(variant.wanted.shape for variant in service.variants))
    return max(shapes, key=lambda shape: shape.pods)


def repair(service: ServiceView, live: Iterable[ChildView], shape: ReplicaShape) -> tuple[ApplyChildren, ...]:
    """Writes again what is missing or was changed by hand. `shape` is the service's own."""
    if service.spec is None:
        return ()
    found = {(child.kind, child.namespace, child.name): child for child in live}
    kinds = [
        wanted.kind
        for wanted in service.children
        if (there := found.get((wanted.kind, wanted.namespace, wanted.name))) is None
        or (there.owner_uid == service.uid and there.fingerprint != wanted.fingerprint)
    ]
    if not kinds:
        return ()
    shape = widest(service, shape)
    return (ApplyChildren(min_available(service.spec, shape), tuple(sorted(set(kinds))), groups=shape.pods > 1),)


def names_taken(service: ServiceView, live: Iterable[ChildView]) -> tuple[SpecProblem, ...]:
    """Objects of the names we need that belong to somebody else. They are not touched."""
    wanted = {(child.kind, child.namespace, child.name) for child in service.children}
    foreign = sorted(
        (child.kind, child.name)
        for child in live
        if (child.kind, child.namespace, child.name) in wanted and child.owner_uid != service.uid
    )
    return tuple(
        SpecProblem(
            Reason.NAME_TAKEN,
            f'metadata.name: the {kind} "{name}" exists and is not ours, so the service cannot be reached by its name; '
            f"delete that {kind}, or give the InferenceService another name.",
        )
        for kind, name in foreign
    )
