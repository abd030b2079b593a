"""The order of a service's shapes: which of them the next replica gets.

The service's own shape comes first, then `variants` in the order of the manifest. That order stands for cost, because
the operator knows no prices. A shape that could not start for lack of capacity (a shortage) is not tried again for a
hold time; until then new replicas get the first of the other shapes. Shortages may be lost from memory: an operator
that has just started leaves replicas as they are, as if all shapes preferred to theirs had just been tried.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from forebay.api.instants import rfc3339
from forebay.api.reasons import Reason
from forebay.api.spec.variant_spec import BASE_VARIANT
from forebay.planner.memory import ServiceMemory, Shortage
from forebay.planner.observe.replicas import LIVE, SHORTAGE_REASONS, Replica, ReplicaState, is_faulty
from forebay.planner.observe.revision_choice import RevisionChoice, choose
from forebay.world.world import Refusal, Revision, ServiceView

LONGEST_HOLD_SECONDS: Final = 3600.0
JUST_STARTED: Final = "this operator has just started and keeps replicas where they are"


@dataclass(frozen=True)
class VariantOrder:
    """The shapes of one service in the order of preference, and the shortages among them."""

    choices: tuple[RevisionChoice, ...]
    """The service's own shape first."""
    shortages: Mapping[str, Shortage] = field(default_factory=dict)
    """By name of the variant."""
    hold_seconds: float = 0.0
    now: float = 0.0

    @property
    def several(self) -> bool:
        return len(self.choices) > 1

    @cached_property
    def targets(self) -> tuple[Revision, ...]:
        return tuple(choice.target for choice in self.choices)

    @cached_property
    def hashes(self) -> frozenset[str]:
        """Hashes of the target revisions of all shapes."""
        return frozenset(choice.target.hash for choice in self.choices)

    @cached_property
    def available(self) -> tuple[Revision, ...]:
        """Targets that may be tried now, in the order of preference."""
        return tuple(target for target in self.targets if self.retry_at(target.variant) is None)

    @cached_property
    def next_target(self) -> Revision:
        """The revision of the next replica: the first target that may be tried, or the first of all when none may."""
        return next(iter(self.available), self.targets[0])

    @property
    def reliable(self) -> Revision:
        """The first available target without a known shortage. After a shortage, `next_target` is tried with one
        replica at a time, and the other new replicas get this target."""
        return next((target for target in self.available if target.variant not in self.shortages), self.next_target)

    def retry_at(self, variant: str) -> float | None:
        """When the variant is tried again; None when it may be tried now."""
        shortage = self.shortages.get(variant)
        due_at = None if shortage is None else retry_at(shortage, self.hold_seconds)
        return None if due_at is None or due_at <= self.now else due_at

    def rank(self, variant: str) -> int:
        """The variant's index: 0 for the service's own shape, and after all others for a variant that is no longer in
        the spec."""
        names = [target.variant for target in self.targets]
        return names.index(variant) if variant in names else len(names)

    def has_alternative(self, replica: Replica) -> bool:
        """Whether the replica could not start and another shape may be tried in its place. A multi-pod replica that
        holds some of its nodes is left to `rank_groups.may_give_back`."""
        if not self.available or replica.revision == self.next_target.hash or replica.revision not in self.hashes:
            return False
        own = replica.revision == self.targets[0].hash
        return self.several and not replica.half_placed and _failed_to_start(replica, own)

    def retry_target(self, replica: Replica) -> tuple[Revision, float] | None:
        """The target that is tried in the place of a replica that could not start, and when. None when the replica did
        not fail to start, or while every other shape is found short in this tick as well."""
        if not self.several or replica.revision not in self.hashes:
            return None
        if not _failed_to_start(replica, own=replica.revision == self.targets[0].hash):
            return None
        others = (t for t in self.targets if t.hash != replica.revision and not self.short_in_this_tick(t.variant))
        times = [(target, self.retry_at(target.variant) or self.now) for target in others]
        return min(times, key=lambda target_time: target_time[1], default=None)

    def short_in_this_tick(self, variant: str) -> bool:
        """Whether the shortage is observed in this tick, so that the hold time has not begun."""
        shortage = self.shortages.get(variant)
        return shortage is not None and shortage.seen_at == self.now

    def shortages_before(self, before: Revision) -> str:
        """The shortages of the shapes that are preferred to `before`, as clauses."""
        shortages = (
            (variant_label(t.variant), self.shortages.get(t.variant)) for t in self.targets[: self.rank(before.variant)]
        )
        return "; ".join(f"{name}: {shortage.why}" for name, shortage in shortages if shortage is not None)


def variant_label(variant: str) -> str:
    """The variant's name for messages."""
    return variant or BASE_VARIANT


def choices_of(service: ServiceView, wanted: Revision, stored: Sequence[Revision]) -> tuple[RevisionChoice, ...]:
    """The revisions of the service's own shape and of each usable variant. A variant that has run before is usable even
    if the capacity plan says that it does not fit."""
    ran = {revision.spec_hash for revision in stored}
    usable = [v.wanted for v in service.variants if not v.misfits or v.wanted.spec_hash in ran]
    return tuple(choose(revision, stored) for revision in (wanted, *usable))


def retry_at(shortage: Shortage, hold_seconds: float) -> float:
    """When the hold of a shortage ends. The hold doubles with each failure in a row, up to one hour, or up to
    `hold_seconds` if that is longer."""
    longest = max(LONGEST_HOLD_SECONDS, hold_seconds)
    return shortage.seen_at + min(longest, hold_seconds * 2.0 ** min(shortage.times - 1, 16))


def variant_order_of(
    choices: tuple[RevisionChoice, ...],
    replicas: Sequence[Replica],
    refusals: Iterable[Refusal],
    memory: ServiceMemory,
    hold_seconds: float,
    now: float,
    within_quota: Callable[[Revision], bool] = lambda revision: True,
) -> VariantOrder:
    """The order with the shortages known before and those observed in this tick. `within_quota` says whether the
    namespace's quotas leave space for one more replica."""
    if len(choices) < 2:
        return VariantOrder(choices)
    earlier = memory.shortages
    before = VariantOrder(choices, earlier or {}, hold_seconds, now)
    known_refusals = tuple(refusals)
    shortages: dict[str, Shortage] = {}
    for rank, target in enumerate(before.targets):
        known = before.shortages.get(target.variant)
        shortage = (
            _current_shortage(target, rank == 0, replicas, known_refusals, now)
            or _held_by_quota(target, memory, now, within_quota)
            or _held_back(target, before, memory, replicas)
        )
        if shortage is not None:
            shortages[target.variant] = _counted(known, shortage, hold_seconds)
        elif known is not None and not (
            _serves_since(target, replicas, known.seen_at) or (known.by_quota and within_quota(target))
        ):
            shortages[target.variant] = known
        elif earlier is None and _less_preferred_in_use(before, target.variant, replicas):
            shortages[target.variant] = Shortage(now, 1, JUST_STARTED)
    return replace(before, shortages=shortages)


def _counted(known: Shortage | None, shortage: Shortage, hold_seconds: float) -> Shortage:
    """The shortage with its failures in a row counted. One attempt counts once, however long it waits."""
    if known is None:
        return shortage
    if shortage.seen_at <= known.seen_at:
        return known
    return replace(shortage, times=known.times + (retry_at(known, hold_seconds) <= shortage.seen_at))


def _current_shortage(
    target: Revision, own: bool, replicas: Sequence[Replica], refusals: Iterable[Refusal], now: float
) -> Shortage | None:
    """The shortage that a stuck replica of the target or a refusal of the API server shows; None without one. `own` is
    True for the service's own shape."""
    for replica in replicas:
        if replica.revision == target.hash and _failed_to_start(replica, own):
            return Shortage(now, 1, replica.message.rstrip("."))
    lacking = [r for r in refusals if r.reason == Reason.QUOTA_EXCEEDED and f"-{target.hash}-" in r.pod_name]
    if not lacking:
        return None
    last = max(lacking, key=lambda refusal: (refusal.at, refusal.pod_name))
    return Shortage(last.at, 1, f"{last.pod_name} was refused at {rfc3339(last.at)}: {last.message.rstrip('.')}")


def _failed_to_start(replica: Replica, own: bool) -> bool:
    """Whether the replica could not start for a cause that another shape may avoid.

    An engine that fails on a variant may not support its shape. One that fails on the service's own shape may fail
    because of its model or image, which another shape would not fix.
    """
    if replica.state is not ReplicaState.BLOCKED:
        return False
    return replica.reason in SHORTAGE_REASONS or (not own and is_faulty(replica))


def _held_by_quota(
    target: Revision, memory: ServiceMemory, now: float, within_quota: Callable[[Revision], bool]
) -> Shortage | None:
    """The shortage of a target for which the quotas left no space in the previous tick, and leave none now."""
    why = memory.quota_holds.get(target.hash)
    return None if why is None or within_quota(target) else Shortage(now, 1, why, by_quota=True)


def _held_back(
    target: Revision, before: VariantOrder, memory: ServiceMemory, replicas: Sequence[Replica]
) -> Shortage | None:
    """The shortage that the operator's GPU ceiling causes; None without one. It prevents a failback, and without a hold
    the failback would be tried at every tick."""
    held = (
        memory.held_back and target == before.next_target and _less_preferred_in_use(before, target.variant, replicas)
    )
    return Shortage(before.now, 1, memory.held_back) if held else None


def _serves_since(target: Revision, replicas: Iterable[Replica], at: float) -> bool:
    return any(
        replica.revision == target.hash and replica.state is ReplicaState.SERVING and replica.ready_since > at
        for replica in replicas
    )


def _less_preferred_in_use(variant_order: VariantOrder, variant: str, replicas: Iterable[Replica]) -> bool:
    """Whether there are live replicas of a less preferred shape."""
    later = {target.hash for target in variant_order.targets[variant_order.rank(variant) + 1 :]}
    return any(replica.revision in later and replica.state in LIVE for replica in replicas)
