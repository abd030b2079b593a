"""Resolve: turns the pod-affecting fields of a spec into a revision.

Pods are built from a stored revision, never from the spec, so neither a new operator nor a new default changes a
running service. A revision has two hashes. `spec_hash` covers what the user wrote; its change starts a rollout. `hash`
covers everything that the spec resolves to; its change alone means that an update is available.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from forebay.api.inference_service import InferenceServiceSpec
from forebay.workloads.canonical_json import canonical_json, short_hash, without_empty
from forebay.workloads.objects.controller_revision import RevisionShape
from forebay.workloads.objects.ownership import Owner
from forebay.workloads.objects.placeholder import place_of
from forebay.workloads.objects.pod_template import CONTAINER, node_selector, pod_template
from forebay.workloads.objects.ranks import worker_template
from forebay.workloads.objects.template_merge import merge_template
from forebay.workloads.spec.engine_versions import Defaults, ResolvedEngine, resolve_engine
from forebay.workloads.spec.planned_sizes import Sizing
from forebay.workloads.spec.quantities import canonical
from forebay.workloads.spec.spec_problems import Submission, problems_of, warnings_of
from forebay.world.world import Revision, SpecProblem

HASH_LENGTH: Final = 7
"""33 bits, which have to be unique only within one service; part of pod names."""
SPEC_HASH_LENGTH: Final = 13
POD_FIELDS: Final[Mapping[str, Any]] = {
    "model": True,
    "engine": True,
    "gpu": True,
    "pod": True,
    "rollout": {"drain_timeout": True},
}
"""Fields of a spec that affect its pods. The drain timeout sets `--shutdown-timeout` and the grace period."""
PLAN_FIELDS: Final[Mapping[str, Any]] = {
    "model": {"architecture": True},
    "engine": {"speculative": {"acceptance_percent": True, "draft_cost_percent": True}},
}
"""Fields within `POD_FIELDS` that only the capacity plan reads."""


def resolve(
    spec: InferenceServiceSpec,
    owner: Owner,
    restarted_at: str | None = None,
    defaults: Defaults | None = None,
    template: Mapping[str, Any] | None = None,
    sizing: Sizing | None = None,
    variant: str = "",
) -> Revision | tuple[SpecProblem, ...]:
    """The revision of the spec with this operator's defaults, or the problems that keep it from running.

    `restarted_at` is the service's annotation `forebay.dev/restarted-at`. `template` is the `template` field of the
    PodTemplate that `spec.pod.templateRef` names, or None when there is none. `sizing` fills what the spec leaves open.
    `variant` is the name of the variant that was merged into the spec; each variant has its own revisions, even where
    two of them give the same pod.
    """
    engine = _sized(resolve_engine(spec.engine, defaults or Defaults()), spec, sizing or Sizing())
    problems = problems_of(Submission(spec, engine, template))
    if problems:
        return problems
    pod = pod_template(spec, owner, engine, restarted_at)
    if template is not None:
        pod = merge_template(pod, template)
    shape = _shape(spec, engine)
    resolved: dict[str, Any] = {
        "engine": {"version": engine.version},
        "shape": shape.model_dump(by_alias=True),
        "pod": pod,
    }
    if engine.nodes > 1:
        resolved["worker"] = worker_template(pod, CONTAINER)
    if variant:
        resolved["variant"] = variant
    data = canonical_json(resolved)
    return Revision(
        hash=short_hash(data, HASH_LENGTH),
        spec_hash=spec_hash(spec, restarted_at, variant),
        shape=shape.to_replica_shape(),
        data=data,
        place=place_of(pod, shape.gpus_per_pod),
        variant=variant,
    )


def _sized(engine: ResolvedEngine, spec: InferenceServiceSpec, sizing: Sizing) -> ResolvedEngine:
    """The engine with planned sizes. Sizes that the spec gives stay; the plan was made with them."""
    engine = replace(engine, max_num_batched_tokens=sizing.max_num_batched_tokens)
    if spec.engine.tensor_parallel_size is not None or sizing.tensor_parallel_size is None:
        return engine
    return replace(
        engine,
        tensor_parallel_size=sizing.tensor_parallel_size,
        pipeline_parallel_size=sizing.pipeline_parallel_size or engine.pipeline_parallel_size,
    )


def warnings(spec: InferenceServiceSpec, defaults: Defaults | None = None) -> tuple[SpecProblem, ...]:
    """Warnings for a spec that can run."""
    return warnings_of(Submission(spec, resolve_engine(spec.engine, defaults or Defaults())))


def spec_hash(spec: InferenceServiceSpec, restarted_at: str | None, variant: str = "") -> str:
    """Hash of the pod-affecting fields as the user wrote them.

    Fields that the user left out are not included: a release that fills them differently, or adds fields, must not look
    like a change by the user. Quantities are compared by their amount.
    """
    written = spec.model_dump(
        mode="json", by_alias=True, include=dict(POD_FIELDS), exclude=dict(PLAN_FIELDS), exclude_unset=True
    )
    resources = written.get("pod", {}).get("resources") or {}
    resources.update({name: canonical(quantity) for name, quantity in resources.items() if quantity is not None})
    hashed = {"spec": without_empty(written), "restartedAt": restarted_at, **({"variant": variant} if variant else {})}
    return short_hash(canonical_json(hashed), SPEC_HASH_LENGTH)


def _shape(spec: InferenceServiceSpec, engine: ResolvedEngine) -> RevisionShape:
    return RevisionShape(
        pods=engine.nodes,
        gpus_per_pod=engine.gpus_per_pod,
        resource_name=spec.gpu.resource_name,
        node_selector=node_selector(spec),
    )
