"""Variants: of which of a service's shapes the next replica is.

The service's own shape comes first, then `variants` in the order of the manifest, whose order says what costs more: the
operator knows no prices. A shape that could not be had is not tried again for a while; the first of the others is what
new replicas are of. What is remembered of that may be lost: an operator that has just started leaves replicas where
they are, as if everything before them had just been tried.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from forebay.api.instants import rfc3339
from forebay.api.reasons import Reason
from forebay.api.spec.variant_spec import BASE_VARIANT
from forebay.planner.memory import ServiceMemory, Shortage
from forebay.planner.observe.replicas import LIVE, REASONS_OF_SHORTAGE, Replica, ReplicaState, is_faulty
from forebay.planner.observe.revision_choice import Choice, choose
from forebay.world.world import Refusal, Revision, ServiceView

LONGEST_HOLD_SECONDS: Final = 3600.0
JUST_BEGUN: Final = "this operator has just begun, and leaves replicas where they are"


@dataclass(frozen=True)
class VariantOrder:
    """The shapes of one service in the order of preference, and which of them could not be had."""

    choices: tuple[Choice, ...]
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
        """Of what replicas should be of, whichever of them."""
        return frozenset(choice.target.hash for choice in self.choices)

    @cached_property
    def open(self) -> tuple[Revision, ...]:
        """Those that may be tried now, in the order of preference."""
        return tuple(target for target in self.targets if self.opens_at(target.variant) is None)

    @cached_property
    def next_up(self) -> Revision:
        """What the next replica is of: the first that may be tried, or the first of all where none may."""
        return next(iter(self.open), self.targets[0])

    @property
    def sure(self) -> Revision:
        """The first that is not known to have been short: while the next one up has yet to show that it can be had
        again, one replica of it is tried, and the others are of this."""
        return next((target for target in self.open if target.variant not in self.shortages), self.next_up)

    def opens_at(self, variant: str) -> float | None:
        """When it is tried again; None for one that may be tried now."""
        shortage = self.shortages.get(variant)
        due_at = None if shortage is None else opens_at(shortage, self.hold_seconds)
        return None if due_at is None or due_at <= self.now else due_at

    def rank(self, variant: str) -> int:
        """0 for the service's own shape; after all others what the spec does not have any more."""
        names = [target.variant for target in self.targets]
        return names.index(variant) if variant in names else len(names)

    def makes_way(self, replica: Replica) -> bool:
        """Whether it could not be had, and another shape may be. A group that holds some of its nodes goes in its turn
        (`groups.may_give_back`), whatever comes after it."""
        if not self.open or replica.revision == self.next_up.hash or replica.revision not in self.hashes:
            return False
        own = replica.revision == self.targets[0].hash
        return self.several and not replica.half_placed and _in_vain(replica, own)

    def yields_to(self, replica: Replica) -> tuple[Revision, float] | None:
        """The shape of which one is tried in the place of a replica that could not be had, and when; None while every
        other shape is just being found short as well, or when the replica is not in vain."""
        if not self.several or replica.revision not in self.hashes:
            return None
        if not _in_vain(replica, own=replica.revision == self.targets[0].hash):
            return None
        others = (t for t in self.targets if t.hash != replica.revision and not self.short_now(t.variant))
        times = [(target, self.opens_at(target.variant) or self.now) for target in others]
        return min(times, key=lambda found: found[1], default=None)

    def short_now(self, variant: str) -> bool:
        """Whether it is being found short at this very moment, so that its hold has not begun."""
        shortage = self.shortages.get(variant)
        return shortage is not None and shortage.seen_at == self.now

    def missed(self, before: Revision) -> str:
        """Why the shapes that are preferred to `before` could not be had, as clauses."""
        found = ((shown(t.variant), self.shortages.get(t.variant)) for t in self.targets[: self.rank(before.variant)])
        return "; ".join(f"{name}: {shortage.why}" for name, shortage in found if shortage is not None)


def shown(variant: str) -> str:
    """The variant's name, as people read it."""
    return variant or BASE_VARIANT


def choices_of(service: ServiceView, wanted: Revision, stored: Sequence[Revision]) -> tuple[Choice, ...]:
    """Of the service's own shape and of each variant that can run; one that ran before knows better than its plan."""
    ran = {revision.spec_hash for revision in stored}
    usable = [v.wanted for v in service.variants if not v.misfits or v.wanted.spec_hash in ran]
    return tuple(choose(each, stored) for each in (wanted, *usable))


def opens_at(shortage: Shortage, hold_seconds: float) -> float:
    """The hold doubles with each time in a row, up to an hour, or to what the operator was told where that is more."""
    longest = max(LONGEST_HOLD_SECONDS, hold_seconds)
    return shortage.seen_at + min(longest, hold_seconds * 2.0 ** min(shortage.times - 1, 16))


def variant_order_of(
    choices: tuple[Choice, ...],
    replicas: Sequence[Replica],
    refusals: Iterable[Refusal],
    memory: ServiceMemory,
    hold_seconds: float,
    now: float,
) -> VariantOrder:
    """With what was known before and what is seen now."""
    if len(choices) < 2:
        return VariantOrder(choices)
    earlier = memory.shortages
    before = VariantOrder(choices, earlier or {}, hold_seconds, now)
    refused = tuple(refusals)
    found: dict[str, Shortage] = {}
    for rank, target in enumerate(before.targets):
        known = before.shortages.get(target.variant)
        seen = _lack(target, rank == 0, replicas, refused, now) or _held_back(target, before, memory, replicas)
        if seen is not None:
            found[target.variant] = _again(known, seen, hold_seconds)
        elif known is not None and not _serves_since(target, replicas, known.seen_at):
            found[target.variant] = known
        elif earlier is None and _used_instead(before, target.variant, replicas):
            found[target.variant] = Shortage(now, 1, JUST_BEGUN)
    return replace(before, shortages=found)


def _again(known: Shortage | None, seen: Shortage, hold_seconds: float) -> Shortage:
    """One attempt counts once, however long it waits."""
    if known is None:
        return seen
    if seen.seen_at <= known.seen_at:
        return known
    return replace(seen, times=known.times + (opens_at(known, hold_seconds) <= seen.seen_at))


def _lack(
    target: Revision, own: bool, replicas: Sequence[Replica], refusals: Iterable[Refusal], now: float
) -> Shortage | None:
    """That it cannot be had, as a replica of it shows, or as the API server said. `own`: the service's own shape."""
    for replica in replicas:
        if replica.revision == target.hash and _in_vain(replica, own):
            return Shortage(now, 1, replica.message.rstrip("."))
    lacking = [r for r in refusals if r.reason == Reason.QUOTA_EXCEEDED and f"-{target.hash}-" in r.pod_name]
    if not lacking:
        return None
    last = max(lacking, key=lambda refusal: (refusal.at, refusal.pod_name))
    return Shortage(last.at, 1, f"{last.pod_name} was refused at {rfc3339(last.at)}: {last.message.rstrip('.')}")


def _in_vain(replica: Replica, own: bool) -> bool:
    """An engine that fails on another shape may not be made for it. One that fails on the service's own may fail for
    its model or its image, which another shape would not mend.
    """
    if replica.state is not ReplicaState.BLOCKED:
        return False
    return replica.reason in REASONS_OF_SHORTAGE or (not own and is_faulty(replica))


def _held_back(
    target: Revision, before: VariantOrder, memory: ServiceMemory, replicas: Sequence[Replica]
) -> Shortage | None:
    """The operator's ceiling of GPUs leaves nothing to go back to; without a hold that would be asked at every tick."""
    held = memory.held_back and target == before.next_up and _used_instead(before, target.variant, replicas)
    return Shortage(before.now, 1, memory.held_back) if held else None


def _serves_since(target: Revision, replicas: Iterable[Replica], at: float) -> bool:
    return any(
        replica.revision == target.hash and replica.state is ReplicaState.SERVING and replica.ready_since > at
        for replica in replicas
    )


def _used_instead(variant_order: VariantOrder, variant: str, replicas: Iterable[Replica]) -> bool:
    """Whether there are replicas of a shape that is less preferred."""
    later = {target.hash for target in variant_order.targets[variant_order.rank(variant) + 1 :]}
    return any(replica.revision in later and replica.state in LIVE for replica in replicas)
