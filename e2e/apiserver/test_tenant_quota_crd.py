"""The CRD of TenantQuotas on a real API server: what it refuses, with which message, and what kubectl shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kubernetes
import pytest
import yaml

from e2e.apiserver.crd_cases import TENANT_QUOTAS, QuotaCase, a_quota
from e2e.apiserver.test_crds import Verdict, grown
from e2e.harness import ControlPlane
from e2e.harness.kubectl import Object
from forebay.api.schema.base_model import GROUP, VERSION
from forebay.api.schema.crds import TENANT_QUOTA
from forebay.api.schema.manifest import read_tenant_quota
from forebay.api.tenant_quota import MOST_KEYS, MOST_NAMESPACES, MOST_PRODUCTS, MOST_SHARES

CRD = Path(__file__).parents[2] / "crds" / TENANT_QUOTA.file_name


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane) -> ControlPlane:
    control_plane.kubectl.apply(CRD, server_side=True)
    control_plane.kubectl("wait", f"crd/{TENANT_QUOTA.name}", "--for=condition=Established", "--timeout=30s")
    return control_plane


@pytest.fixture(scope="module")
def judge(api: ControlPlane) -> Iterator[Callable[[Object], Verdict]]:
    with kubernetes.config.new_client_from_config(str(api.kubeconfig)) as client:
        objects = kubernetes.client.CustomObjectsApi(client)

        def ask(manifest: Object) -> Verdict:
            try:
                stored: Any = objects.create_cluster_custom_object(
                    GROUP, VERSION, TENANT_QUOTA.plural, manifest, dry_run="All", field_validation="Strict"
                )
            except kubernetes.client.ApiException as refusal:
                return Verdict(json.loads(refusal.body or "{}")["message"], None)
            return Verdict(None, stored)

        yield ask


@pytest.mark.parametrize("case", TENANT_QUOTAS, ids=str)
def test_refusal_names_the_field_and_the_remedy(judge, case: QuotaCase):
    refusal = judge(case.refused).refusal
    assert refusal is not None, "it is accepted"
    assert case.says in refusal
    assert case.named in refusal


@pytest.mark.parametrize("case", TENANT_QUOTAS, ids=str)
def test_corrected_twin_is_accepted_and_read(judge, case: QuotaCase):
    verdict = judge(case.accepted)
    assert verdict.refusal is None
    assert read_tenant_quota(verdict.stored).wire()["spec"] == case.accepted["spec"]


def test_at_least_25_cases():
    assert len(TENANT_QUOTAS) >= 25


def test_the_crd_stays_well_within_the_cost_budget(api):
    crd = grown(yaml.safe_load(CRD.read_text()), 1.4)
    api.kubectl("replace", "--dry-run=server", "-f", "-", stdin=json.dumps(crd))


def test_the_largest_quota_is_accepted(judge):
    """The API server also limits what rules cost when they run."""
    spec = {
        "namespaces": [f"{number:063}" for number in range(MOST_NAMESPACES)],
        "gpus": [{"product": f"{number:063}", "limit": 1} for number in range(MOST_PRODUCTS)],
        "apiKeys": [{"name": f"{number:063}", "sha256": f"{number:064x}"} for number in range(MOST_KEYS)],
        "shares": [{"model": f"{'a' * 63}/m{number}", "guaranteed": 1, "limit": 2} for number in range(MOST_SHARES)],
    }
    verdict = judge(a_quota() | {"spec": spec})
    assert verdict.refusal is None


def test_nothing_is_defaulted_into_a_stored_object(judge):
    assert judge(a_quota()).stored["spec"] == {}


def test_columns_show_who_has_what(api):
    api.kubectl.apply(a_quota("seen"))
    status: Object = {
        "observedGeneration": 1,
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "QuotaActive",
                "message": "All of the quota counts.",
                "lastTransitionTime": "2026-03-01T11:00:00Z",
                "observedGeneration": 1,
            }
        ],
        "tokens": {
            "guaranteed": 300000,
            "asked": 500000,
            "granted": 450000,
            "used": 440000,
            "borrowed": 150000,
            "lent": 0,
        },
        "gpus": {"used": 8},
    }
    body = json.dumps({"status": status})
    api.kubectl("patch", "tq", "seen", "--subresource=status", "--type=merge", "-p", body)
    header, row = api.kubectl("get", "tq", "seen").splitlines()
    stored = api.kubectl.get("tq", "seen")
    api.kubectl("delete", "tq", "seen")
    assert header.split() == ["NAME", "GUARANTEED", "GRANTED", "USED", "BORROWED", "LENT", "GPUS", "READY", "AGE"]
    assert row.split()[:-1] == ["seen", "300000", "450000", "440000", "150000", "0", "8", "True"]
    assert stored is not None
    assert stored["status"] == status
