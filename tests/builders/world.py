"""Builders of worlds: every argument has a default, so a test names only the values that matter to it."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf
from typing import Any

from forebay.api.duration import Duration
from forebay.api.inference_service import (
    EngineSpec,
    InferenceServiceSpec,
    InferenceServiceStatus,
    ModelSpec,
    RolloutSpec,
    ScalingMode,
    ScalingSpec,
    ScheduleSpec,
    Targets,
    TrafficSpec,
    WarmPoolSpec,
    WhenNoSpare,
)
from forebay.api.reasons import Reason
from forebay.api.status import CapacityStatus, PlanStatus
from forebay.scaling.learning.replica_capacity import ReplicaCapacity
from forebay.scaling.load.signals import EngineSample, HistogramSample, PodSignals
from forebay.world.quota import QuotaView
from forebay.world.settings import Settings
from forebay.world.share_plans import StoredSharePlans
from forebay.world.tenants import TenantQuotaView
from forebay.world.world import (
    ChildView,
    NodeView,
    Place,
    PodView,
    Refusal,
    ReplicaShape,
    Revision,
    ServiceKey,
    ServiceView,
    SpecProblem,
    VariantView,
    WarmPoolView,
    World,
)

NOW = 1_750_000_000.0
"""The usual present of tests: 2025-06-15T15:06:40Z."""
GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"


def uid_of(name: str) -> str:
    """A realistic uid, the same for the same name."""
    digits = hashlib.sha256(name.encode()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:32]}"


def a_spec(
    *,
    min_replicas: int = 1,
    max_replicas: int = 4,
    mode: ScalingMode = ScalingMode.AUTO,
    queue_depth: int = 20,
    kv_cache_percent: int = 80,
    headroom_percent: int = 20,
    scale_up_cooldown: str = "90s",
    scale_down_cooldown: str = "300s",
    warm_replicas: int = 0,
    placeholders: int = 0,
    drain_timeout: str = "300s",
    max_surge: int = 1,
    when_no_spare: WhenNoSpare = WhenNoSpare.AUTO,
    startup_timeout: str = "20m",
    max_num_seqs: int = 256,
    schedules: tuple[ScheduleSpec, ...] = (),
    traffic: TrafficSpec | None = None,
    scale_to_zero_after: str | None = None,
) -> InferenceServiceSpec:
    return InferenceServiceSpec(
        model=ModelSpec(source="hf://example/model-8b"),
        engine=EngineSpec(startup_timeout=Duration(startup_timeout), max_num_seqs=max_num_seqs),
        scaling=ScalingSpec(
            mode=mode,
            min_replicas=min_replicas,
            max_replicas=max_replicas,
            targets=Targets(queue_depth=queue_depth, kv_cache_percent=kv_cache_percent),
            headroom_percent=headroom_percent,
            scale_up_cooldown=Duration(scale_up_cooldown),
            scale_down_cooldown=Duration(scale_down_cooldown),
            scale_to_zero_after=Duration(scale_to_zero_after) if scale_to_zero_after else None,
        ),
        warm_pool=WarmPoolSpec(replicas=warm_replicas, placeholders=placeholders),
        schedules=schedules,
        traffic=traffic,
        rollout=RolloutSpec(drain_timeout=Duration(drain_timeout), max_surge=max_surge, when_no_spare=when_no_spare),
    )


IMAGE = "vllm/vllm-openai:v0.32.0"


def a_shape(*, gpus: int = 1, pods: int = 1, resource_name: str = GPU, product: str = "") -> ReplicaShape:
    selector = ((PRODUCT, product),) if product else ()
    return ReplicaShape(pods=pods, gpus_per_pod=gpus, resource_name=resource_name, node_selector=selector)


def a_revision(
    hash: str = "7f3c",  # noqa: A002 - the field's name
    *,
    spec_hash: str | None = None,
    gpus: int = 1,
    pods: int = 1,
    number: int = 0,
    name: str | None = None,
    place: str = "same",
    product: str = "",
    variant: str = "",
) -> Revision:
    """A revision; with a `number` it is a stored one. `place` is the hash of the place that its pods take, `product`
    the label of the nodes that they may be on."""
    return Revision(
        hash=hash,
        spec_hash=f"spec-{hash}" if spec_hash is None else spec_hash,
        shape=a_shape(gpus=gpus, pods=pods, product=product),
        data=_stored_data(hash, gpus),
        number=number,
        name=(f"revision-{hash}" if number else "") if name is None else name,
        place=a_place(place, gpus),
        variant=variant,
    )


def _stored_data(revision: str, gpus: int) -> str:
    """Stored data of a revision: enough to build a pod that names its revision and requests its GPUs."""
    engine = {"name": "engine", "image": IMAGE, "args": ["serve", revision], "resources": {"limits": {GPU: str(gpus)}}}
    pod = {"metadata": {"annotations": {}}, "spec": {"containers": [engine]}}
    return json.dumps({"engine": {"version": "0.32.0"}, "pod": pod, "worker": pod})


def a_place(hash_: str = "same", gpus: int = 1, image: str = IMAGE) -> Place:
    """A place whose placeholder can be built."""
    container = {"name": "engine", "image": image, "resources": {"limits": {GPU: str(gpus)}}}
    data = {"spec": {"nodeSelector": {"place": hash_}}, "spread": [], "container": container}
    return Place(hash_, gpus, json.dumps(data), image)


def a_variant(
    name: str, *, product: str = "", replica_capacity: ReplicaCapacity | None = None, **fields: Any
) -> VariantView:
    """A variant. By default its revision has the same name; `fields` are those of `a_revision`."""
    hash_ = fields.pop("hash", name)
    return VariantView(a_revision(hash_, product=product, variant=name, **fields), replica_capacity)


def a_service(
    name: str = "chat",
    *,
    namespace: str = "default",
    uid: str | None = None,
    spec: InferenceServiceSpec | None = None,
    wanted: Revision | None = None,
    problems: tuple[SpecProblem, ...] = (),
    deleting: bool = False,
    generation: int = 1,
    created_at: float = NOW - 3600,
    status: InferenceServiceStatus | None = None,
    children: tuple[ChildView, ...] = (),
    warnings: tuple[SpecProblem, ...] = (),
    misfits: tuple[SpecProblem, ...] = (),
    plan: PlanStatus | None = None,
    capacity_status: CapacityStatus | None = None,
    replica_capacity: ReplicaCapacity | None = None,
    wake_requested_at: str = "",
    variants: tuple[VariantView, ...] = (),
    **spec_fields: Any,
) -> ServiceView:
    """A service. `spec_fields` are the arguments of `a_spec`. With `problems` it has no wanted revision."""
    return ServiceView(
        key=ServiceKey(namespace, name),
        uid=uid_of(f"{namespace}/{name}") if uid is None else uid,
        generation=generation,
        created_at=created_at,
        deleting=deleting,
        spec=spec if spec is not None else a_spec(**spec_fields),
        status=status or InferenceServiceStatus(),
        wanted=None if problems else (wanted or a_revision()),
        problems=problems,
        children=children,
        warnings=warnings,
        misfits=misfits,
        plan=plan,
        capacity_status=capacity_status,
        replica_capacity=replica_capacity,
        wake_requested_at=wake_requested_at,
        variants=variants,
    )


def a_pod(
    service: ServiceView,
    ordinal: int = 0,
    *,
    revision: Revision | str | None = None,
    rank: int = 0,
    name: str | None = None,
    uid: str | None = None,
    owner_uid: str | None = "",
    ready: bool = True,
    serving: bool = True,
    phase: str | None = None,
    node: str | None = "node-0",
    created_at: float = NOW - 3600,
    ready_since: float | None = None,
    unready_since: float | None = None,
    deleting: bool = False,
    drain_started_at: float | None = None,
    drain_reason: str | None = None,
    blocked: str | None = None,
    blocked_message: str = "",
    restarts: int = 0,
    running_since: float | None = None,
    gates: tuple[str, ...] = (),
    gpus: int = 1,
    scheduled_at: float | None = None,
) -> PodView:
    """A pod of the service, ready by default. `owner_uid=None` makes it an orphan.

    A draining pod has no serving label; a pod that is blocked or has no node is not ready.
    """
    hash_ = revision.hash if isinstance(revision, Revision) else revision or (service.wanted or a_revision()).hash
    name = name or f"{service.key.name}-{service.uid[:5]}-{hash_}-{ordinal}" + (f"-{rank}" if rank else "")
    ready = ready and blocked is None and node is not None and phase in (None, "Running")
    draining = drain_started_at is not None
    return PodView(
        key=service.key,
        name=name,
        uid=uid or uid_of(f"{service.key}/{name}"),
        resource_version="1",
        owner_uid=service.uid if owner_uid == "" else owner_uid,
        service_uid=service.uid,
        revision=hash_,
        ordinal=ordinal,
        rank=rank,
        serving=serving and not draining,
        created_at=created_at,
        phase=phase or ("Running" if ready else "Pending"),
        gpus=gpus,
        node=node,
        ready=ready,
        ready_since=(created_at + 60 if ready_since is None else ready_since) if ready else None,
        unready_since=(created_at if unready_since is None else unready_since) if not ready and node else None,
        deleting=deleting,
        drain_started_at=drain_started_at,
        drain_reason=(drain_reason or "ScaleDown") if draining else None,
        blocked=None if blocked is None else Reason(blocked),
        blocked_message=blocked_message,
        restarts=restarts or (3 if blocked == "CrashLoop" else 0),
        scheduled_at=scheduled_at,
        running_since=running_since,
        gates=gates,
    )


def a_placeholder(service: ServiceView, number: int = 0, *, place: str = "same", **fields: Any) -> PodView:
    """A placeholder of the service that holds a place; the arguments are those of `a_pod`."""
    name = f"{service.key.name}-{service.uid[:5]}-placeholder-{number}"
    pod = a_pod(service, name=name, serving=False, **fields)
    return replace(pod, place=place, revision="", ordinal=-1)


def pods_of(service: ServiceView, count: int, **fields: Any) -> tuple[PodView, ...]:
    """Pods of ordinals 0 to count − 1, all alike."""
    return tuple(a_pod(service, ordinal, **fields) for ordinal in range(count))


def a_node(
    name: str = "node-0",
    *,
    gpus: int = 8,
    ready: bool = True,
    cordoned: bool = False,
    unready_since: float | None = None,
    created_at: float = NOW - 86400,
    product: str = "",
    notice: bool = False,
    shut_down: bool = False,
) -> NodeView:
    """A node that serves. One that is shut down is not ready, and both that and a notice cordon it."""
    labels = {PRODUCT: product} if product else {}
    return NodeView(
        name,
        ready and not shut_down,
        cordoned or notice or shut_down,
        {GPU: gpus},
        labels,
        unready_since,
        created_at,
        notice,
        shut_down,
    )


def nodes(count: int, *, gpus: int = 8) -> tuple[NodeView, ...]:
    return tuple(a_node(f"node-{index}", gpus=gpus) for index in range(count))


def a_histogram(observations: Mapping[float, float] | None = None, *, total: float | None = None) -> HistogramSample:
    """A histogram from counts per value. Its bounds are the values and infinity."""
    counts = observations or {}
    bounds = (*sorted(counts), inf)
    reached, cumulative = 0.0, []
    for bound in bounds:
        reached += counts.get(bound, 0.0)
        cumulative.append(reached)
    computed = sum(value * number for value, number in counts.items())
    return HistogramSample(bounds, tuple(cumulative), computed if total is None else total)


def a_sample(
    *,
    at: float = NOW,
    running: float = 0.0,
    waiting: float = 0.0,
    kv: float = 0.0,
    deferred: float = 0.0,
    steps: float | None = None,
    prompt_tokens: float | None = None,
    generation_tokens: float | None = None,
    finished: float | None = None,
    finished_prompt_tokens: float | None = None,
    finished_output_tokens: float | None = None,
    rejected: float | None = None,
    preemptions: float | None = None,
    time_to_first_token: HistogramSample | None = None,
    inter_token_latency: HistogramSample | None = None,
    queue_time: HistogramSample | None = None,
    missing: tuple[str, ...] = (),
) -> EngineSample:
    return EngineSample(
        taken_at=at,
        running_requests=running,
        waiting_requests=waiting,
        kv_fraction=kv,
        deferred_requests=deferred,
        engine_steps=steps,
        prompt_tokens=prompt_tokens,
        generation_tokens=generation_tokens,
        finished_requests=finished,
        finished_prompt_tokens=finished_prompt_tokens,
        finished_output_tokens=finished_output_tokens,
        rejected_requests=rejected,
        preemptions=preemptions,
        time_to_first_token=time_to_first_token,
        inter_token_latency=inter_token_latency,
        queue_time=queue_time,
        missing=missing,
    )


def signals_of(pods: Iterable[PodView], **sample: Any) -> dict[str, PodSignals]:
    """The same sample for each pod that is ready; the arguments are those of `a_sample`."""
    return {pod.uid: PodSignals(a_sample(**sample)) for pod in pods if pod.ready}


def a_world(
    *services: ServiceView,
    pods: Iterable[PodView] = (),
    nodes: Iterable[NodeView] | None = None,
    signals: Mapping[str, PodSignals] | None = None,
    revisions: Mapping[str, tuple[Revision, ...]] | None = None,
    children: Iterable[ChildView] | None = None,
    settings: Settings | None = None,
    refusals: Iterable[Refusal] = (),
    warm_pools: Iterable[WarmPoolView] = (),
    quotas: Iterable[QuotaView] = (),
    tenant_quotas: Iterable[TenantQuotaView] | None = None,
    share_plans: StoredSharePlans | None = None,
) -> World:
    """A world. By default it has two nodes of 8 GPUs, the wanted revision of each service, and all child objects."""
    stored = revisions
    if stored is None:
        stored = {s.uid: (_stored(s.wanted),) for s in services if s.wanted is not None}
    return World(
        services=services,
        revisions=stored,
        pods=tuple(pods),
        nodes=(a_node("node-0"), a_node("node-1")) if nodes is None else tuple(nodes),
        children=tuple(child for s in services for child in s.children) if children is None else tuple(children),
        signals=signals or {},
        settings=settings or Settings(),
        refusals=tuple(refusals),
        warm_pools=tuple(warm_pools),
        quotas=tuple(quotas),
        tenant_quotas=None if tenant_quotas is None else tuple(tenant_quotas),
        share_plans=share_plans,
    )


def _stored(revision: Revision) -> Revision:
    if revision.number:
        return revision
    return a_revision(
        revision.hash,
        spec_hash=revision.spec_hash,
        gpus=revision.shape.gpus_per_pod,
        pods=revision.shape.pods,
        number=1,
        place=revision.place.hash if revision.place else "same",
    )
