"""Hypothesis strategies for arbitrary worlds, and for clusters to which disturbances happen."""

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from forebay.api.inference_service import InferenceServiceStatus, ReplicaStatus, ScalingMode, WhenNoSpare
from forebay.api.reasons import Reason
from forebay.planner.memory import HeldPlace, Preemptions, ServiceMemory, Shortage, State
from forebay.scaling.load.signals import PodSignals
from forebay.world.quota import QuotaScope, QuotaView
from forebay.world.settings import Settings
from forebay.world.tenants import TenantQuotaView
from forebay.world.world import PodView, Refusal, ServiceView, SpecProblem, WarmPoolView, World
from tests.builders.cluster import Cluster, a_cluster
from tests.builders.engines import Demand
from tests.builders.loads import a_replica_capacity
from tests.builders.pools import a_peak, a_pool, holding
from tests.builders.quotas import a_quota
from tests.builders.tenant_quotas import a_tenant_quota
from tests.builders.world import (
    IMAGE,
    NOW,
    a_histogram,
    a_node,
    a_placeholder,
    a_pod,
    a_revision,
    a_sample,
    a_service,
    a_variant,
    a_world,
    uid_of,
)

quick = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
slow = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])

REVISIONS = (a_revision("aaaa", number=1), a_revision("bbbb", number=2), a_revision("cccc", pods=2, number=3))
VARIANTS = (
    a_variant("dddd", gpus=2, number=1, replica_capacity=a_replica_capacity(slower=1.6)),
    a_variant("eeee", pods=2, number=1),
    a_variant("ffff"),
)
moments = st.sampled_from([NOW - 7200, NOW - 900, NOW - 290, NOW - 30, NOW - 1, NOW + 5])
maybe_moments = st.none() | moments
numbers = st.sampled_from([0.0, 1.0, 5.0, 19.0, 60.0, 1e6, float("nan"), float("inf")])
fractions = st.sampled_from([0.0, 0.3, 0.79, 0.95, 1.01, float("nan")])


def mostly(common: Any, *others: Any) -> st.SearchStrategy[Any]:
    """The common case five times out of six, so that single rare values meet each other now and then."""
    return st.sampled_from((*([common] * 5 * len(others)), *others))


@st.composite
def services(draw: st.DrawFn, name: str):
    low = draw(st.integers(0, 5))
    high = draw(st.integers(max(1, low), 6))
    status = InferenceServiceStatus(replicas=ReplicaStatus(desired=draw(st.integers(0, 7))))
    return a_service(
        name,
        min_replicas=low,
        max_replicas=high,
        mode=draw(mostly(ScalingMode.AUTO, ScalingMode.RECOMMEND, ScalingMode.PAUSED)),
        warm_replicas=draw(st.integers(0, high)) if low else 0,
        scale_to_zero_after=None if low else "30s",
        wake_requested_at=draw(mostly("", "2025-06-15T15:00:00Z", "9999-12-31T23:59:59Z", "0000-00-00T99:00:00Z")),
        max_surge=draw(st.integers(0, 2)),
        when_no_spare=draw(st.sampled_from([WhenNoSpare.AUTO, WhenNoSpare.REPLACE])),
        wanted=draw(st.sampled_from([replace(r, number=0, name="") for r in REVISIONS])),
        problems=draw(mostly((), (SpecProblem(Reason.SPEC_INVALID, "odd"),))),
        deleting=draw(mostly(False, True)),
        status=draw(st.sampled_from([InferenceServiceStatus(), status])),
        variants=draw(st.sampled_from([(), (), VARIANTS[:1], VARIANTS])),
        replica_capacity=draw(st.sampled_from([None, a_replica_capacity()])),
        placeholders=draw(mostly(0, 1, 3)),
    )


@st.composite
def pods(draw: st.DrawFn, service, ordinal: int, rank: int, trouble: str | None):
    return a_pod(
        service,
        ordinal,
        rank=rank,
        revision=draw(
            mostly(service.wanted.hash if service.wanted else "gone", "aaaa", "bbbb", "cccc", "dddd", "eeee", "gone")
        ),
        owner_uid=draw(mostly("", None, "foreign")),
        ready=draw(st.booleans()),
        serving=draw(mostly(True, False)),
        phase=draw(mostly(None, "Failed", "Succeeded", "Running", "Unknown")),
        node=draw(st.sampled_from([None, "node-0", "node-1", "node-2", "node-3", "nowhere"])),
        created_at=draw(moments),
        unready_since=draw(maybe_moments),
        ready_since=draw(maybe_moments),
        deleting=draw(mostly(False, True)),
        drain_started_at=draw(mostly(None, NOW - 900, NOW - 30)),
        blocked=draw(
            mostly(trouble, None, "Unschedulable", "ImagePull", "CrashLoop", "QuotaExceeded", "ContainerConfig")
        ),
        gpus=draw(st.integers(0, 8)),
        scheduled_at=draw(maybe_moments),
    )


@st.composite
def pools(draw: st.DrawFn, name: str) -> WarmPoolView:
    pool = a_pool(
        name,
        wanted=draw(st.integers(0, 3)),
        gpus=draw(st.integers(0, 2)),
        deleting=draw(mostly(False, True)),
        schedules=draw(st.sampled_from([(), (a_peak(),), (a_peak(), a_peak(2, name="evening", start="0 18 * * *"))])),
    )
    if draw(mostly(False, True)):
        return replace(pool, place=None, shape=None, problem="odd")
    return pool


@st.composite
def placeholders(draw: st.DrawFn, owner: ServiceView | WarmPoolView) -> tuple[PodView, ...]:
    def placeholder(number: int) -> PodView:
        fields: dict[str, Any] = {
            "ready": draw(st.booleans()),
            "phase": draw(mostly(None, "Failed")),
            "node": draw(st.sampled_from([None, "node-0", "node-1", "node-2"])),
            "created_at": draw(moments),
            "deleting": draw(mostly(False, True)),
            "blocked": draw(mostly(None, "Unschedulable")),
            "gpus": draw(st.integers(0, 2)),
        }
        if isinstance(owner, WarmPoolView):
            (pod,) = holding(owner, 1, number, **fields)
        else:
            pod = a_placeholder(owner, number, **fields)
        return replace(pod, place=draw(mostly("same", "other")))

    return tuple(placeholder(number) for number in range(draw(st.integers(0, 4))))


QUOTA_SCOPES = (
    QuotaScope("NotTerminating"),
    QuotaScope("PriorityClass", "DoesNotExist"),
    QuotaScope("PriorityClass"),
    QuotaScope("NotBestEffort"),
)


@st.composite
def quotas(draw: st.DrawFn, namespaces: list[str], at_least: int = 0) -> list[QuotaView]:
    """Quotas that leave little, or are exceeded."""

    def a_limit() -> tuple[int, int]:
        used = draw(st.integers(0, 6))
        return used, max(0, used + draw(st.integers(-2, 4)))

    return [
        a_quota(
            gpus=draw(st.sampled_from([None, a_limit()])),
            pods=draw(st.sampled_from([None, a_limit()])),
            name=f"quota-{number}",
            namespace=draw(st.sampled_from(namespaces)),
            scopes=draw(mostly((), *((scope,) for scope in QUOTA_SCOPES))),
        )
        for number in range(draw(st.integers(at_least, 2)))
    ]


@st.composite
def tenant_quotas(draw: st.DrawFn) -> list[TenantQuotaView] | None:
    """Quotas that claim the same, name each other as parents, or list what does not exist."""
    if draw(st.booleans()):
        return None
    amounts = st.sampled_from([(), (0,), (1000,), (None, 500), (10**12,)])
    models = st.sampled_from(["default/chat", "default/code", "default/none"])
    return [
        a_tenant_quota(
            name,
            age=draw(st.sampled_from([1.0, 60.0])),
            **draw(
                st.sampled_from([{}, {"parent": "nobody"}, *({"parent": other} for other in "abc" if other != name)])
            ),
            namespaces=draw(st.sampled_from([[], ["default"]])),
            tokens=draw(st.dictionaries(models, amounts, max_size=3)),
            gpus=draw(st.sampled_from([[], [{"guaranteed": 3}], [{"product": "H100", "limit": 0}]])),
            mode=draw(mostly("Enforce", "Shadow")),
            class_=draw(mostly("Interactive", "Batch")),
        )
        for name in draw(st.sampled_from(["", "a", "ab", "abc"]))
    ]


samples = st.builds(
    a_sample,
    at=moments,
    running=numbers,
    waiting=numbers,
    kv=fractions,
    deferred=st.sampled_from([0.0, 2.0]),
    steps=st.none() | numbers,
    generation_tokens=st.none() | numbers,
    queue_time=st.sampled_from([None, a_histogram(), a_histogram({0.1: 50, 5.0: 50})]),
    time_to_first_token=st.sampled_from([None, a_histogram({0.3: 10, 2.0: 90})]),
    inter_token_latency=st.sampled_from([None, a_histogram({0.01: 10, 0.09: 900})]),
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    drawn_services = [draw(services(name)) for name in draw(st.sampled_from([("chat",), ("chat", "code"), ()]))]
    trouble = draw(mostly(None, "Unschedulable", "CrashLoop"))
    replica_pods = [
        draw(pods(service, ordinal, rank, trouble))
        for service in drawn_services
        for ordinal in range(draw(st.integers(0, 7)))
        for rank in draw(st.sampled_from([(0,), (0,), (0, 1), (1,)]))
    ]
    warm_pools = [draw(pools(name)) for name in draw(st.sampled_from([(), ("h100",), ("h100", "l40s")]))]
    held = [pod for owner in (*drawn_services, *warm_pools) for pod in draw(placeholders(owner))]
    signals = {
        pod.uid: PodSignals(draw(st.none() | samples), draw(st.sampled_from([None, "no answer"])))
        for pod in replica_pods
        if draw(st.booleans())
    }
    known = draw(st.integers(0, 3))
    variant_revisions = draw(st.sampled_from([(), tuple(variant.wanted for variant in VARIANTS[:2])]))
    return a_world(
        *drawn_services,
        warm_pools=warm_pools,
        pods=[*replica_pods, *held],
        signals=signals,
        nodes=[
            a_node(
                f"node-{i}",
                ready=draw(mostly(True, False)),
                cordoned=draw(mostly(False, True)),
                unready_since=NOW - 600,
                notice=draw(mostly(False, True)),
                shut_down=draw(mostly(False, True)),
            )
            for i in range(draw(mostly(4, 0, 1, 2)))
        ],
        revisions={service.uid: (*REVISIONS[:known], *variant_revisions) for service in drawn_services},
        settings=Settings(
            max_drains_per_10_minutes=draw(st.sampled_from([0, 1, 40])),
            max_creates_per_minute=draw(st.sampled_from([0, 1, 200])),
            max_gpus=draw(st.sampled_from([None, 0, 6])),
        ),
        refusals=[
            Refusal(service.uid, "chat-x", draw(st.sampled_from(["QuotaExceeded", "NameTaken"])), "no", draw(moments))
            for service in drawn_services
            if draw(st.booleans())
        ],
        quotas=draw(mostly((), draw(quotas(["default", *(pool.key.namespace for pool in warm_pools)])))),
        tenant_quotas=draw(tenant_quotas()),
    )


PATIENT = State.empty(NOW - 3600)
SHORT = replace(
    PATIENT,
    services={
        a_service(name).uid: ServiceMemory(
            shortages={"": Shortage(NOW - 60, 1, "no room"), "dddd": Shortage(0.0, 2, "")}
        )
        for name in ("chat", "code")
    },
)
"""A shape that was short of capacity a minute ago, and one that may be tried again."""
IMPATIENT = replace(PATIENT, services={a_service(name).uid: ServiceMemory(retries=3) for name in ("chat", "code")})
"""Stuck replicas were given up a few times; those that are stuck now are left alone."""
HANDED_OVER = replace(
    PATIENT,
    preemptions=Preemptions(
        {
            f"gone-{number}": HeldPlace(f"gone-{number}", uid_of("h100"), f"node-{number}", 1, IMAGE, NOW - 30)
            for number in range(3)
        },
        taken=frozenset({a_pod(a_service(), number).uid for number in range(3)}),
    ),
)
"""Places that placeholders held 30 s ago, and pods that took such places earlier."""
states = st.sampled_from([State.empty(NOW), PATIENT, IMPATIENT, SHORT, HANDED_OVER])


SLIM = a_variant("slim", product="L4", hash="slim", replica_capacity=a_replica_capacity(slower=1.6))
TWIN = a_variant("twin", product="L4", hash="twin", gpus=2)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    low = draw(st.integers(1, 3))
    variants = draw(st.sampled_from([(), (SLIM,), (TWIN, SLIM)]))
    sizes = [draw(st.integers(2, 6)), draw(st.integers(1, 6))]
    nodes = [a_node(f"node-{number}", gpus=gpus, product="H100") for number, gpus in enumerate(sizes)]
    cluster = a_cluster(
        a_service(
            "chat",
            min_replicas=low,
            max_replicas=draw(st.integers(low, 5)),
            max_surge=draw(st.integers(0, 2)),
            variants=variants,
            wanted=a_revision(product="H100"),
            replica_capacity=draw(st.sampled_from([None, a_replica_capacity()])),
        ),
        nodes=[*nodes, *([a_node("node-2", gpus=draw(st.integers(1, 4)), product="L4")] if variants else [])],
        load_seconds=draw(st.sampled_from([5.0, 60.0])),
        termination_seconds=draw(st.sampled_from([5.0, 90.0])),
    )
    cluster.demand["chat"] = Demand(requests=draw(st.sampled_from([0, 50, 200, 900])))
    return cluster
