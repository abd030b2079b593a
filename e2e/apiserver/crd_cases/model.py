"""`spec.model`."""

from e2e.apiserver.crd_cases.case import SOURCE, Case

MODEL = (
    Case(
        "no source",
        "spec.model",
        {},
        {"source": SOURCE},
        "spec.model.source: Required value",
        "is required",
        at="spec.model.source",
    ),
    Case(
        "unknown source scheme",
        "spec.model.source",
        "ftp://models/chat",
        "s3://models/chat",
        '"ftp://models/chat" is not a model source; write hf://organization/name, hf://organization/name@revision,',
    ),
    Case(
        "source without a scheme",
        "spec.model.source",
        "meta-llama/Llama-3.1-8B",
        "hf://meta-llama/Llama-3.1-8B",
        '"meta-llama/Llama-3.1-8B" is not a model source; write hf://organization/name',
    ),
    Case(
        "hub source without organization", "spec.model.source", "hf://gpt2", "hf://openai/gpt2", "is not a model source"
    ),
    Case(
        "hub source with an empty revision", "spec.model.source", "hf://a/b@", "hf://a/b@v1.0", "is not a model source"
    ),
    Case(
        "image source without repository",
        "spec.model.source",
        "oci://registry",
        "oci://registry/chat:1",
        "is not a model source",
    ),
    Case(
        "claim in upper case", "spec.model.source", "pvc://Weights/chat", "pvc://weights/chat", "is not a model source"
    ),
    Case(
        "source with a line break in it",
        "spec.model.source",
        "s3://models/a\nb",
        "s3://models/a-b",
        "is not a model source; write hf://",
    ),
    Case(
        "path that leaves the claim",
        "spec.model.source",
        "pvc://weights/../../etc",
        "pvc://weights/a..b",
        '"pvc://weights/../../etc" leaves its bucket or volume; write the path without ".."',
    ),
    Case(
        "source of 600 characters",
        "spec.model.source",
        "s3://models/" + "a" * 588,
        "s3://models/" + "a" * 500,
        "Too long: may not be more than 512 bytes",
        "600 characters are too many; use at most 512",
    ),
    Case(
        "unknown quantization",
        "spec.model.quantization",
        "int3",
        "awq",
        'Unsupported value: "int3": supported values: "none"',
        "\"int3\" is not supported; use 'none', 'awq'",
    ),
    Case(
        "KV cache type that only one engine version has",
        "spec.model.kvCacheDtype",
        "nvfp4",
        "fp8",
        'Unsupported value: "nvfp4": supported values: "auto", "fp8"',
        "\"nvfp4\" is not supported; use 'auto' or 'fp8'",
    ),
    Case(
        "maxModelLen of 0",
        "spec.model.maxModelLen",
        0,
        8192,
        "should be greater than or equal to 1",
        "0 is too small; use 1 or more",
    ),
    Case(
        "secret named as a path",
        "spec.model.secretRef.name",
        "team/hub",
        "team-hub",
        '"team/hub" is not the name of an object; use lower case letters, digits',
    ),
    Case(
        "secret for a claim",
        "spec.model",
        {"source": "pvc://weights/chat", "secretRef": {"name": "hub"}},
        {"source": SOURCE, "secretRef": {"name": "hub"}},
        'secretRef has no effect with "pvc://weights/chat"',
        at="spec.model.secretRef",
    ),
    Case(
        "cache with pvc and nodePath",
        "spec.model.cache",
        {"pvc": "cache", "nodePath": "/var/cache/models"},
        {"pvc": "cache"},
        "a cache needs exactly one of pvc and nodePath",
    ),
    Case(
        "cache without pvc and nodePath",
        "spec.model.cache",
        {},
        {"nodePath": "/var/cache/models"},
        "exactly one of pvc and nodePath",
    ),
    Case(
        "cache in a relative path",
        "spec.model.cache.nodePath",
        "var/cache",
        "/var/cache",
        '"var/cache" is not a folder; write an absolute path without ".." or "//"',
    ),
)
