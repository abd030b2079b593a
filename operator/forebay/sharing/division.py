"""Division: one capacity among the tenants of a tree. Pure arithmetic of quotas, asks and the capacity.

A group divides what it has among its children in three rounds, and so does the root with the whole capacity:

1. *Guarantees*, of either class: every child gets min(reach, guarantee), where its reach is what it and its children
   ask for within all limits. Guarantees that do not fit are scaled in proportion: min(reach, λ × guarantee), with
   the largest λ that fits. A group divides its guaranteed amount among its own children, by these same rounds.
2. *Interactive*: the totals of tenants and groups rise to weight × θ, never below what they have, never above what
   their interactive leaves can take. Inside a group the same rise divides the group's total.
3. *Batch*, likewise.

A group is therefore compared with its neighbours by its total, whatever the classes of its leaves, and its guarantee is
used up by its own children before anything is borrowed from outside. docs/design/sharing.md says why.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from forebay.api.tenant_quota import TenantClass
from forebay.sharing.tenant import CLASSES
from forebay.sharing.tenant_tree import ROOT, Block, TenantTree
from forebay.sharing.water_filling import Fill

ROUNDING: Final = 1e-9
"""Relative difference below which two sums of real amounts are the same."""


@dataclass(frozen=True, slots=True)
class ScaledGuarantees:
    """Guarantees that were asked for and did not fit, so that each was scaled in proportion."""

    group: str | None
    """Whose children they belong to; None for tenants without a parent."""
    wanted: float
    """Sum of what was asked for within the guarantees."""
    available: float
    """What there was: the capacity, or what the group itself is guaranteed or limited to."""


class Division:
    """The rounds over one tree. `granted` has the result by node, groups and root with their totals."""

    def __init__(self, tree: TenantTree, asks: Sequence[float], capacity: float, fill: Fill) -> None:
        """`asks` by node, as `TenantTree.asks_of` gives them."""
        self._tree = tree
        self._fill = fill
        self._reach = [limit if limit < ask else ask for ask, limit in zip(asks, tree.limits, strict=True)]
        for group in tree.blocks[ROOT].below:
            block = tree.blocks[group]
            self._reach[group] = min(tree.limits[group], sum(self._reach[block.start : block.end]))
        self.granted: list[float] = [0] * len(self._reach)
        self.scaled: list[ScaledGuarantees] = []
        self.granted[ROOT] = min(capacity, self._reach[ROOT])
        self._divide(ROOT, self.granted[ROOT])

    def _divide(self, group: int, total: float) -> None:
        """Divides a total, at most the group's reach, among its children."""
        block, granted = self._tree.blocks[group], self.granted
        if block.guarantees:
            guaranteed = self._guaranteed(group, block, total)
            granted[block.start : block.end] = guaranteed
            for child in range(block.groups, block.batch):
                if granted[child] or self._tree.blocks[child].guarantees:
                    self._divide(child, granted[child])
        for each in CLASSES:
            if sum(granted[block.start : block.end]) < total:
                self._raise(group, total, each)

    def _guaranteed(self, group: int, block: Block, total: float) -> Sequence[float]:
        """What each child gets of its guarantee."""
        guarantees = self._tree.guarantees[block.start : block.end]
        reach = self._reach[block.start : block.end]
        wanted = [each if each < guarantee else guarantee for each, guarantee in zip(reach, guarantees, strict=True)]
        if (sum_wanted := sum(wanted)) <= total:
            return wanted
        # Two sums of the same floats may differ by rounding; that breaks no promise.
        if sum_wanted > total * (1 + ROUNDING):
            self.scaled.append(ScaledGuarantees(self._tree.names.get(group), sum_wanted, total))
        some = [child for child, amount in enumerate(wanted) if amount]
        high = [wanted[child] for child in some]
        scaled = self._fill([0] * len(some), high, [guarantees[child] for child in some], total)
        for child, amount in zip(some, scaled, strict=True):
            wanted[child] = amount
        return wanted

    def _raise(self, group: int, total: float, tenant_class: TenantClass) -> None:
        """Raises the leaves of one class until the group has the total or they have what they can take."""
        top: dict[int, float] = {}
        for each in self._tree.blocks[group].below:
            block = self._tree.blocks[each]
            sums = [
                sum(
                    (self._reach if tenant_class is TenantClass.INTERACTIVE else self.granted)[
                        block.start : block.groups
                    ]
                ),
                sum([top[child] for child in range(block.groups, block.batch)]),
                sum((self._reach if tenant_class is TenantClass.BATCH else self.granted)[block.batch : block.end]),
            ]
            top[each] = min(self._tree.limits[each], sum(sums))
        self._rise(group, total, tenant_class, top)

    def _rise(self, group: int, total: float, tenant_class: TenantClass, top: Mapping[int, float]) -> None:
        """Raises the members of a class in one group, given what each group below can take in this round."""
        block, granted = self._tree.blocks[group], self.granted
        start, end = block.members(tenant_class)
        lows = granted[start:end]
        highs = self._reach[start:end]
        highs[block.groups - start : block.batch - start] = [top[child] for child in range(block.groups, block.batch)]
        others = sum(granted[block.start : start]) + sum(granted[end : block.end])
        granted[start:end] = self._fill(lows, highs, self._tree.weights[start:end], total - others)
        for child in range(block.groups, block.batch):
            if granted[child] > lows[child - start]:
                self._rise(child, granted[child], tenant_class, top)
