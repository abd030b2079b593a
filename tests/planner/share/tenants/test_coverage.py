"""Whether guarantees can be kept: by the model, now, and by the GPUs of the nodes, now and at a peak."""

from dataclasses import replace

import pytest

from forebay.api.reasons import Reason
from forebay.planner.share.tenants.coverage import (
    GuaranteeCase,
    ProductCoverage,
    Shortage,
    product_coverage,
    shortage_of,
)
from forebay.planner.share.tenants.division import model_divisions
from forebay.planner.share.tenants.usage import FloorWindow, ModelUse, Usage
from forebay.world.tenants import TenantQuotaView
from tests.builders.tenant_quotas import a_tenant_quota, the_claims
from tests.builders.world import NOW
from tests.planner.share.tenants.test_division import MODEL, a_use

PRODUCT = "H100"


def case_of(
    use: ModelUse, *quotas: TenantQuotaView, tenant: str = "chat", coverage: ProductCoverage | None = None
) -> GuaranteeCase:
    claims = the_claims(*quotas)
    divisions = model_divisions(claims, Usage({MODEL: use}, {}))
    part = divisions[MODEL].parts[tenant]
    acts = claims.specs[tenant].mode == "Enforce"
    return GuaranteeCase((part,), divisions, frozenset({PRODUCT}), coverage or ProductCoverage(), acts)


def reason(case: GuaranteeCase) -> Reason | None:
    found = shortage_of(case)
    return None if found is None else found.reason


@pytest.mark.parametrize(
    ("ours", "others", "expected"),
    [
        pytest.param(2000, 0, None, id="all that maxReplicas carry"),
        pytest.param(2001, 0, Reason.OVERCOMMITTED, id="one token more"),
        pytest.param(1000, 1001, Reason.OVERCOMMITTED, id="with another tenant's"),
    ],
)
def test_guarantees_against_what_the_model_carries_at_max_replicas(ours, others, expected):
    """Two replicas carry 1,000, and maxReplicas is 4."""
    quotas = (a_tenant_quota("chat", tokens={MODEL: (ours,)}), a_tenant_quota("globex", tokens={MODEL: (others,)}))
    assert reason(case_of(a_use(), *quotas)) == expected


def test_a_shadow_guarantee_counts_for_itself_alone():
    quotas = (
        a_tenant_quota("chat", tokens={MODEL: (1500,)}),
        a_tenant_quota("shadow", mode="Shadow", tokens={MODEL: (1000,)}),
    )
    assert reason(case_of(a_use(), *quotas)) is None
    assert reason(case_of(a_use(), *quotas, tenant="shadow")) == Reason.OVERCOMMITTED


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param(0.0, None, id="not asked for: nothing is broken"),
        pytest.param(1000.0, None, id="asked for as much as is carried now"),
        pytest.param(1500.0, Reason.OVERCOMMITTED, id="asked for more than is carried now, within the guarantee"),
    ],
)
def test_a_guarantee_that_is_asked_for_and_not_granted(asked, expected):
    assert reason(case_of(a_use(asked=asked), a_tenant_quota("chat", tokens={MODEL: (2000,)}))) == expected


@pytest.mark.parametrize(
    ("coverage", "expected"),
    [
        (ProductCoverage(now={PRODUCT: Shortage(9, 8)}), Reason.OVERCOMMITTED),
        (ProductCoverage(now={"L40S": Shortage(9, 8)}), None),
        (ProductCoverage(peaks={PRODUCT: Shortage(9, 8, NOW + 7200)}), Reason.OVERCOMMITTED_AT_PEAK),
    ],
)
def test_gpus_that_are_promised_and_not_there(coverage, expected):
    quota = a_tenant_quota("chat", tokens={MODEL: (1000,)})
    assert reason(case_of(a_use(), quota, coverage=coverage)) == expected


def covered(use: ModelUse, *quotas: TenantQuotaView, gpus: int = 8) -> ProductCoverage:
    claims = the_claims(*quotas)
    usage = Usage({MODEL: use}, {}, {PRODUCT: gpus})
    return product_coverage(claims, model_divisions(claims, usage), usage)


WINDOW = FloorWindow(NOW + 3600, NOW + 7200, replicas=4)


@pytest.mark.parametrize(
    ("gpus", "now", "peak"),
    [
        pytest.param(3, {PRODUCT: Shortage(4, 3)}, {}, id="too few for the guarantees alone"),
        pytest.param(4, {}, {PRODUCT: Shortage(6, 4, WINDOW.start)}, id="too few once the window is open"),
        pytest.param(6, {}, {}, id="enough for both"),
    ],
)
def test_gpus_of_guarantees_and_of_floors(gpus, now, peak):
    """2 GPUs are guaranteed to a team, and 2 replicas of one GPU keep the guaranteed tokens; the floor asks for 4."""
    use = replace(a_use("chat"), windows=(WINDOW,))
    quotas = (a_tenant_quota("chat", tokens={MODEL: (1000,)}), a_tenant_quota("globex", gpus=[{"guaranteed": 2}]))
    assert covered(use, *quotas, gpus=gpus) == ProductCoverage(now, peak)


def test_a_team_that_holds_its_guaranteed_gpus_with_its_floor_needs_them_once():
    use = replace(a_use("chat"), windows=(WINDOW,))
    quota = a_tenant_quota("chat", gpus=[{"product": PRODUCT, "guaranteed": 4}])
    assert covered(use, quota, gpus=4) == ProductCoverage()


def test_a_group_needs_what_its_teams_need_or_what_it_is_guaranteed():
    org = a_tenant_quota("org", gpus=[{"product": PRODUCT, "guaranteed": 4}])
    teams = [a_tenant_quota(name, parent="org", gpus=[{"product": PRODUCT, "guaranteed": 2}]) for name in ("a", "b")]
    assert covered(a_use("default"), org, *teams, gpus=4) == ProductCoverage()
    assert covered(a_use("default"), org, *teams, gpus=3).now == {PRODUCT: Shortage(4, 3)}


def test_no_sentence_names_another_tenant():
    quotas = (a_tenant_quota("chat", tokens={MODEL: (1500,)}), a_tenant_quota("globex", tokens={MODEL: (900,)}))
    found = shortage_of(case_of(a_use(), *quotas))
    assert found is not None
    assert "globex" not in found.message
    assert "2,400" in found.message
