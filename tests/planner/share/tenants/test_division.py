"""Who has how much of a model: quotas that list it, and the tenant that its use counts for."""

import pytest

from forebay.planner.share.tenants.division import ModelDivision, Part, model_divisions, product_divisions
from forebay.planner.share.tenants.usage import GpuUse, ModelUse, Usage
from forebay.scaling.learning.normalized_tokens import TokenRates
from forebay.world.tenants import TenantQuotaView
from tests.builders.tenant_quotas import a_tenant_quota, the_claims

MODEL = "chat/llama"


def a_use(
    tenant: str = "chat", *, asked: float | None = 0.0, carried: float | None = 1000.0, used: float | None = None
) -> ModelUse:
    rates = TokenRates(per_replica=carried and carried / 2, carried=carried, asked=asked, used=used)
    return ModelUse(MODEL, tenant, rates, max_replicas=4, min_replicas=1, product="H100", gpus_per_replica=1)


def divided(use: ModelUse, *quotas: TenantQuotaView) -> ModelDivision | None:
    return model_divisions(the_claims(*quotas), Usage({MODEL: use}, {})).get(MODEL)


def parts(use: ModelUse, *quotas: TenantQuotaView) -> dict[str, Part]:
    division = divided(use, *quotas)
    assert division is not None
    return dict(division.parts)


def test_a_model_that_concerns_no_quota_is_not_divided():
    assert divided(a_use("default"), a_tenant_quota("chat")) is None


def test_an_unused_guarantee_is_lent_to_who_asks():
    """Equal weights, and 400 guaranteed to one that asks for nothing: the other borrows what is beyond its half."""
    found = parts(
        a_use("chat", asked=2000.0),
        a_tenant_quota("chat", tokens={MODEL: ()}),
        a_tenant_quota("idle", tokens={MODEL: (400,)}),
    )
    chat, idle = found["chat"], found["idle"]
    assert (chat.granted, chat.borrowed, chat.lent) == (1000, 500, 0)
    assert (idle.granted, idle.borrowed, idle.lent) == (0, 0, 500)


def test_a_limit_holds_although_capacity_is_idle():
    assert parts(a_use(asked=900.0), a_tenant_quota("chat", tokens={MODEL: (None, 300)}))["chat"].granted == 300


def test_the_tenant_of_the_namespace_has_the_use_although_it_lists_no_share():
    found = parts(a_use("chat", asked=300.0, used=250.0), a_tenant_quota("chat"))["chat"]
    assert (found.asked, found.used, found.granted, found.guaranteed) == (300, 250, 300, 0)


def test_use_counts_for_every_group_above():
    found = parts(
        a_use("team", asked=300.0, used=250.0),
        a_tenant_quota("org"),
        a_tenant_quota("team", parent="org"),
        a_tenant_quota("other", parent="org", tokens={MODEL: (100,)}),
    )
    assert (found["org"].used, found["team"].used, found["other"].used) == (250, 250, 0)
    assert (found["org"].guaranteed, found["org"].granted) == (100, 300)


def test_while_the_capacity_is_unknown_nothing_is_granted():
    found = parts(a_use(asked=300.0, carried=None, used=250.0), a_tenant_quota("chat", tokens={MODEL: (100,)}))["chat"]
    assert (found.guaranteed, found.used, found.asked, found.granted, found.lent) == (100, 250, 300, None, None)


def test_while_use_is_unknown_it_is_absent_and_not_zero():
    found = parts(a_use(asked=None), a_tenant_quota("chat", tokens={MODEL: (100,)}))["chat"]
    assert (found.asked, found.used) == (None, None)


def test_the_unclaimed_namespaces_are_one_tenant_beside_the_others():
    found = parts(a_use("default", asked=2000.0), a_tenant_quota("idle", tokens={MODEL: (400,)}))
    assert (found["default"].granted, found["idle"].lent) == (1000, 500)


def test_a_shadow_quota_changes_nothing_for_the_others_and_says_what_it_would_have():
    use = a_use("chat", asked=2000.0)
    shadow = a_tenant_quota("shadow", mode="Shadow", weight=3, tokens={MODEL: (600, 700)})
    found = parts(use, a_tenant_quota("chat", tokens={MODEL: ()}), shadow)
    enforced = parts(
        use, a_tenant_quota("chat", tokens={MODEL: ()}), a_tenant_quota("shadow", weight=3, tokens={MODEL: (600, 700)})
    )
    assert found["shadow"] == enforced["shadow"]
    division = divided(use, a_tenant_quota("chat", tokens={MODEL: ()}), shadow)
    assert division is not None
    assert division.guaranteed == 0


def test_a_shadow_limit_is_not_applied_to_the_group_above():
    use = a_use("team", asked=900.0)
    org, team = a_tenant_quota("org"), a_tenant_quota("team", parent="org", mode="Shadow", tokens={MODEL: (None, 300)})
    found = parts(use, org, team)
    assert (found["org"].granted, found["team"].granted) == (900, 300)


@pytest.mark.parametrize(
    ("quota", "share", "first"),
    [
        ("Interactive", None, "chat"),
        ("Batch", None, "idle"),
        ("Interactive", "Batch", "idle"),
        ("Batch", "Interactive", "chat"),
    ],
)
def test_the_class_of_a_share_comes_before_that_of_the_quota(quota, share, first):
    entry = {"model": MODEL} | ({"class": share} if share else {})
    division = divided(
        a_use("chat", asked=600.0),
        a_tenant_quota("chat", class_=quota, shares=[entry]),
        a_tenant_quota("idle", tokens={MODEL: ()}),
    )
    assert division is not None
    lent = division.parts["idle"].lent
    assert (lent == 1000) == (first == "idle"), "batch gets nothing when everybody asks for everything"


def test_guarantees_of_a_group_and_its_children_are_counted_once():
    division = divided(
        a_use("default"),
        a_tenant_quota("org", tokens={MODEL: (300,)}),
        a_tenant_quota("team", parent="org", tokens={MODEL: (200,)}),
        a_tenant_quota("other", tokens={MODEL: (100,)}),
    )
    assert division is not None
    assert division.guaranteed == 400


H100 = "NVIDIA-H100-80GB-HBM3"


def gpus(uses: dict[str, tuple[int, int]], *quotas: TenantQuotaView, there: int = 8) -> dict[str, Part]:
    """The parts of a product; `uses` has (asked, held) by tenant."""
    usage = Usage({}, {(tenant, H100): GpuUse(held, asked) for tenant, (asked, held) in uses.items()}, {H100: there})
    division = product_divisions(the_claims(*quotas), usage)[H100]
    return dict(division.parts)


def test_gpus_are_divided_in_whole_ones_and_an_unused_guarantee_is_lent():
    found = gpus({"chat": (8, 6)}, a_tenant_quota("chat"), a_tenant_quota("idle", gpus=[{"guaranteed": 5}]), there=7)
    chat, idle = found["chat"], found["idle"]
    assert (chat.asked, chat.used, chat.granted, chat.borrowed) == (8, 6, 7, 5)
    assert (idle.granted, idle.lent) == (0, 5)


def test_an_entry_without_a_product_holds_where_there_is_no_other():
    every = a_tenant_quota("chat", gpus=[{"limit": 2}, {"product": H100, "limit": 4}])
    assert gpus({"chat": (8, 0)}, every)["chat"].granted == 4
    assert gpus({"chat": (8, 0)}, a_tenant_quota("chat", gpus=[{"limit": 2}]))["chat"].granted == 2


def test_gpus_of_services_that_may_use_any_product_are_counted_and_not_divided():
    usage = Usage({}, {("chat", "unknown"): GpuUse(held=3, asked=4)}, {H100: 8})
    part = product_divisions(the_claims(a_tenant_quota("chat")), usage)["unknown"].parts["chat"]
    assert (part.asked, part.used, part.granted) == (4, 3, None)


def test_a_product_that_concerns_no_quota_is_not_divided():
    usage = Usage({}, {("default", H100): GpuUse(held=3, asked=4)}, {H100: 8})
    assert product_divisions(the_claims(a_tenant_quota("chat")), usage) == {}
