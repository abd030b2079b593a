"""Namespace quotas: what the ResourceQuotas of a namespace leave for new pods.

The API server adds a pod to a quota's use when it admits the pod, and its quota controller subtracts a deleted pod
seconds later. So the use that is read may be too high for a moment, and too low for the time that a watch event takes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from forebay.workloads.objects.pod_charge import PodCharge, applies, charge_of_replica_pod
from forebay.workloads.spec.quantities import in_binary_units
from forebay.world.quota import QuotaView
from forebay.world.world import Revision

Planned = Mapping[tuple[str, str, str], Fraction]
"""What this tick has planned already, by namespace, quota and resource."""


@dataclass(frozen=True, slots=True)
class QuotaBlock:
    """The limit of a quota that pods would exceed."""

    quota: QuotaView
    resource: str
    used: Fraction
    """Use with what this tick creates."""
    needed: Fraction
    """What the pods would use."""

    @property
    def hard(self) -> Fraction:
        return self.quota.hard[self.resource]

    @property
    def limit(self) -> tuple[str, str]:
        return self.quota.name, self.resource

    def text(self, amount: Fraction) -> str:
        """The amount as people write it: `64Gi` of memory, `2` GPUs, `1.5` CPUs."""
        if "memory" in self.resource or "storage" in self.resource or "hugepages" in self.resource:
            return in_binary_units(amount)
        return f"{float(amount):g}" if amount.denominator > 1 else str(amount.numerator)


@dataclass(frozen=True, slots=True)
class NamespaceQuotas:
    """The quotas by namespace, each namespace's ordered by name."""

    by_namespace: Mapping[str, tuple[QuotaView, ...]]

    @classmethod
    def of(cls, quotas: Iterable[QuotaView]) -> "NamespaceQuotas":
        by_namespace: dict[str, list[QuotaView]] = {}
        for quota in sorted(quotas, key=lambda quota: (quota.namespace, quota.name)):
            by_namespace.setdefault(quota.namespace, []).append(quota)
        return cls({namespace: tuple(found) for namespace, found in by_namespace.items()})

    def limit(self, namespace: str) -> bool:
        """Whether the namespace has a quota."""
        return namespace in self.by_namespace

    def block(self, namespace: str, charges: Sequence[PodCharge], planned: Planned) -> QuotaBlock | None:
        """The first limit that the pods would exceed; None when all of them fit."""
        for quota in self.by_namespace.get(namespace, ()):
            for resource, needed in sorted(charged(quota, charges).items()):
                used = quota.used[resource] + planned.get((namespace, quota.name, resource), Fraction(0))
                if used + needed > quota.hard[resource]:
                    return QuotaBlock(quota, resource, used, needed)
        return None

    def leave_space_for(self, namespace: str, revision: Revision) -> bool:
        """Whether one more replica of the revision fits."""
        if not self.limit(namespace):
            return True
        charges = [charge_of_replica_pod(revision.data, worker=rank > 0) for rank in range(revision.shape.pods)]
        return self.block(namespace, charges, {}) is None


def charged(quota: QuotaView, charges: Iterable[PodCharge]) -> dict[str, Fraction]:
    """What the pods use of each resource that the quota limits. A resource whose use is not counted yet is left to the
    API server."""
    total: dict[str, Fraction] = {}
    for charge in charges:
        if applies(quota, charge):
            for resource, amount in charge.usage.items():
                if resource in quota.hard and resource in quota.used:
                    total[resource] = total.get(resource, Fraction(0)) + amount
    return total
