"""Revisions: the pod-affecting fields of a spec, resolved once and kept as ControllerRevisions.

Pods are built from a stored revision, never from the spec, so neither a new operator nor a new default changes a
running service. Two hashes tell what moved: `spec_hash` is of what the user wrote, and its change asks for a rollout;
`hash` is of everything it resolved to, and its change alone means that an update is available.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic import ValidationError

from forebay.api.inference_service import InferenceServiceSpec
from forebay.api.labels import REVISION, SPEC_HASH
from forebay.api.schema.base_model import Model
from forebay.workloads.canonical_json import canonical_json, short_hash, without_empty
from forebay.workloads.objects.ownership import Owner, child_metadata
from forebay.workloads.objects.placeholder import place_of
from forebay.workloads.objects.pod_template import CONTAINER, node_selector, pod_template
from forebay.workloads.objects.ranks import worker_template
from forebay.workloads.objects.template_merge import merge_template
from forebay.workloads.spec.engine_versions import Defaults, ResolvedEngine, resolve_engine
from forebay.workloads.spec.planned_sizes import Sizing
from forebay.workloads.spec.spec_problems import Submission, problems_of, warnings_of
from forebay.world.world import ReplicaShape, Revision, SpecProblem

HASH_LENGTH: Final = 7
"""33 bits, told apart only within one service; part of pod names."""
SPEC_HASH_LENGTH: Final = 13
POD_FIELDS: Final[Mapping[str, Any]] = {
    "model": True,
    "engine": True,
    "gpu": True,
    "pod": True,
    "rollout": {"drain_timeout": True},
}
"""Fields of a spec that reach its pods; the drain time-out as `--shutdown-timeout` and as the grace period."""
PLAN_FIELDS: Final[Mapping[str, Any]] = {
    "model": {"architecture": True},
    "engine": {"speculative": {"acceptance_percent": True, "draft_cost_percent": True}},
}
"""Fields beside them that only the capacity plan reads."""


def resolve(
    spec: InferenceServiceSpec,
    owner: Owner,
    restarted_at: str | None = None,
    defaults: Defaults | None = None,
    template: Mapping[str, Any] | None = None,
    sizing: Sizing | None = None,
    variant: str = "",
) -> Revision | tuple[SpecProblem, ...]:
    """What the spec means with today's operator, or why it means nothing that could run.

    `restarted_at` is the service's annotation `forebay.dev/restarted-at`; `template` is the `template` field of the
    PodTemplate that `spec.pod.templateRef` names, or None when there is none; `sizing` fills what the spec leaves open.
    `variant` is the name of the variant that the spec has been made by; each has revisions of its own, even where two
    of them come to the same pod.
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
    """Sizes that the spec gives stay; the plan was made with them."""
    engine = replace(engine, max_num_batched_tokens=sizing.max_num_batched_tokens)
    if spec.engine.tensor_parallel_size is not None or sizing.tensor_parallel_size is None:
        return engine
    return replace(
        engine,
        tensor_parallel_size=sizing.tensor_parallel_size,
        pipeline_parallel_size=sizing.pipeline_parallel_size or engine.pipeline_parallel_size,
    )


def warnings(spec: InferenceServiceSpec, defaults: Defaults | None = None) -> tuple[SpecProblem, ...]:
    """What people should know of a spec that runs all the same."""
    return warnings_of(Submission(spec, resolve_engine(spec.engine, defaults or Defaults())))


def spec_hash(spec: InferenceServiceSpec, restarted_at: str | None, variant: str = "") -> str:
    """Of the pod-affecting fields that were written, as they were written.

    Fields that were left out do not take part: a release that fills them differently, or knows more of them, must not
    look like a change by the user.
    """
    written = spec.model_dump(
        mode="json", by_alias=True, include=dict(POD_FIELDS), exclude=dict(PLAN_FIELDS), exclude_unset=True
    )
    said = {"spec": without_empty(written), "restartedAt": restarted_at, **({"variant": variant} if variant else {})}
    return short_hash(canonical_json(said), SPEC_HASH_LENGTH)


def revision_name(owner: Owner, revision_hash: str) -> str:
    return f"{owner.key.name}-{owner.short_uid}-{revision_hash}"


def controller_revision(owner: Owner, revision: Revision, number: int) -> dict[str, Any]:
    """The object to create; the API server keeps its `data` from changing."""
    metadata = child_metadata(owner, revision_name(owner, revision.hash))
    metadata["labels"][REVISION] = revision.hash
    metadata["annotations"] = {SPEC_HASH: revision.spec_hash}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata,
        "revision": number,
        "data": json.loads(revision.data),
    }


def read_revision(
    *, name: str, labels: Mapping[str, str], annotations: Mapping[str, str], number: int, data: Mapping[str, Any]
) -> Revision | None:
    """A stored ControllerRevision; None for one that `controller_revision` did not write.

    Other operators keep theirs under the same kind.
    """
    revision_hash = labels.get(REVISION)
    if revision_hash is None or "pod" not in data:
        return None
    try:
        shape = _Shape.model_validate(data.get("shape")).to_replica_shape()
    except ValidationError:
        return None
    return Revision(
        hash=revision_hash,
        spec_hash=annotations.get(SPEC_HASH, ""),
        shape=shape,
        data=canonical_json(data),
        number=number,
        name=name,
        place=place_of(data["pod"], shape.gpus_per_pod),
        variant=str(data.get("variant", "")),
    )


def engine_version(revision: Revision) -> str:
    """The vLLM version that the revision's pods run; metric names depend on it."""
    return str(json.loads(revision.data)["engine"]["version"])


class _Shape(Model):
    pods: int
    gpus_per_pod: int
    resource_name: str
    node_selector: dict[str, str]

    def to_replica_shape(self) -> ReplicaShape:
        return ReplicaShape(
            pods=self.pods,
            gpus_per_pod=self.gpus_per_pod,
            resource_name=self.resource_name,
            node_selector=tuple(sorted(self.node_selector.items())),
        )


def _shape(spec: InferenceServiceSpec, engine: ResolvedEngine) -> _Shape:
    return _Shape(
        pods=engine.nodes,
        gpus_per_pod=engine.gpus_per_pod,
        resource_name=spec.gpu.resource_name,
        node_selector=node_selector(spec),
    )
