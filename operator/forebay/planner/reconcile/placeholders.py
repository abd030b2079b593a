"""Placeholders: low-priority pods that hold GPUs for future replicas.

The scheduler does the handover by preemption: a replica's pod that finds no free GPUs preempts a placeholder.
So nothing here follows the load. A pending placeholder is no fault, because running pods use the place it would hold.
This module decides how many placeholders there should be and of which shape, and keeps them out of the way of replicas.

Placeholders are not replicas. No rule of scaling or rollouts reads them, and replicas spend the operator's limits
first.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final, Self

from forebay.api.reasons import Reason
from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.observe.fleet_context import FleetContext
from forebay.planner.reconcile.blast_radius import Budget
from forebay.planner.reconcile.quota_budget import QuotaBudget, placeholder_hold
from forebay.scaling.decision import count
from forebay.workloads.objects.pod_charge import PodCharge, charge_of_placeholder
from forebay.world.names import placeholder_names
from forebay.world.plan import Action, CreatePlaceholder, DeletePlaceholder
from forebay.world.world import Place, PodView, ServiceKey

RETRY_SECONDS: Final = 60.0
"""How long a placeholder that ended soon after its creation, or that was refused, is not retried."""
ENDED: Final = ("Failed", "Succeeded")


@dataclass(frozen=True, slots=True)
class WantedPlaceholders:
    """The wanted placeholders of one service or WarmPool, and the existing ones."""

    key: ServiceKey
    uid: str
    place: Place
    count: int
    pods: tuple[PodView, ...]
    """The owner's existing placeholders."""


@dataclass(frozen=True, slots=True)
class PlaceholderOutcome:
    """The actions on the placeholders of one owner."""

    actions: tuple[Action, ...] = ()
    held_back: str = ""
    """Why there are fewer than wanted, as a clause; empty when they only need time to start."""


@dataclass(frozen=True, slots=True)
class PlaceholderCounts:
    wanted: int
    ready: int
    """Number of ready placeholders, at most `wanted`. A ready one has a node and the engine's image."""
    holding: tuple[PodView, ...]
    """The ready placeholders."""
    waiting: tuple[PodView, ...]
    """The existing placeholders that are not ready."""


@dataclass(slots=True)
class PlaceholderBudget:
    """What replicas leave of the operator's limits."""

    creates: int
    gpus: int | None
    """GPUs left under the ceiling; None without a ceiling."""
    settings_gpus: int | None
    quotas: QuotaBudget
    created: int = 0

    @classmethod
    def of(cls, budget: Budget) -> Self:
        """The budget for placeholders. Half of all creations stay reserved for replicas of the next ticks."""
        reserved = budget.settings.max_creates_per_minute // 2
        return cls(max(0, budget.creates - reserved), budget.gpus, budget.settings.max_gpus, budget.quotas)

    def places(self, place: Place) -> int | None:
        """How many of these places the ceiling allows; None without a ceiling, or for a place without GPUs."""
        return None if self.gpus is None or place.gpus == 0 else max(0, self.gpus) // place.gpus


def wanted_placeholders_of(context: DecidedContext) -> WantedPlaceholders | None:
    """The wanted placeholders of a service; None when no placeholder can be made of its revision."""
    place = context.target.place
    if place is None:
        return None
    wanted = context.spec.warm_pool.placeholders * context.target.shape.pods
    return WantedPlaceholders(context.service.key, context.service.uid, place, wanted, context.placeholders)


def placeholder_counts_of(wanted: WantedPlaceholders) -> PlaceholderCounts:
    """The counts of placeholders for the wanted place."""
    existing = [
        pod for pod in wanted.pods if pod.place == wanted.place.hash and not pod.deleting and pod.phase not in ENDED
    ]
    holding = tuple(pod for pod in existing if pod.ready)
    waiting = tuple(pod for pod in existing if not pod.ready)
    return PlaceholderCounts(wanted.count, min(wanted.count, len(holding)), holding, waiting)


def placeholder_outcome_of(
    wanted: WantedPlaceholders, fleet: FleetContext, budget: PlaceholderBudget
) -> PlaceholderOutcome:
    """Delete ended and surplus placeholders and create missing ones, within what replicas leave of the limits."""
    if not wanted.count and not wanted.pods:
        return PlaceholderOutcome()
    removed = {
        pod.uid: reason for pod in wanted.pods if not pod.deleting and (reason := _removal_reason(pod, wanted, fleet))
    }
    staying = sorted((pod for pod in wanted.pods if not pod.deleting and pod.uid not in removed), key=_keep_order)
    allowed, held_back = _allowed(wanted, fleet, budget)
    surplus = staying[allowed:]
    if budget.gpus is not None:
        budget.gpus -= min(allowed, wanted.count) * wanted.place.gpus
    deletes = [
        _delete(pod, removed.get(pod.uid, "it is surplus"))
        for pod in wanted.pods
        if pod.uid in removed or pod in surplus
    ]
    creates, why = _creates(wanted, fleet, budget, max(0, allowed - len(staying)))
    return PlaceholderOutcome((*deletes, *creates), held_back or why)


def another_place(pod: PodView, wanted: WantedPlaceholders, fleet: FleetContext) -> str:
    return "it holds GPUs for another shape" if pod.place != wanted.place.hash else ""


def ended(pod: PodView, wanted: WantedPlaceholders, fleet: FleetContext) -> str:
    """The placeholder was evicted, or refused by its node. One that ended soon is kept for a while, so that the next
    one is not created at once.

    Preemption leaves no ended pod behind, because the scheduler deletes the placeholder.
    """
    return "it has ended" if pod.phase in ENDED and fleet.now - pod.created_at >= RETRY_SECONDS else ""


def on_a_lost_node(pod: PodView, wanted: WantedPlaceholders, fleet: FleetContext) -> str:
    return "its node is lost" if pod.node in fleet.lost_nodes else ""


def on_a_cordoned_node(pod: PodView, wanted: WantedPlaceholders, fleet: FleetContext) -> str:
    """The node is cordoned, so no replica can take the place."""
    return "its node is cordoned" if pod.node in fleet.cordoned else ""


REMOVAL_CHECKS: Final[tuple[Callable[[PodView, WantedPlaceholders, FleetContext], str], ...]] = (
    another_place,
    ended,
    on_a_lost_node,
    on_a_cordoned_node,
)


def _removal_reason(pod: PodView, wanted: WantedPlaceholders, fleet: FleetContext) -> str:
    return next((reason for check in REMOVAL_CHECKS if (reason := check(pod, wanted, fleet))), "")


def _keep_order(pod: PodView) -> tuple[bool, bool, float, str]:
    """Sort key: ready placeholders are kept first, then those with a node, the oldest first."""
    return (not pod.ready, pod.node is None, pod.created_at, pod.name)


def _allowed(wanted: WantedPlaceholders, fleet: FleetContext, budget: PlaceholderBudget) -> tuple[int, str]:
    """How many placeholders there may be, and why that is fewer than wanted, as a clause."""
    short = fleet.quota_refusals.get(wanted.key.namespace)
    if wanted.count and short is not None:
        return 0, f"{short.pod_name} needs their share of the quota of {wanted.key.namespace}"
    if wanted.count and budget.quotas.blocks and (block := budget.quotas.yields(*_charged(wanted, fleet))):
        return 0, f"replicas need their share of {block.resource} of the ResourceQuota {block.quota.name}"
    fitting = budget.places(wanted.place)
    if fitting is None or fitting >= wanted.count:
        return wanted.count, ""
    return fitting, f"the operator's ceiling of {budget.settings_gpus} GPUs leaves room for {fitting}"


def _creates(
    wanted: WantedPlaceholders, fleet: FleetContext, budget: PlaceholderBudget, missing: int
) -> tuple[list[CreatePlaceholder], str]:
    refused = fleet.refused_placeholders.get(wanted.uid, ())
    if missing and refused and fleet.now - refused[-1].at < RETRY_SECONDS:
        last = refused[-1]
        return [], f"the API server refused {last.pod_name}: {last.message} ({last.reason})"
    granted, block = min(missing, budget.creates), None
    if granted and budget.quotas.limit(wanted.key.namespace):
        granted, block = budget.quotas.placeholders(*_charged(wanted, fleet), granted)
    budget.creates -= granted
    budget.created += granted
    taken = {
        *fleet.names.get(wanted.key.namespace, ()),
        *(r.pod_name for r in refused if r.reason == Reason.NAME_TAKEN),
    }
    names = islice(placeholder_names(wanted.key, wanted.uid, taken), granted)
    priority = fleet.world.settings.placeholder_priority_class
    why = "" if granted == missing else f"{count(missing - granted, 'creation')} delayed to the next minute"
    why = why if block is None else placeholder_hold(block, missing - granted)
    return [CreatePlaceholder(wanted.place, name, priority) for name in names], why


def _charged(wanted: WantedPlaceholders, fleet: FleetContext) -> tuple[str, PodCharge]:
    """The namespace of the placeholders, and the charge of one."""
    charge = charge_of_placeholder(wanted.place, fleet.world.settings.placeholder_priority_class)
    return wanted.key.namespace, charge


def _delete(pod: PodView, reason: str) -> DeletePlaceholder:
    return DeletePlaceholder(pod.name, pod.uid, pod.resource_version, reason)
