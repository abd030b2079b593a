"""Quota budget: creations that a ResourceQuota would refuse are not attempted.

What a quota leaves is spent like the operator's own limits, in the order of the requests. A replica that does not fit
waits until the quota leaves enough, and the watch of the quota wakes the planner; no back-off delays it. The API
server has the last word: a pod that it refuses all the same is a refusal as without this module.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from forebay.planner.observe.namespace_quotas import NamespaceQuotas, QuotaBlock, charged
from forebay.planner.reconcile.steps import Step
from forebay.scaling.decision import count
from forebay.workloads.objects.pod_charge import PodCharge, applies, charge_of_replica_pod
from forebay.world.plan import CreatePod


@dataclass(frozen=True, slots=True)
class QuotaHold:
    """The replicas of one service that quotas hold back in this tick."""

    block: QuotaBlock
    """The first limit that was met."""
    replicas: int
    """How many replicas that limit holds back."""
    needed: Fraction
    """What they would use together."""
    revisions: frozenset[str]
    """Hashes of the revisions that were held back, by any limit."""

    @property
    def fact(self) -> str:
        """Which limit, and what is used of it, as a clause."""
        return _fact(self.block, self.replicas, "replica")

    @property
    def why(self) -> str:
        """The fact, and what would work."""
        return f"{self.fact}; {_remedy(self.block, self.needed)}, or lower scaling.maxReplicas"


@dataclass(slots=True)
class QuotaBudget:
    """What the quotas leave for this tick."""

    quotas: NamespaceQuotas
    planned: dict[tuple[str, str, str], Fraction] = field(default_factory=dict)
    holds: dict[str, QuotaHold] = field(default_factory=dict)
    """By service uid."""
    blocks: dict[str, dict[tuple[str, str], QuotaBlock]] = field(default_factory=dict)
    """The limits that hold replicas back, by namespace, and by quota and resource."""

    def limit(self, namespace: str) -> bool:
        """Whether the namespace has a quota."""
        return self.quotas.limit(namespace)

    def grant(self, uid: str, namespace: str, step: Step) -> bool:
        """Whether all pods of a creation fit. They are charged if they do."""
        pods = [action for action in step.actions if isinstance(action, CreatePod)]
        charges = [charge_of_replica_pod(pod.revision.data, worker=pod.rank > 0) for pod in pods]
        block = self.quotas.block(namespace, charges, self.planned)
        if block is None:
            self._charge(namespace, charges)
            return True
        self.blocks.setdefault(namespace, {}).setdefault(block.limit, block)
        self.holds[uid] = _held(self.holds.get(uid), block, frozenset(pod.revision.hash for pod in pods))
        return False

    def placeholders(self, namespace: str, charge: PodCharge, wanted: int) -> tuple[int, QuotaBlock | None]:
        """How many of the wanted placeholders fit, and the limit that stops the next one. They are charged."""
        for fitting in range(wanted):
            if block := self.quotas.block(namespace, [charge], self.planned):
                return fitting, block
            self._charge(namespace, [charge])
        return wanted, None

    def yields(self, namespace: str, charge: PodCharge) -> QuotaBlock | None:
        """The limit that holds a replica back and that this placeholder uses too; None without one."""
        for block in self.blocks.get(namespace, {}).values():
            if applies(block.quota, charge) and charge.usage.get(block.resource):
                return block
        return None

    def _charge(self, namespace: str, charges: Sequence[PodCharge]) -> None:
        for quota in self.quotas.by_namespace.get(namespace, ()):
            for resource, amount in charged(quota, charges).items():
                key = namespace, quota.name, resource
                self.planned[key] = self.planned.get(key, Fraction(0)) + amount


def _held(before: QuotaHold | None, block: QuotaBlock, revisions: frozenset[str]) -> QuotaHold:
    if before is None:
        return QuotaHold(block, 1, block.needed, revisions)
    same = before.block.limit == block.limit
    return QuotaHold(
        before.block,
        before.replicas + same,
        before.needed + (block.needed if same else 0),
        before.revisions | revisions,
    )


def placeholder_hold(block: QuotaBlock, placeholders: int) -> str:
    """Which limit stops the creation of placeholders, and what would work, as a clause."""
    return f"{_fact(block, placeholders, 'placeholder')}; {_remedy(block, block.needed * placeholders)}"


def _fact(block: QuotaBlock, pods: int, noun: str) -> str:
    each, used, hard = (block.text(amount) for amount in (block.needed, block.used, block.hard))
    return (
        f"ResourceQuota {block.quota.name} leaves no space for {count(pods, f'more {noun}')}: {used} of {hard} "
        f"{block.resource} are used and a {noun} takes {each}"
    )


def _remedy(block: QuotaBlock, needed: Fraction) -> str:
    return f"raise the limit to {block.text(block.used + needed)}"
