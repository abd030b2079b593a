"""What admission reads of one model: in shards that fit into an object, and read back as it was written."""

import json

import pytest

from forebay.api.tenant_quota import QuotaMode, TenantClass
from forebay.workloads.canonical_json import canonical_json
from forebay.workloads.objects.share_plan import (
    DATA_KEY,
    PlannedShards,
    PlannedTenant,
    read_shard,
    shard_name,
    sharded,
    share_plan_body,
)

TENANTS = (
    PlannedTenant("support", parent="org", weight=2, guaranteed=300_000, limit=500_000, concurrency=40),
    PlannedTenant("nightly", tenant_class=TenantClass.BATCH, mode=QuotaMode.SHADOW, requests_per_minute=60),
    PlannedTenant("org", listed=False),
)


def test_the_config_map_of_a_model():
    shards = PlannedShards.of(TENANTS).shards
    assert share_plan_body("forebay-system", "chat/llama-8b", 1_764_600_000, 1_200_000.5, shards, 0) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "share-plan.chat.llama-8b.0",
            "namespace": "forebay-system",
            "labels": {"app.kubernetes.io/managed-by": "forebay", "forebay.dev/share-plan": "tokens"},
        },
        "data": {
            "plan.json": canonical_json(
                {
                    "format": 1,
                    "epoch": 1_764_600_000,
                    "model": "chat/llama-8b",
                    "shard": 0,
                    "shards": 1,
                    "capacity": 1_200_000.5,
                    "tenants": [
                        {
                            "name": "nightly",
                            "listed": True,
                            "class": "Batch",
                            "mode": "Shadow",
                            "weight": 1,
                            "requestsPerMinute": 60,
                        },
                        {"name": "org", "listed": False, "class": "Interactive", "mode": "Enforce", "weight": 1},
                        {
                            "name": "support",
                            "listed": True,
                            "parent": "org",
                            "class": "Interactive",
                            "mode": "Enforce",
                            "weight": 2,
                            "guaranteed": 300_000,
                            "limit": 500_000,
                            "concurrency": 40,
                        },
                    ],
                }
            )
        },
    }


def test_a_guarantee_of_zero_is_not_an_absent_limit():
    assert PlannedTenant("idle", limit=0).as_json()["limit"] == 0


def test_names_tell_models_apart():
    assert len({shard_name("a-b/c", 0), shard_name("a/b-c", 0), shard_name("a/b.c", 0), shard_name("a/b.c", 1)}) == 4


@pytest.mark.parametrize("count", [0, 1, 500])
def test_every_tenant_is_in_one_shard_and_no_shard_is_too_large(count: int):
    tenants = [PlannedTenant(f"tenant-{number:04}", limit=10**number % 10**9) for number in range(count)]
    shards = sharded(reversed(tenants), most_bytes=5_000)
    assert [tenant for shard in shards for tenant in shard] == tenants
    assert all(len(canonical_json([tenant.as_json() for tenant in shard])) <= 5_001 for shard in shards)
    assert len(shards) >= 1


def test_a_shard_is_read_as_it_was_written():
    planned = PlannedShards.of(TENANTS)
    body = share_plan_body("forebay-system", "chat/llama-8b", 7, None, planned.shards, 0)
    shard = read_shard("share-plan.chat.llama-8b.0", "uid", "1", body["data"])
    assert (shard.model, shard.epoch, shard.shard, shard.shards, shard.capacity, shard.digest) == (
        "chat/llama-8b",
        7,
        0,
        1,
        None,
        planned.digests[0],
    )


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({}, id="no content"),
        pytest.param({DATA_KEY: "{"}, id="no JSON"),
        pytest.param({DATA_KEY: "[]"}, id="no object"),
        pytest.param({DATA_KEY: json.dumps({"format": 2})}, id="a later format"),
        pytest.param({DATA_KEY: json.dumps({"format": 1, "epoch": "soon"})}, id="no epoch"),
    ],
)
def test_what_cannot_be_read_has_no_model(data: dict[str, str]):
    assert read_shard("share-plan.chat.llama-8b.0", "uid", "1", data).model == ""
