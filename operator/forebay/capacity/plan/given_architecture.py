"""The architecture in a manifest: its fields replace those of a config.json or the catalogue."""

import re
from dataclasses import replace
from typing import Any, Final

from forebay.api.inference_service import ArchitectureSpec
from forebay.capacity.model.architecture import Architecture, Experts, Mla, SlidingWindow
from forebay.capacity.plan.plan_problem import PlanProblem, ProblemKind

REQUIRED_FIELDS: Final = ("parameters", "layers", "attentionHeads", "kvHeads", "headDim")
"""Fields of `model.architecture` without which memory and work cannot be computed."""
SIMPLE_FIELDS: Final = (
    "parameters",
    "active_parameters",
    "layers",
    "attention_heads",
    "kv_heads",
    "head_dim",
    "hidden_size",
    "context_tokens",
)


def missing_fields(given: ArchitectureSpec) -> list[str]:
    """Required fields that the manifest does not set; the cache of latent attention has no heads."""
    required = [name for name in REQUIRED_FIELDS if given.mla is None or name not in ("kvHeads", "headDim")]
    return [name for name in required if getattr(given, _snake(name)) is None]


def with_given_fields(base: Architecture | None, given: ArchitectureSpec) -> Architecture:
    """The base with the manifest's fields over it; without a base, the manifest sets all required fields."""
    changes: dict[str, Any] = {name: value for name in SIMPLE_FIELDS if (value := getattr(given, name)) is not None}
    if given.mla is not None:
        changes["mla"] = Mla(given.mla.kv_lora_rank, given.mla.rope_dim)
    if given.sliding_window is not None:
        changes["sliding_window"] = SlidingWindow(given.sliding_window.size, given.sliding_window.layers)
    if given.experts is not None:
        changes["experts"] = Experts(given.experts.count, given.experts.active)
    base = base or Architecture(parameters=1, layers=1, attention_heads=1, kv_heads=1, head_dim=1)
    return replace(base, **changes)


def contradictions(shape: Architecture) -> list[PlanProblem]:
    """Fields that contradict each other. The schema checks only the manifest's fields, not those merged with the
    catalogue's."""
    faults = []
    if shape.active > shape.parameters:
        faults.append(("activeParameters", shape.active, f"is above the {shape.parameters} parameters"))
    if shape.kv_heads > shape.attention_heads:
        faults.append(("kvHeads", shape.kv_heads, f"is above the {shape.attention_heads} attention heads"))
    if shape.window_layers > shape.layers:
        faults.append(("slidingWindow.layers", shape.window_layers, f"is above the {shape.layers} layers"))
    return [
        PlanProblem(f"spec.model.architecture.{name}", value, f"{reason} of the model", kind=ProblemKind.UNKNOWN)
        for name, value, reason in faults
    ]


def same_shape(architecture: Architecture, catalogued: Architecture) -> bool:
    """Whether two architectures are equal apart from the longest context."""
    return replace(architecture, context_tokens=catalogued.context_tokens) == catalogued


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name)
