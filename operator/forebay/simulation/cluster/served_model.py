"""A service as it is simulated: what the planner is told of it, and what its engines truly are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

from forebay.api.warm_pool import WarmPool
from forebay.capacity.model.profile_choice import GivenProfile
from forebay.cluster.read.pool_views import WarmPoolObject, pool_view
from forebay.cluster.read.projections import InferenceServiceObject
from forebay.cluster.read.service_views import ServiceViews
from forebay.simulation.engine.prefill_seconds import prefill_seconds
from forebay.simulation.engine.replica_engine import EngineLimits
from forebay.simulation.engine.simulated_profile import EngineProfile
from forebay.simulation.traffic.traces import Floats
from forebay.simulation.vllm_server.vllm_arguments import parse_serve
from forebay.workloads.objects.ownership import Owner
from forebay.workloads.objects.pod import build_pod
from forebay.workloads.spec.engine_versions import Defaults
from forebay.world.world import Revision, ServiceView, WarmPoolView

OPERATOR_NAMESPACE = "forebay-system"
"""Where the pods of WarmPools are."""
TRUE_WITHIN: float = 0.2
"""Public coefficients are as far off as that (science.md 3d)."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    view: ServiceView
    """As the operator resolved it from the manifest; its plan rests on the profile that the operator believes."""
    profile: EngineProfile
    """What an engine truly costs."""
    limits: EngineLimits
    termination_seconds: float = 5.0
    """From the last answer to the end of the pod."""
    grace_seconds: float = 340.0
    """After which a pod that is being deleted is killed."""
    prefill_on_top: bool = False
    """Whether a first token may also take what its own prompt takes to compute: for contexts of very different lengths
    that no one limit fits."""

    def allowed(self, prompt: Floats, computed: Floats) -> Floats:
        """Seconds by which each request's first token may come after the promised time, by its lengths in tokens."""
        return self.prefill_seconds(prompt, computed) if self.prefill_on_top else np.zeros_like(computed)

    def prefill_seconds(self, prompt: Floats, computed: Floats) -> Floats:
        """What each prompt truly adds to the steps that compute it, by its tokens and those that no cache spares."""
        return prefill_seconds(self.profile, prompt, computed)


def view_of_manifest(
    document: dict[str, Any], created: str = "2025-01-01T00:00:00Z", profiles: tuple[GivenProfile, ...] = ()
) -> ServiceView:
    """The service as the production operator resolves it from a manifest, with the PerformanceProfiles beside it."""
    metadata = document.get("metadata", {})
    stored = _stored(document, metadata.get("namespace", "default"), metadata.get("name", "service"), created)
    return ServiceViews().view(InferenceServiceObject.model_validate(stored), profiles=profiles)


def pool_of_manifest(pool: WarmPool, created: str = "2025-01-01T00:00:00Z") -> WarmPoolView:
    """A WarmPool as the production operator reads it."""
    document = {"spec": pool.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)}
    stored = _stored(document, OPERATOR_NAMESPACE, pool.metadata.name, created)
    return pool_view(WarmPoolObject.model_validate(stored), OPERATOR_NAMESPACE, Defaults())


def _stored(document: dict[str, Any], namespace: str, name: str, created: str) -> dict[str, Any]:
    """As the API server keeps it."""
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "generation": 1,
            "creationTimestamp": created,
            "resourceVersion": "1",
        },
        "spec": document.get("spec", {}),
    }


def limits_of(view: ServiceView, profile: EngineProfile) -> EngineLimits:
    """The scheduler settings that the pod's own command line asks for. Raises ValueError for one that cannot start."""
    if view.wanted is None:
        why = "; ".join(problem.message for problem in view.problems)
        raise ValueError(f"{view.key} has nothing to simulate: {why}")
    arguments = parse_serve(_serve_arguments(view, view.wanted))
    if arguments.data_parallel_size > 1:
        raise ValueError(f"{view.key}: dataParallelSize {arguments.data_parallel_size} is not simulated; use 1")
    return arguments.limits(profile)


def _serve_arguments(view: ServiceView, revision: Revision) -> list[str]:
    pod = build_pod(Owner(view.key, view.uid), revision, 0, 0, "simulated")
    container = pod["spec"]["containers"][0]
    words: list[str] = [*(container.get("command") or ()), *(container.get("args") or ())]
    return words[words.index("serve") + 1 :] if "serve" in words else words


def drawn_profile(believed: EngineProfile, seed: int, within: float = TRUE_WITHIN) -> EngineProfile:
    """The truth behind a profile that is off by up to `within`: a, b, c and d each by a factor of their own."""
    draw = Random(f"{seed}/profile")
    a, b, c, d = (draw.uniform(1 - within, 1 + within) for _ in range(4))
    return replace(
        believed,
        step_seconds=believed.step_seconds * a,
        prompt_token_seconds=believed.prompt_token_seconds * b,
        prompt_square_seconds=believed.prompt_square_seconds * b,
        sequence_seconds=believed.sequence_seconds * c,
        kv_token_seconds=believed.kv_token_seconds * d,
    )
