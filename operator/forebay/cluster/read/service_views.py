"""ServiceViews: the InferenceServices for the planner; a spec is resolved again only when its inputs change.

Resolving a spec costs milliseconds, a tick comes every five seconds, and specs change a few times a day. A service that
was not written at all since the last tick keeps its view, as the identical object.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pydantic import ValidationError

from forebay.api.inference_service import InferenceServiceSpec, InferenceServiceStatus
from forebay.api.labels import RESTARTED_AT, WAKE_REQUESTED_AT
from forebay.api.reasons import Reason
from forebay.api.schema.validation_errors import validation_messages
from forebay.capacity.model.profile_choice import GivenProfile
from forebay.cluster.read.pod_templates import NO_TEMPLATE, Template
from forebay.cluster.read.projections import InferenceServiceObject, unix_seconds
from forebay.workloads.objects.child_objects import wanted_children
from forebay.workloads.objects.ownership import Owner
from forebay.workloads.spec.engine_versions import Defaults
from forebay.workloads.spec.planned_sizes import Sizing, sizing_of
from forebay.workloads.spec.resolve import resolve, warnings
from forebay.workloads.spec.resolved_variants import resolved_variants
from forebay.world.world import ChildView, Revision, ServiceKey, ServiceView, SpecProblem, VariantView

log = logging.getLogger(__name__)
NO_STATUS = InferenceServiceStatus()
UNSIZED = Sizing()


@dataclass(frozen=True, slots=True)
class _Basis:
    """The inputs of a resolved spec."""

    generation: int
    restarted_at: str | None
    template: Template
    profiles: tuple[GivenProfile, ...]


@dataclass(frozen=True, slots=True)
class _Resolved:
    spec: InferenceServiceSpec | None
    wanted: Revision | None
    problems: tuple[SpecProblem, ...]
    children: tuple[ChildView, ...] = ()
    warnings: tuple[SpecProblem, ...] = ()
    sizing: Sizing = UNSIZED
    variants: tuple[VariantView, ...] = ()


class ServiceViews:
    def __init__(self, defaults: Defaults | None = None) -> None:
        """`defaults` apply to services that name neither an engine version nor an image."""
        self._defaults = defaults
        self._remembered: dict[str, tuple[_Basis, _Resolved]] = {}
        self._views: dict[str, tuple[Template, tuple[GivenProfile, ...], ServiceView]] = {}
        self.resolutions = 0
        """How many specs were resolved, that is, not taken from memory."""

    def view(
        self,
        stored: InferenceServiceObject,
        template: Template = NO_TEMPLATE,
        profiles: tuple[GivenProfile, ...] = (),
    ) -> ServiceView:
        metadata = stored.metadata
        cached = self._views.get(metadata.uid)
        if cached is not None and cached[:2] == (template, profiles):
            view = cached[2]
            if view.resource_version == metadata.resource_version:
                return view
        view = self._read(stored, template, profiles)
        self._views[metadata.uid] = (template, profiles, view)
        return view

    def _read(
        self, stored: InferenceServiceObject, template: Template, profiles: tuple[GivenProfile, ...]
    ) -> ServiceView:
        metadata = stored.metadata
        owner = Owner(ServiceKey(metadata.namespace, metadata.name), metadata.uid)
        basis = _Basis(metadata.generation, (metadata.annotations or {}).get(RESTARTED_AT), template, profiles)
        known = self._remembered.get(metadata.uid)
        if known is None or known[0] != basis:
            known = (basis, self._resolved(stored, owner, basis))
            self._remembered[metadata.uid] = known
        resolved = known[1]
        deleting = metadata.deletion_timestamp is not None
        return ServiceView(
            key=owner.key,
            uid=owner.uid,
            generation=metadata.generation,
            created_at=unix_seconds(metadata.creation_timestamp) or 0.0,
            deleting=deleting,
            spec=resolved.spec,
            status=_status(stored),
            wanted=resolved.wanted,
            problems=resolved.problems,
            children=() if deleting else resolved.children,
            resource_version=metadata.resource_version,
            warnings=resolved.warnings,
            misfits=resolved.sizing.misfits,
            plan=resolved.sizing.plan,
            capacity_status=resolved.sizing.replica,
            replica_capacity=resolved.sizing.replica_capacity,
            variants=resolved.variants,
            wake_requested_at=(metadata.annotations or {}).get(WAKE_REQUESTED_AT, ""),
        )

    def keep_only(self, uids: Iterable[str]) -> None:
        """Forget all services but these."""
        kept = set(uids)
        self._remembered = {uid: known for uid, known in self._remembered.items() if uid in kept}
        self._views = {uid: cached for uid, cached in self._views.items() if uid in kept}

    def _resolved(self, stored: InferenceServiceObject, owner: Owner, basis: _Basis) -> _Resolved:
        """The resolved spec. An error in it is a problem of its own service, and the tick goes on for the others."""
        try:
            return self._resolve(stored, owner, basis)
        except Exception as error:
            log.exception("resolving the spec of %s failed", owner.key)
            message = f"Resolving the spec failed, so its replicas are left unchanged: {type(error).__name__}: {error}"
            return _Resolved(None, None, (SpecProblem(Reason.PLANNING_FAILED, message),))

    def _resolve(self, stored: InferenceServiceObject, owner: Owner, basis: _Basis) -> _Resolved:
        self.resolutions += 1
        try:
            spec = InferenceServiceSpec.model_validate(stored.spec or {})
        except ValidationError as error:
            # The API server accepted the spec, so it was written for another version of the API.
            return _Resolved(
                None,
                None,
                tuple(SpecProblem(Reason.SPEC_INVALID, fault) for fault in validation_messages(error, "spec")),
            )
        if basis.template.problem is not None:
            return _Resolved(spec, None, (basis.template.problem,))
        sizing = sizing_of(spec, self._defaults, basis.profiles)
        resolved = resolve(spec, owner, basis.restarted_at, self._defaults, basis.template.content, sizing)
        if not isinstance(resolved, Revision):
            return _Resolved(spec, None, resolved, sizing=sizing)
        variants, variant_warnings = resolved_variants(
            spec, owner, basis.restarted_at, self._defaults, basis.template.content, basis.profiles
        )
        view = ServiceView(owner.key, owner.uid, basis.generation, 0.0, False, spec, NO_STATUS, resolved)
        children = wanted_children(replace(view, variants=variants))
        all_warnings = (*warnings(spec, self._defaults), *sizing.warnings, *variant_warnings)
        return _Resolved(spec, resolved, (), children, all_warnings, sizing, variants)


def same_intent(old: InferenceServiceObject, new: InferenceServiceObject) -> bool:
    """Whether the two ask for the same: status and resourceVersion apart, which our own writes change."""
    return _asked_for(old) == _asked_for(new)


def _asked_for(stored: InferenceServiceObject) -> tuple[object, ...]:
    metadata = stored.metadata
    return metadata.uid, metadata.generation, metadata.deletion_timestamp, metadata.annotations


def template_name(stored: InferenceServiceObject) -> str | None:
    """The PodTemplate that the spec names, read without validating the rest of the spec."""
    pod = (stored.spec or {}).get("pod")
    name = pod.get("templateRef") if isinstance(pod, dict) else None
    return name if isinstance(name, str) and name else None


def _status(stored: InferenceServiceObject) -> InferenceServiceStatus:
    """The stored status; an empty one when it cannot be read, since Forebay writes it again anyway."""
    try:
        return InferenceServiceStatus.model_validate(stored.status or {})
    except ValidationError:
        return NO_STATUS
