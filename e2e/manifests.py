"""Builders of InferenceServices, so that a suite states only the fields that matter to it."""

from __future__ import annotations

import copy
import json
import math
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

from e2e.harness.kubectl import Object


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """How fast the simulated engine is: one step takes a + b·P + c·B + d·K seconds."""

    a: float = 0.2
    b: float = 0.00001
    c: float = 0.0
    d: float = 0.0
    kv_tokens: int = 200_000

    def environment(self, load_seconds: float) -> list[Object]:
        return [
            {
                "name": "ENGINE_SIM_PROFILE",
                "value": json.dumps({"a": self.a, "b": self.b, "c": self.c, "d": self.d, "kv_tokens": self.kv_tokens}),
            },
            {"name": "ENGINE_SIM_LOAD_SECONDS", "value": str(load_seconds)},
        ]


@dataclass(slots=True)
class ServiceManifest:
    """`an_inference_service("chat").replicas(2, 4).profile(...)`; `object` is what kubectl applies."""

    object: Object = field(default_factory=dict)

    def replicas(self, least: int, most: int) -> Self:
        self.object["spec"]["scaling"].update(minReplicas=least, maxReplicas=most)
        return self

    def cooldowns(self, up: str, down: str) -> Self:
        self.object["spec"]["scaling"].update(scaleUpCooldown=up, scaleDownCooldown=down)
        return self

    def targets(self, queue_depth: int, kv_cache_percent: int = 80) -> Self:
        self.object["spec"]["scaling"]["targets"] = {"queueDepth": queue_depth, "kvCachePercent": kv_cache_percent}
        return self

    def profile(self, profile: EngineProfile, load_seconds: float = 0.0) -> Self:
        self.object["spec"]["engine"]["env"] = profile.environment(load_seconds)
        return self

    def engine(self, **fields: Any) -> Self:
        self.object["spec"]["engine"].update(fields)
        return self

    def gpu(self, **fields: Any) -> Self:
        self.object["spec"]["gpu"] = fields
        return self

    def drain_timeout(self, text: str) -> Self:
        self.object["spec"].setdefault("rollout", {})["drainTimeout"] = text
        return self

    def scheduled(self, at: datetime, replicas: int, duration: str = "1h") -> Self:
        """A floor for one window; `at` is to the minute, and in UTC."""
        window = {"name": "peak", "at": [at.strftime("%Y-%m-%dT%H:%M")], "duration": duration}
        self.object["spec"]["schedules"] = [window | {"floor": {"replicas": replicas}}]
        return self

    def lenient_slo(self) -> Self:
        """Latency guards that a deliberately slow engine does not exceed."""
        self.object["spec"]["slo"] = {
            "timeToFirstToken": {"p95": "1h"},
            "interTokenLatency": {"mean": "1m"},
            "queueWait": {"p99": "1h"},
        }
        return self

    def copy(self) -> ServiceManifest:
        return ServiceManifest(copy.deepcopy(self.object))


def minute_after(seconds: float) -> datetime:
    """The first full minute that is so many seconds ahead."""
    return datetime.fromtimestamp(math.ceil((time.time() + seconds) / 60) * 60, UTC)


def an_inference_service(name: str, namespace: str = "default") -> ServiceManifest:
    """One GPU a replica, one replica, the suites' engine."""
    return ServiceManifest(
        {
            "apiVersion": "forebay.dev/v1alpha1",
            "kind": "InferenceService",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "model": {"source": "hf://meta-llama/Llama-3.1-8B-Instruct"},
                "engine": {"maxNumSeqs": 256},
                "scaling": {"minReplicas": 1, "maxReplicas": 1},
            },
        }
    )
