"""TenantQuota: model and schema agree on what is valid; each wrong value is shown beside a valid one."""

from typing import Any

import pytest

from e2e.apiserver.crd_cases import TENANT_QUOTAS, QuotaCase, a_quota
from e2e.apiserver.crd_cases.tenant_quota import HASH
from forebay.api.schema.crds import TENANT_QUOTA, definition, schema
from forebay.api.schema.manifest import ManifestError, read_services, read_tenant_quota
from forebay.api.tenant_quota import MOST_NAMESPACES, MOST_SHARES
from tests.api.schema_validator import violations

SPEC: dict[str, Any] = {
    "parent": "acme",
    "namespaces": ["support", "support-batch"],
    "gpus": [{"product": "NVIDIA-H100-80GB-HBM3", "guaranteed": 8, "limit": 16}, {"limit": 4}],
    "apiKeys": [{"name": "ci", "sha256": HASH, "class": "Batch", "expiresAt": "2027-01-31T18:00:00Z"}],
    "class": "Interactive",
    "mode": "Shadow",
    "weight": 2,
    "shares": [
        {
            "model": "chat/llama-8b",
            "guaranteed": 300_000,
            "limit": 600_000,
            "class": "Interactive",
            "requestsPerMinute": 600,
            "concurrency": 40,
        }
    ],
}


def schema_violations(manifest: dict[str, Any]) -> tuple[str, ...]:
    return violations(schema(TENANT_QUOTA), manifest)


def test_a_full_quota_sets_every_field_and_is_written_back():
    full = a_quota() | {"spec": SPEC}
    properties = schema(TENANT_QUOTA)["properties"]["spec"]["properties"]
    assert set(SPEC) == set(properties)
    assert set(SPEC["gpus"][0]) == set(properties["gpus"]["items"]["properties"])
    assert set(SPEC["apiKeys"][0]) == set(properties["apiKeys"]["items"]["properties"])
    assert set(SPEC["shares"][0]) == set(properties["shares"]["items"]["properties"])
    assert read_tenant_quota(full).wire() == full
    assert schema_violations(full) == ()


def test_a_quota_is_cluster_scoped_with_a_status_and_its_columns():
    spec = definition(TENANT_QUOTA)["spec"]
    assert (spec["scope"], spec["versions"][0]["subresources"]) == ("Cluster", {"status": {}})
    shown = [column.name for column in TENANT_QUOTA.columns if not column.wide]
    assert shown == ["Guaranteed", "Granted", "Used", "Borrowed", "Lent", "GPUs", "Ready", "Age"]


@pytest.mark.parametrize("case", TENANT_QUOTAS, ids=str)
def test_an_invalid_field_is_refused_and_its_correction_accepted(case: QuotaCase):
    with pytest.raises(ManifestError) as refused:
        read_tenant_quota(case.refused)
    assert (case.offline or case.says) in str(refused.value)
    assert schema_violations(case.refused) != ()
    assert read_tenant_quota(case.accepted).wire() == case.accepted
    assert schema_violations(case.accepted) == ()


@pytest.mark.parametrize(
    ("field", "largest", "more"),
    [
        ("namespaces", MOST_NAMESPACES, lambda number: [f"team-{one}" for one in range(number)]),
        ("shares", MOST_SHARES, lambda number: [{"model": f"team/m{one}"} for one in range(number)]),
    ],
)
def test_lists_are_bounded(field, largest, more):
    assert read_tenant_quota(a_quota() | {"spec": {field: more(largest)}})
    with pytest.raises(ManifestError, match="at most"):
        read_tenant_quota(a_quota() | {"spec": {field: more(largest + 1)}})


def test_a_quota_in_a_file_of_services_is_skipped():
    text = "apiVersion: forebay.dev/v1alpha1\nkind: TenantQuota\nmetadata: {name: a}\nspec: {weight: 1}\n"
    with pytest.raises(ManifestError, match="no InferenceService"):
        read_services(text)
