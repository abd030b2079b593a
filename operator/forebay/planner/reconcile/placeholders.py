"""Placeholders: pods of low priority that hold places for replicas to come.

The scheduler itself hands a place over, in one step: a serving pod that finds no room takes that of a placeholder. So
nothing here follows the load, and a placeholder that waits for room is no trouble: the place it would hold is in use.
What is decided is how many there should be, of which shape, and that they leave room for what serves.

They are no replicas. No rule of scaling or of rollouts sees them, and limits go to replicas first.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final, Self

from forebay.api.reasons import Reason
from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.observe.fleet_context import FleetContext
from forebay.planner.reconcile.blast_radius import Budget
from forebay.scaling.decision import count
from forebay.world.names import placeholder_names
from forebay.world.plan import Action, CreatePlaceholder, DeletePlaceholder
from forebay.world.world import Place, PodView, ServiceKey

PATIENCE_SECONDS: Final = 60.0
"""Until a placeholder that ended soon after its creation, or that was refused, is tried anew."""
ENDED: Final = ("Failed", "Succeeded")


@dataclass(frozen=True, slots=True)
class WantedPlaceholders:
    """The placeholders of one owner: what is wanted, and what there is."""

    key: ServiceKey
    uid: str
    place: Place
    wanted: int
    pods: tuple[PodView, ...]


@dataclass(frozen=True, slots=True)
class PlaceholderShare:
    """What is done about the placeholders of one owner."""

    actions: tuple[Action, ...] = ()
    held: str = ""
    """Why there are fewer than wanted, as a clause; empty when nothing but time is missing."""


@dataclass(frozen=True, slots=True)
class PlaceholderCounts:
    wanted: int
    ready: int
    """Placed, with the engine's image pulled."""
    holding: tuple[PodView, ...]
    """Those that are."""
    waiting: tuple[PodView, ...]
    """There, and not ready."""


@dataclass(slots=True)
class PlaceholderBudget:
    """What replicas have left of the operator's limits."""

    creates: int
    gpus: int | None
    """None for no ceiling."""
    settings_gpus: int | None
    created: int = 0

    @classmethod
    def of(cls, budget: Budget) -> Self:
        """Half of all creations stay for the replicas of the next ticks."""
        reserved = budget.settings.max_creates_per_minute // 2
        return cls(max(0, budget.creates - reserved), budget.gpus, budget.settings.max_gpus)

    def places(self, place: Place) -> int | None:
        """How many of such a place the ceiling leaves; None without a ceiling, or for a place without GPUs."""
        return None if self.gpus is None or place.gpus == 0 else max(0, self.gpus) // place.gpus


def wanted_placeholders_of(context: DecidedContext) -> WantedPlaceholders | None:
    """Of a service; None for a revision of which no placeholder can be made."""
    place = context.target.place
    if place is None:
        return None
    wanted = context.spec.warm_pool.placeholders * context.target.shape.pods
    return WantedPlaceholders(context.service.key, context.service.uid, place, wanted, context.placeholders)


def placeholder_counts_of(hold: WantedPlaceholders) -> PlaceholderCounts:
    """Of those that hold the place that is wanted."""
    there = [pod for pod in hold.pods if pod.place == hold.place.hash and not pod.deleting and pod.phase not in ENDED]
    holding = tuple(pod for pod in there if pod.ready)
    waiting = tuple(pod for pod in there if not pod.ready)
    return PlaceholderCounts(hold.wanted, min(hold.wanted, len(holding)), holding, waiting)


def share_of(hold: WantedPlaceholders, fleet: FleetContext, budget: PlaceholderBudget) -> PlaceholderShare:
    """Deletes what is over or too much, creates what is missing, within what replicas have left."""
    over = {pod.uid: reason for pod in hold.pods if not pod.deleting and (reason := _over(pod, hold, fleet))}
    staying = sorted((pod for pod in hold.pods if not pod.deleting and pod.uid not in over), key=_worth)
    allowed, held = _allowed(hold, fleet, budget)
    surplus = staying[allowed:]
    if budget.gpus is not None:
        budget.gpus -= min(allowed, hold.wanted) * hold.place.gpus
    deletes = [
        _delete(pod, over.get(pod.uid, "it is one too many")) for pod in hold.pods if pod.uid in over or pod in surplus
    ]
    creates, why = _creates(hold, fleet, budget, max(0, allowed - len(staying)))
    return PlaceholderShare((*deletes, *creates), held or why)


def another_place(pod: PodView, hold: WantedPlaceholders, fleet: FleetContext) -> str:
    return "it holds a place of another shape" if pod.place != hold.place.hash else ""


def ended(pod: PodView, hold: WantedPlaceholders, fleet: FleetContext) -> str:
    """Evicted, or refused by its node. One that ended at once keeps its slot for a while, so that none follows at once.

    A place that is handed over leaves nothing behind: the scheduler deletes the placeholder.
    """
    return "it has ended" if pod.phase in ENDED and fleet.now - pod.created_at >= PATIENCE_SECONDS else ""


def on_a_lost_node(pod: PodView, hold: WantedPlaceholders, fleet: FleetContext) -> str:
    return "its node is lost" if pod.node in fleet.lost_nodes else ""


def on_a_node_to_be_left(pod: PodView, hold: WantedPlaceholders, fleet: FleetContext) -> str:
    """A place on a cordoned node is one that no replica can take."""
    return "its node is to be left" if pod.node in fleet.cordoned else ""


OVER: Final[tuple[Callable[[PodView, WantedPlaceholders, FleetContext], str], ...]] = (
    another_place,
    ended,
    on_a_lost_node,
    on_a_node_to_be_left,
)


def _over(pod: PodView, hold: WantedPlaceholders, fleet: FleetContext) -> str:
    return next((reason for check in OVER if (reason := check(pod, hold, fleet))), "")


def _worth(pod: PodView) -> tuple[bool, bool, float, str]:
    """Those that hold a place come first, the oldest of them first."""
    return (not pod.ready, pod.node is None, pod.created_at, pod.name)


def _allowed(hold: WantedPlaceholders, fleet: FleetContext, budget: PlaceholderBudget) -> tuple[int, str]:
    """How many there may be, and what keeps it below what is wanted."""
    short = fleet.quota_short.get(hold.key.namespace)
    if hold.wanted and short is not None:
        return 0, f"they make room in the quota of {hold.key.namespace} for {short.pod_name}"
    fitting = budget.places(hold.place)
    if fitting is None or fitting >= hold.wanted:
        return hold.wanted, ""
    return fitting, f"the operator's ceiling of {budget.settings_gpus} GPUs leaves room for {fitting}"


def _creates(
    hold: WantedPlaceholders, fleet: FleetContext, budget: PlaceholderBudget, missing: int
) -> tuple[list[CreatePlaceholder], str]:
    refused = fleet.refused_placeholders.get(hold.uid, ())
    if missing and refused and fleet.now - refused[-1].at < PATIENCE_SECONDS:
        last = refused[-1]
        return [], f"the API server refused {last.pod_name}: {last.message} ({last.reason})"
    granted = min(missing, budget.creates)
    budget.creates -= granted
    budget.created += granted
    taken = {*fleet.names.get(hold.key.namespace, ()), *(r.pod_name for r in refused if r.reason == Reason.NAME_TAKEN)}
    names = islice(placeholder_names(hold.key, hold.uid, taken), granted)
    priority = fleet.world.settings.placeholder_priority_class
    why = "" if granted == missing else f"{count(missing - granted, 'creation')} left to the next minute"
    return [CreatePlaceholder(hold.place, name, priority) for name in names], why


def _delete(pod: PodView, reason: str) -> DeletePlaceholder:
    return DeletePlaceholder(pod.name, pod.uid, pod.resource_version, reason)
