"""Resolved variants: the revision of each variant of a service, or the reason why the variant cannot be used."""

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
    """The variants that could run, and the problems of all variants."""
    views: list[VariantView] = []
    problems: list[SpecProblem] = []
    given = tuple(profiles)
    for variant in spec.variants:
        result = _resolved(with_variant(spec, variant), variant, owner, restarted_at, defaults, template, given)
        if isinstance(result, VariantView):
            views.append(result)
            problems += _about(variant, result.misfits, "so it is used only where it has run before")
        else:
            problems += _about(variant, result, "so it is not used")
    return tuple(views), tuple(problems)


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
    result = resolve(spec, owner, restarted_at, defaults, template, sizing, variant.name)
    return VariantView(result, sizing.replica_capacity, sizing.misfits) if isinstance(result, Revision) else result


def _about(variant: VariantSpec, problems: Iterable[SpecProblem], consequence: str) -> list[SpecProblem]:
    """The problems with the variant's name before the message. The reason stays, since its page says what to do."""
    return [
        SpecProblem(problem.reason, f'spec.variants: "{variant.name}": {problem.message.rstrip(".")}, {consequence}.')
        for problem in problems
    ]
