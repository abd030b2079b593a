"""TenantQuotas in whole plans: what their statuses say, and that they change nothing for services."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from forebay.api.duration import Duration
from forebay.api.inference_service import ScheduleSpec
from forebay.api.instants import rfc3339, unix_seconds
from forebay.api.reasons import Reason
from forebay.api.spec.schedule_spec import ScheduleFloor
from forebay.api.tenant_quota import QuotaStatus
from forebay.planner.memory import State, TenantMemory
from forebay.planner.planner import plan
from forebay.planner.report.service_status import TELEMETRY_SECONDS
from forebay.planner.report.tenant_status import should_write_quota
from forebay.planner.share.tenants import tenants
from forebay.planner.share.tenants.tenants import DIVIDE_SECONDS
from forebay.scaling.load.signals import PodSignals
from forebay.workloads.objects.share_plan import DATA_KEY, read_shard
from forebay.world.plan import DeleteSharePlan, Plan, StoreSharePlan
from forebay.world.settings import Settings
from forebay.world.share_plans import StoredSharePlans
from forebay.world.tenants import TenantQuotaView
from forebay.world.world import ServiceView, World
from tests.builders.loads import a_replica_capacity
from tests.builders.tenant_quotas import a_tenant_quota, unreadable
from tests.builders.world import NOW, a_node, a_revision, a_sample, a_service, a_world, pods_of

MODEL = "chat/llama"
H100 = "NVIDIA-H100-80GB-HBM3"


def a_model(name: str = "llama", namespace: str = "chat", replicas: int = 2, **given: Any) -> ServiceView:
    fields: dict[str, Any] = {"max_replicas": 4, "replica_capacity": a_replica_capacity(), **given}
    wanted = a_revision(gpus=fields.pop("gpus", 1), product=H100)
    return a_service(name, namespace=namespace, min_replicas=replicas, wanted=wanted, **fields)


class Fleet:
    """Ticks over services whose replicas get a steady number of chats per second."""

    def __init__(self, *services: ServiceView, quotas: tuple[TenantQuotaView, ...], **settings: Any) -> None:
        self.services, self.quotas, self.settings = services, quotas, Settings(**settings)
        self.pods = tuple(
            pod
            for service in services
            for pod in pods_of(service, service.spec.scaling.min_replicas if service.spec else 0)
        )
        self.state, self.now = State.empty(NOW - 3600), NOW
        self.share_plans: StoredSharePlans | None = StoredSharePlans("forebay-system")

    def world(self, per_second: float) -> World:
        done = per_second * (self.now - NOW + 1000)
        sample = a_sample(
            at=self.now,
            running=5,
            finished=done,
            prompt_tokens=500 * done,
            generation_tokens=200 * done,
            finished_prompt_tokens=500 * done,
            finished_output_tokens=200 * done,
            steps=10 * done,
        )
        return a_world(
            *self.services,
            pods=self.pods,
            signals={pod.uid: PodSignals(sample) for pod in self.pods},
            nodes=(a_node("node-0", product=H100), a_node("node-1", product=H100)),
            settings=self.settings,
            tenant_quotas=self.quotas,
            share_plans=self.share_plans,
        )

    def tick(self, per_second: float = 10.0, seconds: float = 5.0) -> Plan:
        self.now += seconds
        done, self.state = plan(self.world(per_second), self.state, self.now)
        return done

    def run(self, per_second: float = 10.0, ticks: int = 24) -> Mapping[str, QuotaStatus]:
        """The statuses after so many ticks, by tenant."""
        for _ in range(ticks):
            done = self.tick(per_second)
        assert [service.error for service in done.services] == [None] * len(self.services)
        return {tenant.name: tenant.status for tenant in done.tenants}


def reasons(status: QuotaStatus) -> dict[str, str]:
    return {condition.type: condition.reason for condition in status.conditions}


def test_a_tenant_has_the_use_of_the_services_in_its_namespaces():
    """Two replicas of 10 requests a second each: 700 tokens × 20 × 60."""
    quotas = (
        a_tenant_quota("chat", namespaces=["chat"], tokens={MODEL: (500_000, 2_000_000)}),
        a_tenant_quota("globex", namespaces=["globex"], tokens={MODEL: (300_000,)}),
    )
    statuses = Fleet(a_model(), quotas=quotas).run()
    chat, globex = statuses["chat"], statuses["globex"]
    (part,) = chat.models
    assert (part.model, part.guaranteed, part.asked, part.used) == (MODEL, 500_000, 840_000, 840_000)
    assert chat.tokens is not None
    assert (chat.tokens.guaranteed, chat.tokens.used, chat.tokens.granted) == (500_000, 840_000, 840_000)
    (other,) = globex.models
    assert (other.asked, other.used, other.granted) == (0, 0, 0)
    assert reasons(chat) == {"Ready": "QuotaActive", "GuaranteesCovered": "Covered"}
    assert chat.attribution == "Namespace"


def test_gpus_count_by_the_product_of_the_node():
    quotas = (a_tenant_quota("chat", namespaces=["chat"], gpus=[{"guaranteed": 2, "limit": 4}]),)
    status = Fleet(a_model(), quotas=quotas).run(ticks=2)["chat"]
    (part,) = status.gpu_products
    assert (part.product, part.guaranteed, part.asked, part.used) == (H100, 2, 2, 2)
    assert (part.granted, part.borrowed, part.lent) == (2, 0, 2), (
        "what its limit leaves it is its own, since nobody else asks"
    )


def test_the_younger_claim_of_a_namespace_counts_nothing_of_it():
    old = a_tenant_quota("old", age=7200, namespaces=["chat"])
    young = a_tenant_quota("young", age=60, namespaces=["chat"], tokens={MODEL: (1000,)})
    statuses = Fleet(a_model(), quotas=(young, old)).run(ticks=24)
    assert [part.used for part in statuses["old"].models] == [840_000]
    assert [part.used for part in statuses["young"].models] == [0]
    assert (reasons(statuses["old"])["Ready"], reasons(statuses["young"])["Ready"]) == (
        "QuotaActive",
        "NamespaceClaimed",
    )


def test_unclaimed_namespaces_are_the_default_tenant():
    quotas = (a_tenant_quota("everyone", tokens={MODEL: (1000,)}),)
    assert Fleet(a_model(), quotas=quotas, default_tenant="everyone").run()["everyone"].models[0].used == 840_000
    assert Fleet(a_model(), quotas=quotas).run()["everyone"].models[0].used == 0


def test_figures_of_services_at_rest_stay():
    fleet = Fleet(a_model(), quotas=(a_tenant_quota("chat", namespaces=["chat"]),))
    before = fleet.run()["chat"]
    world = fleet.world(10.0)
    fleet.tick()
    for seconds in (6.0, 12.0):
        done, fleet.state = plan(replace(world, signals=fleet.world(10.0).signals), fleet.state, fleet.now + seconds)
        (tenant,) = done.tenants
        assert tenant.status.models == before.models


def test_a_status_is_the_same_object_until_the_next_division():
    fleet = Fleet(a_model(), quotas=(a_tenant_quota("chat", namespaces=["chat"]),))
    fleet.run()
    (first,), (second,) = (fleet.tick(seconds=s).tenants for s in (DIVIDE_SECONDS, DIVIDE_SECONDS - 1))
    assert second.status is first.status


def test_a_changed_quota_is_seen_at_once():
    fleet = Fleet(a_model(), quotas=(a_tenant_quota("chat", namespaces=["chat"]),))
    fleet.run()
    changed = replace(a_tenant_quota("chat", namespaces=["chat"], tokens={"chat/none": (1,)}), generation=2)
    fleet.quotas = (changed,)
    (tenant,) = fleet.tick(seconds=1.0).tenants
    assert (tenant.status.observed_generation, reasons(tenant.status)["Ready"]) == (2, "ModelUnknown")


def test_a_changed_guarantee_counts_at_once():
    fleet = Fleet(a_model(), quotas=(a_tenant_quota("chat", namespaces=["chat"], tokens={MODEL: (1000,)}),))
    assert fleet.run()["chat"].models[0].guaranteed == 1000
    fleet.quotas = (replace(a_tenant_quota("chat", namespaces=["chat"], tokens={MODEL: (2000,)}), generation=2),)
    (tenant,) = fleet.tick(seconds=1.0).tenants
    assert tenant.status.models[0].guaranteed == 2000


def test_what_is_remembered_of_tenants_changes_no_figure():
    quotas = (a_tenant_quota("chat", namespaces=["chat"], tokens={MODEL: (1000,)}), a_tenant_quota("idle"))
    fleet = Fleet(a_model(), quotas=quotas)
    fleet.run()
    forgetful = replace(fleet.state, tenants=TenantMemory())
    fleet.now += 60
    world = fleet.world(10.0)
    known, anew = (plan(world, state, fleet.now)[0].tenants for state in (fleet.state, forgetful))
    assert [one.status.models for one in known] == [one.status.models for one in anew]


def test_noise_does_not_change_a_status():
    fleet = Fleet(a_model(), quotas=(a_tenant_quota("chat", namespaces=["chat"], tokens={MODEL: (100_000,)}),))
    before = fleet.run()["chat"]
    assert fleet.run(per_second=10.02)["chat"] == before


def test_quotas_change_nothing_for_services():
    with_quotas = Fleet(a_model(), quotas=(a_tenant_quota("chat", namespaces=["chat"], gpus=[{"limit": 0}]),))
    without = Fleet(a_model(), quotas=())
    for _ in range(12):
        assert with_quotas.tick(200.0).services == without.tick(200.0).services


def test_a_quota_that_cannot_be_read_says_so_and_holds_nobody():
    statuses = Fleet(a_model(), quotas=(unreadable(a_tenant_quota("a")), a_tenant_quota("b"))).run(ticks=1)
    assert reasons(statuses["a"])["Ready"] == "SpecInvalid"
    assert reasons(statuses["b"])["Ready"] == "QuotaActive"


def test_a_fault_of_the_division_holds_no_service(monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object) -> None:
        raise ZeroDivisionError("odd")

    monkeypatch.setattr(tenants, "model_divisions", broken)
    fleet = Fleet(a_model(), quotas=(a_tenant_quota("chat"),))
    statuses = fleet.run(ticks=2)
    assert reasons(statuses["chat"]) == {"Ready": "PlanningFailed"}


def test_without_a_profile_a_guarantee_is_not_known_to_be_covered():
    quotas = (a_tenant_quota("chat", namespaces=["chat"], tokens={MODEL: (1000,)}),)
    status = Fleet(a_model(replica_capacity=None), quotas=quotas).run(ticks=2)["chat"]
    assert reasons(status)["GuaranteesCovered"] == "CapacityUnknown"
    assert status.models[0].granted is None


def test_a_sum_is_absent_while_one_of_its_parts_is_unknown():
    models = a_model(), a_model("other", replica_capacity=None)
    status = Fleet(*models, quotas=(a_tenant_quota("chat", namespaces=["chat"]),)).run()["chat"]
    assert [part.used for part in status.models] == [840_000, None]
    assert status.tokens is not None
    assert status.tokens.used is None


def test_a_shadow_quota_says_that_it_changes_nothing():
    quotas = (a_tenant_quota("chat", namespaces=["chat"], mode="Shadow", tokens={MODEL: (1000, 2000)}),)
    status = Fleet(a_model(), quotas=quotas).run()["chat"]
    assert reasons(status)["Ready"] == "Shadow"
    assert status.models[0].granted == 2000, "what it would have been granted"


def test_a_peak_that_is_overcommitted_is_said_an_hour_before_its_window_warms():
    """16 GPUs are there; the window asks for 4 replicas of 4 GPUs, and another team is guaranteed 2."""
    opens = NOW + 4 * 3600
    window = ScheduleSpec(
        name="launch",
        at=(rfc3339(opens)[:16],),
        duration=Duration("1h"),
        floor=ScheduleFloor(replicas=4),
    )
    model = a_model(gpus=4, replicas=1, schedules=(window,))
    quotas = (
        a_tenant_quota("chat", namespaces=["chat"], tokens={MODEL: (1000,)}),
        a_tenant_quota("globex", gpus=[{"product": H100, "guaranteed": 2}]),
    )
    fleet = Fleet(model, quotas=quotas)
    warm_from = None
    said_at = None
    while fleet.now < opens:
        done = fleet.tick(1.0, seconds=60.0)
        (schedule,) = done.services[0].status.schedules
        warm_from = schedule.warm_from or warm_from
        by_name = {tenant.name: tenant.status for tenant in done.tenants}
        found = {name: reasons(status)["GuaranteesCovered"] for name, status in by_name.items()}
        if said_at is None and Reason.OVERCOMMITTED_AT_PEAK in found.values():
            said_at = fleet.now
            assert set(found.values()) == {"OvercommittedAtPeak"}
            assert "globex" not in str(by_name["chat"])
    warms = unix_seconds(warm_from or "")
    assert said_at is not None
    assert warms is not None
    assert 3600 - 120 <= warms - said_at <= 3600 + 120


def a_status(**fields: Any) -> QuotaStatus:
    return QuotaStatus.model_validate({"observedGeneration": 1, "tokens": {"guaranteed": 10, "used": 5}} | fields)


@pytest.mark.parametrize(
    ("wanted", "written_ago", "expected"),
    [
        pytest.param(a_status(), 9999, False, id="the same is never written"),
        pytest.param(a_status(tokens={"guaranteed": 10, "used": 6}), 29, False, id="telemetry waits"),
        pytest.param(a_status(tokens={"guaranteed": 10, "used": 6}), 30, True, id="telemetry after 30 s"),
        pytest.param(a_status(tokens={"guaranteed": 11, "used": 5}), 1, True, id="a guarantee at once"),
        pytest.param(a_status(observedGeneration=2), 1, True, id="a generation at once"),
        pytest.param(
            a_status(conditions=[{"type": "Ready", "status": "True", "reason": "Shadow", "lastTransitionTime": "t"}]),
            1,
            True,
            id="a condition at once",
        ),
    ],
)
def test_when_the_status_of_a_quota_is_written(wanted: QuotaStatus, written_ago: float, expected: bool):
    assert should_write_quota(a_status(), wanted, written_ago, TELEMETRY_SECONDS) is expected


def the_plan(done: Plan) -> dict[str, Any]:
    """The one share plan that is written."""
    (write,) = done.share_plans
    assert isinstance(write, StoreSharePlan)
    content: dict[str, Any] = json.loads(write.body["data"][DATA_KEY])
    return content


def test_admission_is_told_the_capacity_and_the_tenants_of_each_model():
    quotas = (
        a_tenant_quota("org", age=7200),
        a_tenant_quota("chat", parent="org", namespaces=["chat"], tokens={MODEL: (500_000, 2_000_000)}),
        a_tenant_quota("trial", mode="Shadow", tokens={MODEL: (None, 100)}),
        a_tenant_quota("stranger", tokens={"chat/other": (1, 2)}),
    )
    fleet = Fleet(a_model(), a_model("unlisted", namespace="elsewhere"), quotas=quotas)
    for _ in range(24):
        done = fleet.tick()
    while not done.share_plans:
        done = fleet.tick()
    content = the_plan(done)
    assert (content["model"], content["epoch"], content["capacity"] > 840_000) == (MODEL, int(fleet.now), True)
    assert [(tenant["name"], tenant["listed"], tenant["mode"]) for tenant in content["tenants"]] == [
        ("chat", True, "Enforce"),
        ("org", False, "Enforce"),
        ("trial", True, "Shadow"),
    ]
    assert content["tenants"][0]["guaranteed"] == 500_000


def test_a_plan_follows_its_quota_at_once_and_goes_with_it():
    quotas = (a_tenant_quota("chat", namespaces=["chat"], tokens={MODEL: (500_000, None)}),)
    fleet = Fleet(a_model(), quotas=quotas)
    stored = fleet.tick().share_plans[0]
    assert isinstance(stored, StoreSharePlan)
    fleet.share_plans = StoredSharePlans("forebay-system", (read_shard(stored.name, "uid", "1", stored.body["data"]),))
    assert fleet.tick(seconds=1.0).share_plans == ()
    fleet.quotas = (
        replace(a_tenant_quota("chat", namespaces=["chat"], tokens={MODEL: (400_000, None)}), generation=2),
    )
    assert the_plan(fleet.tick(seconds=1.0))["tenants"][0]["guaranteed"] == 400_000
    fleet.quotas = ()
    assert [type(action) for action in fleet.tick(seconds=1.0).share_plans] == [DeleteSharePlan]


def test_no_plan_is_written_while_the_stored_ones_are_not_known():
    fleet = Fleet(a_model(), quotas=(a_tenant_quota("chat", tokens={MODEL: (500_000, None)}),))
    fleet.share_plans = None
    assert fleet.tick().share_plans == ()
