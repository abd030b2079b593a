"""Coverage: whether guarantees can be kept, now and at the peaks that schedules announce.

A guarantee of tokens needs replicas, and these need GPUs. So a guarantee is compared with what the model carries at
maxReplicas, with what it gets while it is asked for, and with the GPUs of the nodes: those that the guarantees of all
tenants need, and at a peak those that the floors of schedules need as well. Sums name no tenant.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Final

from forebay.api.instants import rfc3339
from forebay.api.reasons import Reason
from forebay.api.tenant_quota import QuotaMode
from forebay.planner.share.tenants.claims import Claims, gpu_quota_of
from forebay.planner.share.tenants.division import ModelDivision, Part
from forebay.planner.share.tenants.usage import UNKNOWN_PRODUCT, ModelUse, Usage
from forebay.world.world import SpecProblem

BROKEN_SHARE: Final = 0.99
"""A guarantee counts as broken below this share of it. Capacity is measured, so a smaller gap proves nothing."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """More GPUs of a product are promised than the nodes have."""

    needed: int
    there: int
    at: float | None = None
    """The start of the window at which it happens; None for now."""


@dataclass(frozen=True, slots=True)
class ProductCoverage:
    now: Mapping[str, Shortage] = field(default_factory=dict)
    """By product, only where there is one."""
    peaks: Mapping[str, Shortage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GuaranteeCase:
    """One tenant with its guarantees."""

    parts: tuple[Part, ...]
    """Of the models that it has a guarantee for."""
    divisions: Mapping[str, ModelDivision]
    products: frozenset[str]
    """Products that its guarantees need."""
    coverage: ProductCoverage
    acts: bool
    """False for a shadow quota: its guarantees are not among the sums."""


Check = Callable[[GuaranteeCase], SpecProblem | None]


def above_max_replicas(case: GuaranteeCase) -> SpecProblem | None:
    """All guarantees of a model together are more than it carries at maxReplicas."""
    for part in case.parts:
        division = case.divisions[part.of]
        most, total = _most(division.use), division.guaranteed + (0 if case.acts else part.guaranteed)
        if most is not None and total > most:
            return SpecProblem(
                Reason.OVERCOMMITTED,
                f"Guarantees of {part.of} add up to {total:,.0f} tokens per minute, and it carries "
                f"{_rounded(most):,} at scaling.maxReplicas {division.use.max_replicas}; raise maxReplicas, or lower "
                "guarantees.",
            )
    return None


def broken_now(case: GuaranteeCase) -> SpecProblem | None:
    """The tenant asks for its guarantee and gets less."""
    for part in case.parts:
        if part.asked is None or part.granted is None:
            continue
        due = min(part.asked, part.guaranteed)
        if part.granted < BROKEN_SHARE * due:
            carried = case.divisions[part.of].use.rates.carried or 0.0
            return SpecProblem(
                Reason.OVERCOMMITTED,
                f"Of the guaranteed tokens per minute of {part.of}, {_rounded(due):,} are asked for and "
                f"{_rounded(part.granted):,} granted: its serving replicas carry {_rounded(carried):,}.",
            )
    return None


def gpus_short(case: GuaranteeCase) -> SpecProblem | None:
    for product in sorted(case.products & case.coverage.now.keys()):
        short = case.coverage.now[product]
        return SpecProblem(
            Reason.OVERCOMMITTED,
            f"Guarantees need {short.needed} GPUs {product}, and the ready nodes have {short.there} (nodes that an "
            "autoscaler may add are not counted); add nodes, or lower guarantees.",
        )
    return None


def gpus_short_at_peak(case: GuaranteeCase) -> SpecProblem | None:
    for product in sorted(case.products & case.coverage.peaks.keys()):
        short = case.coverage.peaks[product]
        at = "" if short.at is None else f" at {rfc3339(short.at)}"
        return SpecProblem(
            Reason.OVERCOMMITTED_AT_PEAK,
            f"Guarantees and schedules need {short.needed} GPUs {product}{at}, and the ready nodes have {short.there} "
            "(nodes that an autoscaler may add are not counted); add nodes before then, or lower floors or guarantees.",
        )
    return None


CHECKS: Final[tuple[Check, ...]] = (above_max_replicas, broken_now, gpus_short, gpus_short_at_peak)


def shortage_of(case: GuaranteeCase) -> SpecProblem | None:
    """The first check that finds a guarantee that is not covered."""
    return next((problem for check in CHECKS if (problem := check(case)) is not None), None)


def product_coverage(claims: Claims, divisions: Mapping[str, ModelDivision], usage: Usage) -> ProductCoverage:
    """For each product what is promised against what is there."""
    by_product: dict[str, list[ModelUse]] = {}
    for use in usage.models.values():
        if use.gpus_per_replica:
            by_product.setdefault(use.product, []).append(use)
    products = {entry.product for spec in claims.specs.values() for entry in spec.gpus if entry.product is not None}
    now: dict[str, Shortage] = {}
    peaks: dict[str, Shortage] = {}
    for product in sorted((products | by_product.keys()) - {UNKNOWN_PRODUCT}):
        uses, there = by_product.get(product, []), usage.products.get(product, 0)
        needed = _needed(product, uses, claims, divisions, None)
        if needed > there:
            now[product] = Shortage(needed, there)
            continue
        for at in sorted({window.start for use in uses for window in use.windows}):
            if (needed := _needed(product, uses, claims, divisions, at)) > there:
                peaks[product] = Shortage(needed, there, at)
                break
    return ProductCoverage(now, peaks)


def _needed(
    product: str, uses: Iterable[ModelUse], claims: Claims, divisions: Mapping[str, ModelDivision], at: float | None
) -> int:
    """GPUs of the product that the guarantees need, with the floors of the windows at a time."""
    of_services: dict[str, int] = {}
    for use in uses:
        replicas = max((_replicas_for_guarantees(divisions.get(use.model)), *_floors(use, at)))
        if replicas:
            gpus = min(replicas, use.max_replicas) * use.gpus_per_replica
            of_services[use.tenant] = of_services.get(use.tenant, 0) + gpus
    total = 0
    below: dict[str, int] = {}
    for name in _children_first(claims):
        spec = claims.specs[name]
        entry = gpu_quota_of(spec, product)
        guaranteed = (entry.guaranteed or 0) if entry is not None and spec.mode is QuotaMode.ENFORCE else 0
        need = max(guaranteed, of_services.pop(name, 0) + below.get(name, 0))
        parent = claims.parents.get(name)
        if parent is None:
            total += need
        else:
            below[parent] = below.get(parent, 0) + need
    return total + sum(of_services.values())


def _children_first(claims: Claims) -> list[str]:
    depth: dict[str, int] = {}
    for name in claims.specs:
        way, reached = 0, claims.parents.get(name)
        while reached is not None:
            way, reached = way + 1, claims.parents.get(reached)
        depth[name] = way
    return sorted(claims.specs, key=lambda name: (-depth[name], name))


def _floors(use: ModelUse, at: float | None) -> list[int]:
    return [] if at is None else [window.replicas for window in use.windows if window.start <= at < window.end]


def _replicas_for_guarantees(division: ModelDivision | None) -> int:
    per_replica = None if division is None else division.use.rates.per_replica
    return 0 if division is None or not per_replica else ceil(division.guaranteed / per_replica)


def _most(use: ModelUse) -> float | None:
    return None if use.rates.per_replica is None else use.rates.per_replica * use.max_replicas


def _rounded(amount: float) -> int:
    return int(float(f"{amount:.2g}"))
