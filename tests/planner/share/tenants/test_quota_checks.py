"""Every check of a quota among others: the case that it finds, beside one that it leaves alone."""

from typing import Any

import pytest

from forebay.api.instants import rfc3339
from forebay.api.reasons import Reason
from forebay.planner.share.tenants.quota_checks import CHECKS, QuotaCase, faults_of
from forebay.world.tenants import TenantQuotaView
from tests.builders.tenant_quotas import a_tenant_quota, the_claims, unreadable
from tests.builders.world import NOW

HASH, OTHER_HASH = "a" * 64, "b" * 64
NEIGHBOUR = "globex-secret"


def a_key(sha256: str = HASH, **fields: str) -> dict[str, str]:
    return {"name": "ci", "sha256": sha256, **fields}


def a_neighbour(age: float = 7200.0, **spec: Any) -> TenantQuotaView:
    """Another tenant, older than `ours` by default."""
    return a_tenant_quota(NEIGHBOUR, age=age, **spec)


def ours(**spec: Any) -> TenantQuotaView:
    return a_tenant_quota("ours", age=3600, **spec)


CASES = [
    pytest.param(ours(), [], [], id="a quota that says nothing"),
    pytest.param(unreadable(ours()), [], [Reason.SPEC_INVALID], id="a spec of another version"),
    pytest.param(ours(parent="org"), [a_tenant_quota("org")], [], id="a parent that exists"),
    pytest.param(ours(parent="org"), [], [Reason.PARENT_UNKNOWN], id="a parent that does not"),
    pytest.param(
        ours(parent=NEIGHBOUR), [a_neighbour(parent="ours")], [Reason.PARENT_CYCLE], id="the younger of a cycle"
    ),
    pytest.param(ours(parent=NEIGHBOUR), [a_neighbour(60, parent="ours")], [], id="the older of a cycle"),
    pytest.param(
        ours(namespaces=["a", "b"]),
        [a_neighbour(namespaces=["b"])],
        [Reason.NAMESPACE_CLAIMED],
        id="a namespace of an older",
    ),
    pytest.param(ours(namespaces=["a"]), [a_neighbour(60, namespaces=["a"])], [], id="a namespace of a younger"),
    pytest.param(
        ours(apiKeys=[a_key()]), [a_neighbour(apiKeys=[a_key()])], [Reason.KEY_CLAIMED], id="a hash of an older"
    ),
    pytest.param(ours(apiKeys=[a_key()]), [a_neighbour(60, apiKeys=[a_key()])], [], id="a hash of a younger"),
    pytest.param(
        ours(apiKeys=[a_key()]), [a_neighbour(apiKeys=[a_key(OTHER_HASH)])], [], id="the same name for another hash"
    ),
    pytest.param(ours(tokens={"chat/llama": (1,)}), [], [], id="a model that exists"),
    pytest.param(ours(tokens={"chat/none": (1,)}), [], [Reason.MODEL_UNKNOWN], id="a model that does not"),
    pytest.param(
        ours(parent="org", tokens={"chat/llama": (60,)}),
        [
            a_tenant_quota("org", age=9000, tokens={"chat/llama": (100,)}),
            a_neighbour(parent="org", tokens={"chat/llama": (60,)}),
        ],
        [Reason.GUARANTEE_ABOVE_PARENT],
        id="guaranteed more than the parent, with an older sibling",
    ),
    pytest.param(
        ours(parent="org", tokens={"chat/llama": (60,)}),
        [
            a_tenant_quota("org", age=9000, tokens={"chat/llama": (100,)}),
            a_neighbour(60, parent="org", tokens={"chat/llama": (60,)}),
        ],
        [],
        id="guaranteed more than the parent, with a younger sibling",
    ),
    pytest.param(ours(apiKeys=[a_key(expiresAt=rfc3339(NOW))]), [], [Reason.KEY_EXPIRED], id="a key that ends now"),
    pytest.param(ours(apiKeys=[a_key(expiresAt=rfc3339(NOW + 1))]), [], [], id="a key that ends in a second"),
    pytest.param(
        ours(parent="org", namespaces=["a"], tokens={"chat/none": (1,)}),
        [a_neighbour(namespaces=["a"])],
        [Reason.PARENT_UNKNOWN, Reason.NAMESPACE_CLAIMED, Reason.MODEL_UNKNOWN],
        id="three faults at once, in the order of the checks",
    ),
]


def case_of(quota: TenantQuotaView, others: list[TenantQuotaView]) -> QuotaCase:
    return QuotaCase(quota, the_claims(quota, *others), frozenset({"chat/llama"}), NOW)


@pytest.mark.parametrize(("quota", "others", "reasons"), CASES)
def test_faults_of_a_quota(quota: TenantQuotaView, others: list[TenantQuotaView], reasons: list[Reason]):
    assert [fault.reason for fault in faults_of(case_of(quota, others))] == reasons


def test_every_check_has_a_case():
    found = {str(reason) for case in CASES for reason in case.values[-1]}  # type: ignore[union-attr]
    assert len(found) == len(CHECKS)


@pytest.mark.parametrize(("quota", "others", "reasons"), CASES)
def test_a_fault_names_no_other_tenant_but_the_parent_that_the_quota_names(quota, others, reasons):
    if quota.spec is not None and quota.spec.parent == NEIGHBOUR:
        return
    assert [fault.message for fault in faults_of(case_of(quota, others)) if NEIGHBOUR in fault.message] == []


@pytest.mark.parametrize(("quota", "others", "reasons"), CASES)
def test_a_fault_begins_with_the_field(quota, others, reasons):
    assert all(fault.message.startswith("spec") for fault in faults_of(case_of(quota, others)))
