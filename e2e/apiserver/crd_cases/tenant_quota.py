"""TenantQuotas: names, namespaces, GPUs, keys and shares."""

from typing import Any

from e2e.apiserver.crd_cases.case import Manifest, QuotaCase

HASH = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
OTHER_HASH = "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"
OF_NOTHING = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def keys(**fields: Any) -> list[Manifest]:
    return [{"name": "ci", "sha256": HASH} | fields]


def shares(**fields: Any) -> list[Manifest]:
    return [{"model": "chat/llama-8b"} | fields]


IDENTITY = (
    QuotaCase("name of 41 characters", "metadata.name", "a" * 41, "a" * 40, "use at most 40 lower case letters"),
    QuotaCase(
        "name that begins with a digit",
        "metadata.name",
        "1st-team",
        "team-1",
        'metadata.name "1st-team" is not the name of a tenant',
    ),
    QuotaCase(
        "itself as parent",
        "spec.parent",
        "support",
        "acme",
        'spec.parent "support" is this quota itself; name another TenantQuota, or leave parent out',
    ),
    QuotaCase(
        "parent in upper case",
        "spec.parent",
        "ACME",
        "acme",
        '"ACME" is not the name of a TenantQuota; use lower case letters',
    ),
    QuotaCase(
        "a list of parents",
        "spec.parent",
        ["acme"],
        "acme",
        "must be of type string",
        '["acme"] is not text',
    ),
    QuotaCase(
        "namespace with a dot",
        "spec.namespaces",
        ["support.prod"],
        ["support-prod"],
        '"support.prod" is not the name of a namespace',
        at="spec.namespaces[0]",
    ),
    QuotaCase(
        "namespace twice",
        "spec.namespaces",
        ["support", "support"],
        ["support", "support-batch"],
        'spec.namespaces[1]: Duplicate value: "support"',
        '"support" appears twice; keep one',
    ),
    QuotaCase(
        "one namespace as text",
        "spec.namespaces",
        "support",
        ["support"],
        "must be of type array",
        '"support" is not a list',
    ),
    QuotaCase(
        "misspelt field",
        "spec",
        {"namespace": ["support"]},
        {"namespaces": ["support"]},
        'unknown field "spec.namespace"',
        "unknown field; did you mean namespaces?",
        at="spec.namespace",
    ),
)

WHOLE = (
    QuotaCase(
        "weight of zero",
        "spec.weight",
        0,
        1,
        "should be greater than or equal to 1",
        "0 is too small; use 1 or more",
    ),
    QuotaCase(
        "negative weight",
        "spec.weight",
        -3,
        3,
        "should be greater than or equal to 1",
        "-3 is too small; use 1 or more",
    ),
    QuotaCase(
        "weight as text",
        "spec.weight",
        "2",
        2,
        "must be of type integer",
        '"2" is not a whole number; write it without quotes',
    ),
    QuotaCase(
        "weight of a million",
        "spec.weight",
        1_000_000,
        1000,
        "should be less than or equal to 1000",
        "1000000 is too large; use 1000 or less",
    ),
    QuotaCase(
        "class in lower case",
        "spec.class",
        "batch",
        "Batch",
        'Unsupported value: "batch": supported values: "Interactive", "Batch"',
        "\"batch\" is not supported; use 'Interactive' or 'Batch'",
    ),
    QuotaCase(
        "unknown mode",
        "spec.mode",
        "DryRun",
        "Shadow",
        'Unsupported value: "DryRun": supported values: "Enforce", "Shadow"',
        "\"DryRun\" is not supported; use 'Enforce' or 'Shadow'",
    ),
)

GPUS = (
    QuotaCase(
        "more GPUs guaranteed than allowed",
        "spec.gpus",
        [{"guaranteed": 16, "limit": 8}],
        [{"guaranteed": 8, "limit": 16}],
        "guaranteed 16 is above limit 8; raise limit or lower guaranteed",
        at="spec.gpus[0].guaranteed",
    ),
    QuotaCase(
        "GPUs as text",
        "spec.gpus",
        [{"guaranteed": "8"}],
        [{"guaranteed": 8}],
        "must be of type integer",
        '"8" is not a whole number; write it without quotes',
        at="spec.gpus[0].guaranteed",
    ),
    QuotaCase(
        "half a GPU",
        "spec.gpus",
        [{"limit": 0.5}],
        [{"limit": 1}],
        "must be of type integer",
        "0.5 is not a whole number",
        at="spec.gpus[0].limit",
    ),
    QuotaCase(
        "fewer GPUs than none",
        "spec.gpus",
        [{"limit": -1}],
        [{"limit": 0}],
        "should be greater than or equal to 0",
        "-1 is too small; use 0 or more",
        at="spec.gpus[0].limit",
    ),
    QuotaCase(
        "an entry that says nothing",
        "spec.gpus",
        [{"product": "NVIDIA-L40S"}],
        [{"product": "NVIDIA-L40S", "limit": 4}],
        "an entry of gpus needs guaranteed or limit",
        at="spec.gpus[0]",
    ),
    QuotaCase(
        "product with a space",
        "spec.gpus",
        [{"product": "NVIDIA L40S", "limit": 4}],
        [{"product": "NVIDIA-L40S", "limit": 4}],
        '"NVIDIA L40S" is not a label value',
        at="spec.gpus[0].product",
    ),
    QuotaCase(
        "product twice",
        "spec.gpus",
        [{"product": "NVIDIA-L40S", "limit": 4}, {"product": "NVIDIA-L40S", "guaranteed": 2}],
        [{"product": "NVIDIA-L40S", "limit": 4}, {"product": "NVIDIA-H100-80GB-HBM3", "guaranteed": 2}],
        "a product appears twice, or two entries leave it out; keep one entry for each",
    ),
    QuotaCase(
        "every product twice",
        "spec.gpus",
        [{"limit": 4}, {"guaranteed": 2}],
        [{"limit": 4}, {"product": "NVIDIA-L40S", "guaranteed": 2}],
        "a product appears twice, or two entries leave it out; keep one entry for each",
    ),
)

KEYS = (
    QuotaCase(
        "the key itself for its hash",
        "spec.apiKeys",
        keys(sha256="fb-Zx81-secret"),
        keys(),
        '"fb-Zx81-secret" is not a SHA-256; write 64 lower case hexadecimal digits',
        at="spec.apiKeys[0].sha256",
    ),
    QuotaCase(
        "a hash of another length",
        "spec.apiKeys",
        keys(sha256=HASH[:40]),
        keys(),
        "is not a SHA-256",
        at="spec.apiKeys[0].sha256",
    ),
    QuotaCase(
        "a hash in upper case",
        "spec.apiKeys",
        keys(sha256=HASH.upper()),
        keys(),
        "is not a SHA-256",
        at="spec.apiKeys[0].sha256",
    ),
    QuotaCase(
        "the hash of nothing",
        "spec.apiKeys",
        keys(sha256=OF_NOTHING),
        keys(),
        "this is the SHA-256 of an empty text",
        at="spec.apiKeys[0].sha256",
    ),
    QuotaCase(
        "no hash",
        "spec.apiKeys",
        [{"name": "ci"}],
        keys(),
        "spec.apiKeys[0].sha256: Required value",
        "is required",
        at="spec.apiKeys[0].sha256",
    ),
    QuotaCase(
        "hash twice",
        "spec.apiKeys",
        [*keys(), *keys(name="web")],
        [*keys(), *keys(name="web", sha256=OTHER_HASH)],
        "a sha256 appears twice; keep one entry for each key",
    ),
    QuotaCase(
        "name of a key twice",
        "spec.apiKeys",
        [*keys(), *keys(sha256=OTHER_HASH)],
        [*keys(), *keys(name="web", sha256=OTHER_HASH)],
        'spec.apiKeys[1]: Duplicate value: {"name":"ci"}',
        '"ci" appears twice; keep one',
    ),
    QuotaCase(
        "key that ends on no day",
        "spec.apiKeys",
        keys(expiresAt="2027-02-30T00:00:00Z"),
        keys(expiresAt="2027-02-28T00:00:00Z"),
        '"2027-02-30T00:00:00Z" is not a time',
        at="spec.apiKeys[0].expiresAt",
    ),
    QuotaCase(
        "key that ends at a time of no zone",
        "spec.apiKeys",
        keys(expiresAt="2027-01-31T18:00:00"),
        keys(expiresAt="2027-01-31T18:00:00+01:00"),
        "is not a time; write date and time to the second with its offset",
        at="spec.apiKeys[0].expiresAt",
    ),
    QuotaCase(
        "unknown class of a key",
        "spec.apiKeys",
        keys(**{"class": "Realtime"}),
        keys(**{"class": "Interactive"}),
        'Unsupported value: "Realtime"',
        '"Realtime" is not supported',
        at="spec.apiKeys[0].class",
    ),
    QuotaCase(
        "name of a key with a slash",
        "spec.apiKeys",
        keys(name="team/ci"),
        keys(name="team-ci"),
        '"team/ci" is not the name of a key',
        at="spec.apiKeys[0].name",
    ),
)

SHARES = (
    QuotaCase(
        "more tokens guaranteed than allowed",
        "spec.shares",
        shares(guaranteed=2_000_000, limit=1_000_000),
        shares(guaranteed=1_000_000, limit=1_000_000),
        "guaranteed 2000000 is above limit 1000000; raise limit or lower guaranteed",
        at="spec.shares[0].guaranteed",
    ),
    QuotaCase(
        "tokens with a unit",
        "spec.shares",
        shares(guaranteed="300k"),
        shares(guaranteed=300_000),
        "must be of type integer",
        '"300k" is not a whole number',
        at="spec.shares[0].guaranteed",
    ),
    QuotaCase(
        "negative limit",
        "spec.shares",
        shares(limit=-1),
        shares(limit=0),
        "should be greater than or equal to 0",
        "-1 is too small; use 0 or more",
        at="spec.shares[0].limit",
    ),
    QuotaCase(
        "model without its namespace",
        "spec.shares",
        shares(model="llama-8b"),
        shares(),
        '"llama-8b" is not the name of a model; write namespace/name of its InferenceService',
        at="spec.shares[0].model",
    ),
    QuotaCase(
        "source for the model",
        "spec.shares",
        shares(model="hf://meta-llama/Llama-3.1-8B-Instruct"),
        shares(),
        "is not the name of a model",
        at="spec.shares[0].model",
    ),
    QuotaCase(
        "model twice",
        "spec.shares",
        [*shares(limit=1), *shares(limit=2)],
        [*shares(limit=1), *shares(model="chat/llama-70b", limit=2)],
        'spec.shares[1]: Duplicate value: {"model":"chat/llama-8b"}',
        '"chat/llama-8b" appears twice; keep one',
    ),
    QuotaCase(
        "no request per minute",
        "spec.shares",
        shares(requestsPerMinute=0),
        shares(requestsPerMinute=1),
        "should be greater than or equal to 1",
        "0 is too small; use 1 or more",
        at="spec.shares[0].requestsPerMinute",
    ),
    QuotaCase(
        "no request at a time",
        "spec.shares",
        shares(concurrency=0),
        shares(concurrency=1),
        "should be greater than or equal to 1",
        "0 is too small; use 1 or more",
        at="spec.shares[0].concurrency",
    ),
    QuotaCase(
        "a share of no model",
        "spec.shares",
        [{"guaranteed": 1}],
        shares(guaranteed=1),
        "spec.shares[0].model: Required value",
        "is required",
        at="spec.shares[0].model",
    ),
)

TENANT_QUOTAS = (*IDENTITY, *WHOLE, *GPUS, *KEYS, *SHARES)
