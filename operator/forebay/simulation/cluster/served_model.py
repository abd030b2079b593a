"""A simulated service: what the operator knows of it, and how its engines truly perform.

The two differ on purpose, since a published profile never fits an engine exactly.
"""

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
from forebay.simulation.engine.replica_engine import EngineLimits
from forebay.simulation.engine.simulated_profile import EngineProfile
from forebay.simulation.traffic.traces import Floats
from forebay.simulation.vllm_server.vllm_arguments import parse_serve
from forebay.workloads.objects.ownership import Owner
from forebay.workloads.objects.pod import build_pod
from forebay.workloads.spec.engine_versions import Defaults
from forebay.world.world import Revision, ServiceView, WarmPoolView

OPERATOR_NAMESPACE = "forebay-system"
"""The namespace of the pods of WarmPools."""
COEFFICIENT_ERROR: float = 0.2
"""Relative error of public profile coefficients (science.md 3d)."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    view: ServiceView
    """The service as the operator resolves it from the manifest, planned with the profile that the operator assumes."""
    profile: EngineProfile
    """The true step times of the engine."""
    limits: EngineLimits
    termination_seconds: float = 5.0
    """Time from the last answer to the end of the pod."""
    grace_seconds: float = 340.0
    """Grace period after which a pod that is being deleted is killed."""
    prefill_on_top: bool = False
    """Whether the time to the first token may exceed the promise by the time that the request's own prompt takes to
    compute. This is for contexts of very different lengths, which no single limit fits."""

    def allowed(self, prompt: Floats, computed: Floats) -> Floats:
        """Seconds by which each request's first token may exceed the promised time. The lengths are in tokens."""
        return self.prefill_seconds(prompt, computed) if self.prefill_on_top else np.zeros_like(computed)

    def prefill_seconds(self, prompt: Floats, computed: Floats) -> Floats:
        """The true prefill time of each request, see the function of the same name."""
        return prefill_seconds(self.profile, prompt, computed)


def prefill_seconds(profile: EngineProfile, prompt: Floats, computed: Floats) -> Floats:
    """Seconds that each prompt adds to the engine steps that compute it: `b·P + e·I²`.

    I is the prompt's length in tokens (`prompt`), P the tokens of it that no prefix cache has (`computed`); b and e are
    coefficients of the profile.
    """
    seconds: Floats = profile.prompt_token_seconds * computed + profile.prompt_square_seconds * prompt**2
    return seconds


def view_of_manifest(
    document: dict[str, Any], created: str = "2025-01-01T00:00:00Z", profiles: tuple[GivenProfile, ...] = ()
) -> ServiceView:
    """The service as the production operator resolves it from a manifest and the given PerformanceProfiles."""
    metadata = document.get("metadata", {})
    stored = _stored(document, metadata.get("namespace", "default"), metadata.get("name", "service"), created)
    return ServiceViews().view(InferenceServiceObject.model_validate(stored), profiles=profiles)


def pool_of_manifest(pool: WarmPool, created: str = "2025-01-01T00:00:00Z") -> WarmPoolView:
    """A WarmPool as the production operator reads it."""
    document = {"spec": pool.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)}
    stored = _stored(document, OPERATOR_NAMESPACE, pool.metadata.name, created)
    return pool_view(WarmPoolObject.model_validate(stored), OPERATOR_NAMESPACE, Defaults())


def _stored(document: dict[str, Any], namespace: str, name: str, created: str) -> dict[str, Any]:
    """The object as the API server stores it."""
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
    """The engine limits that the pod's own command line sets. Raises ValueError if the engine could not start."""
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


def drawn_profile(assumed: EngineProfile, seed: int, within: float = COEFFICIENT_ERROR) -> EngineProfile:
    """A true profile for an assumed one: a, b, c and d are each multiplied by a drawn factor of 1 ± `within`."""
    draw = Random(f"{seed}/profile")
    a, b, c, d = (draw.uniform(1 - within, 1 + within) for _ in range(4))
    return replace(
        assumed,
        step_seconds=assumed.step_seconds * a,
        prompt_token_seconds=assumed.prompt_token_seconds * b,
        prompt_square_seconds=assumed.prompt_square_seconds * b,
        sequence_seconds=assumed.sequence_seconds * c,
        kv_token_seconds=assumed.kv_token_seconds * d,
    )
