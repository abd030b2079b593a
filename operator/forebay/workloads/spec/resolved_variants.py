"""Variants resolved: what each way to run a service would run, and why one cannot be used."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from forebay.api.inference_service import InferenceServiceSpec, VariantSpec
from forebay.api.reasons import Reason
from forebay.api.schema.validation_errors import validation_messages
from forebay.capacity.model.profile_choice import GivenProfile
from forebay.capacity.plan.plan_input import with_variant
from forebay.workloads.objects.ownership import Owner
from forebay.workloads.spec.engine_versions import Defaults
from forebay.workloads.spec.planned_sizes import sizing_of
from forebay.workloads.spec.resolve import resolve
from forebay.world.world import Revision, SpecProblem, VariantView


def resolved_variants(
    spec: InferenceServiceSpec,
    owner: Owner,
    restarted_at: str | None,
    defaults: Defaults | None,
    template: Mapping[str, Any] | None,
    profiles: Iterable[GivenProfile],
) -> tuple[tuple[VariantView, ...], tuple[SpecProblem, ...]]:
    """Those that mean something that could run, and what people should know of all of them."""
    views: list[VariantView] = []
    told: list[SpecProblem] = []
    given = tuple(profiles)
    for variant in spec.variants:
        found = _resolved(with_variant(spec, variant), variant, owner, restarted_at, defaults, template, given)
        if isinstance(found, VariantView):
            views.append(found)
            told += _about(variant, found.misfits, "so it is used only where it has run before")
        else:
            told += _about(variant, found, "so it is not used")
    return tuple(views), tuple(told)


def _resolved(
    spec: InferenceServiceSpec,
    variant: VariantSpec,
    owner: Owner,
    restarted_at: str | None,
    defaults: Defaults | None,
    template: Mapping[str, Any] | None,
    profiles: tuple[GivenProfile, ...],
) -> VariantView | tuple[SpecProblem, ...]:
    try:
        InferenceServiceSpec.model_validate(spec.model_dump(mode="json", by_alias=True, exclude_unset=True))
    except ValidationError as error:
        return tuple(SpecProblem(Reason.VARIANT_INVALID, fault) for fault in validation_messages(error, "spec"))
    sizing = sizing_of(spec, defaults, profiles)
    found = resolve(spec, owner, restarted_at, defaults, template, sizing, variant.name)
    return VariantView(found, sizing.replica_capacity, sizing.misfits) if isinstance(found, Revision) else found


def _about(variant: VariantSpec, problems: Iterable[SpecProblem], consequence: str) -> list[SpecProblem]:
    """The problem's reason stays, since its page says what to do; the sentence begins with the variant."""
    return [
        SpecProblem(each.reason, f'spec.variants: "{variant.name}": {each.message.rstrip(".")}, {consequence}.')
        for each in problems
    ]
