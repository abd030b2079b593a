"""InferenceService manifests, for tests of parsing and validation."""

import copy
from typing import Any

from hypothesis import strategies as st

_Path = tuple[str | int, ...]
_TEXTS = st.text(alphabet="aZ0-_./:@= \n%é{", max_size=24)
_JUNK = st.one_of(st.integers(-2, 2000), st.booleans(), st.just([]), st.just({}), st.just(""), st.just("a" * 5000))


def a_full_spec() -> dict[str, Any]:
    """A valid spec that sets every field, except fields that exclude each other."""
    return {
        "model": {
            "source": "hf://meta-llama/Llama-3.1-8B-Instruct@main",
            "secretRef": {"name": "hub"},
            "cache": {"pvc": "weights"},
            "architecture": _architecture(),
            "quantization": "fp8",
            "kvCacheDtype": "fp8",
            "maxModelLen": 8192,
        },
        "engine": {
            "image": "docker.io/vllm/vllm-openai:v0.32.0",
            "version": "0.32.0",
            "tensorParallelSize": 2,
            "pipelineParallelSize": 1,
            "dataParallelSize": 2,
            "nodes": 1,
            "gpuMemoryUtilizationPercent": 90,
            "maxNumSeqs": 128,
            "speculative": {
                "method": "eagle3",
                "model": "hf://example/eagle3-llama-8b",
                "tokens": 4,
                "acceptancePercent": 60,
                "draftCostPercent": 5,
            },
            "startupTimeout": "15m",
            "extraArgs": ["--enforce-eager", "--seed", "1"],
            "env": [{"name": "VLLM_LOGGING_LEVEL", "value": "DEBUG"}, {"name": "EMPTY", "value": ""}],
        },
        "gpu": {"product": "NVIDIA-H100-80GB-HBM3", "resourceName": "nvidia.com/gpu"},
        "variants": [
            {
                "name": "l40s",
                "gpu": {"product": "NVIDIA-L40S", "resourceName": "nvidia.com/gpu"},
                "engine": {
                    "tensorParallelSize": 4,
                    "pipelineParallelSize": 1,
                    "dataParallelSize": 1,
                    "nodes": 1,
                    "gpuMemoryUtilizationPercent": 85,
                    "maxNumSeqs": 64,
                },
            }
        ],
        "slo": {
            "timeToFirstToken": {"p95": "500ms"},
            "interTokenLatency": {"mean": "40ms"},
            "queueWait": {"p99": "1s"},
            "endToEnd": {"p95": "30s"},
        },
        "traffic": {
            "requestsPerMonth": 6_000_000,
            "peakFactor": 4.5,
            "promptTokens": 600,
            "outputTokens": 260,
            "headroom": 1.5,
        },
        "scaling": {
            "mode": "Auto",
            "minReplicas": 2,
            "maxReplicas": 8,
            "targets": {"queueDepth": 20, "kvCachePercent": 80},
            "headroomPercent": 25,
            "scaleUpCooldown": "1m30s",
            "scaleDownCooldown": "5m",
            "scaleToZeroAfter": "15m",
        },
        "warmPool": {"replicas": 1, "placeholders": 2},
        "schedules": [
            {
                "name": "launch",
                "at": ["2026-11-27T18:00"],
                "duration": "3h",
                "floor": {"tokensPerMinute": 2_000_000},
            },
            {
                "name": "morning",
                "start": "0 8 * * MON-FRI",
                "timeZone": "Europe/Berlin",
                "duration": "4h30m",
                "floor": {"replicas": 6},
                "exceptDates": ["2026-12-25"],
            },
        ],
        "rollout": {"drainTimeout": "10m", "maxSurge": 1, "whenNoSpare": "Replace"},
        "pod": {
            "resources": {"cpu": "8", "memory": "64Gi"},
            "nodeSelector": {"topology.kubernetes.io/region": "north"},
            "tolerations": [
                {"key": "gpu", "operator": "Equal", "value": "llm", "effect": "NoExecute", "tolerationSeconds": 60}
            ],
            "affinity": _affinity(),
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
            ],
            "serviceAccountName": "reader",
            "imagePullSecrets": ["registry", "mirror"],
            "runtimeClassName": "nvidia",
            "priorityClassName": "serving",
            "volumes": _volumes(),
            "envFrom": [{"secret": "keys"}, {"configMap": "settings"}],
            "annotations": {"example.com/team": "a"},
            "templateRef": "engine",
        },
    }


def _architecture() -> dict[str, Any]:
    return {
        "parameters": 8_030_261_248,
        "activeParameters": 8_030_261_248,
        "layers": 32,
        "attentionHeads": 32,
        "kvHeads": 8,
        "headDim": 128,
        "hiddenSize": 4096,
        "mla": {"kvLoraRank": 512, "ropeDim": 64},
        "slidingWindow": {"size": 4096, "layers": 16},
        "experts": {"count": 8, "active": 2},
        "weightBits": 8,
        "contextTokens": 131_072,
    }


def _volumes() -> list[dict[str, Any]]:
    return [
        {"name": "adapters", "mountPath": "/adapters", "readOnly": True, "pvc": "adapters"},
        {"name": "keys", "mountPath": "/etc/keys", "secret": "keys"},
        {"name": "settings", "mountPath": "/settings", "configMap": "settings"},
        {"name": "scratch", "mountPath": "/scratch", "emptyDir": True},
    ]


def _affinity() -> dict[str, Any]:
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}
    pods = {
        "matchLabels": {"app": "batch"},
        "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["x"]}],
    }
    near = {
        "labelSelector": pods,
        "namespaces": ["batch"],
        "namespaceSelector": pods,
        "topologyKey": "kubernetes.io/hostname",
    }
    apart = {
        "requiredDuringSchedulingIgnoredDuringExecution": [near],
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "podAffinityTerm": near}],
    }
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [zone]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": zone}],
        },
        "podAffinity": apart,
        "podAntiAffinity": apart,
    }


def changed_specs() -> st.SearchStrategy[dict[str, Any]]:
    """The full spec with one value replaced, mostly by an invalid one."""
    return st.builds(_replaced, st.sampled_from(_leaves(a_full_spec())), st.one_of(_TEXTS, _JUNK))


def _leaves(value: Any, path: _Path = ()) -> list[_Path]:
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in _leaves(item, (*path, key))]
    if isinstance(value, list):
        return [leaf for position, item in enumerate(value) for leaf in _leaves(item, (*path, position))]
    return [path]


def _replaced(path: _Path, leaf: Any) -> dict[str, Any]:
    spec = a_full_spec()
    node: Any = spec
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = copy.deepcopy(leaf)
    return spec
