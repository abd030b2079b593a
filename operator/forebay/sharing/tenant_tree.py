"""The tree of tenants: which tenants belong to which group, as columns that a division reads.

Everything here depends on quotas alone, so a tree is built once and divides any number of capacities. Nodes are
numbered so that each round of a division reads one slice of a column: the root is node 0, and the children of a group
follow each other, interactive leaves first, then groups, then batch leaves, each by name. A division is therefore
independent of the order in which quotas were read, and a tie goes to the first in this order.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from operator import attrgetter
from typing import Final

from forebay.api.tenant_quota import TenantClass
from forebay.sharing.tenant import SharingError, Tenant

ROOT: Final = 0


@dataclass(frozen=True, slots=True)
class Block:
    """The nodes of the children of one group: `start` ≤ interactive < `groups` ≤ groups < `batch` ≤ batch < `end`."""

    start: int
    groups: int
    batch: int
    end: int
    below: Sequence[int]
    """The groups at any depth below, children before their parents; the group itself is the last."""
    guarantees: bool
    """Whether anybody below has a guarantee."""

    def members(self, tenant_class: TenantClass) -> tuple[int, int]:
        """Start and end of the leaves of a class with the groups, which may have such leaves."""
        return (self.start, self.batch) if tenant_class is TenantClass.INTERACTIVE else (self.groups, self.end)


@dataclass(frozen=True, slots=True)
class TenantTree:
    """Columns by node. A group has a leaf of its own among its children, for what it asks for itself."""

    tenants: tuple[Tenant, ...]
    """By name."""
    node_of: Mapping[str, int]
    """By name, in the order of `tenants`."""
    weights: Sequence[float]
    guarantees: Sequence[float]
    """Of a group without a stated guarantee: the sum of its children's."""
    limits: Sequence[float]
    blocks: Mapping[int, Block]
    """Of the root and of each group."""
    names: Mapping[int, str]
    """Of groups."""
    own: Mapping[int, int]
    """The node of a group's own asks, by group. Its weight is 1, and it has neither guarantee nor limit."""

    @classmethod
    def of(cls, tenants: Iterable[Tenant]) -> "TenantTree":
        """Raises SharingError for a name that is there twice, an unknown parent, and a cycle of parents."""
        ordered = tuple(sorted(tenants, key=attrgetter("name")))
        children = _children(ordered)
        placed, own_of, spans = _placed(ordered, children)
        weights, limits, guarantees = [1.0], [inf], [0.0]
        for index, is_own in placed[1:]:
            tenant = ordered[index]
            weights.append(1.0 if is_own else tenant.weight)
            limits.append(inf if is_own or tenant.limit is None else tenant.limit)
            guarantees.append(0 if is_own else tenant.guaranteed or 0)
        blocks: dict[int, Block] = {}
        for group in reversed(spans):
            start, groups, batch, end = spans[group]
            if group != ROOT and ordered[placed[group][0]].guaranteed is None:
                guarantees[group] = sum(guarantees[start:end])
            below = [node for child in range(groups, batch) for node in blocks[child].below]
            any_guarantee = any(guarantees[start:end]) or any(
                blocks[child].guarantees for child in range(groups, batch)
            )
            blocks[group] = Block(start, groups, batch, end, (*below, group), any_guarantee)
        nodes = {index: node for node, (index, is_own) in enumerate(placed) if not is_own}
        node_of = {tenant.name: nodes[index] for index, tenant in enumerate(ordered)}
        names = {group: ordered[placed[group][0]].name for group in spans if group != ROOT}
        return cls(ordered, node_of, weights, guarantees, limits, blocks, names, own_of)

    def asks_of(self, asks: Mapping[str, float]) -> list[float]:
        """Asks by node; who is not named asks for nothing, and what a group asks for itself stands at its own leaf.

        Raises SharingError for a name that no tenant has, and for asks that are negative or not finite.
        """
        column: list[float] = [0] * len(self.weights)
        node_of = self.node_of
        try:
            for name, ask in asks.items():
                column[node_of[name]] = ask
        except KeyError:
            unknown = ", ".join(sorted(asks.keys() - node_of.keys()))
            there = ", ".join(tenant.name for tenant in self.tenants[:10]) or "none"
            raise SharingError(f"no tenant is named {unknown}; there are {there}") from None
        if not (all(map(isfinite, asks.values())) and min(asks.values(), default=0) >= 0):
            wrong = next(name for name, ask in asks.items() if not (isfinite(ask) and ask >= 0))
            raise SharingError(f"tenant {wrong}: asked {asks[wrong]} must be a finite number of at least 0")
        for group, leaf in self.own.items():
            column[leaf], column[group] = column[group], 0
        return column

    def by_name(self, column: Sequence[float]) -> list[float]:
        """A column by node in the order of `tenants`."""
        return list(map(column.__getitem__, self.node_of.values()))

    def summed(self, column: Sequence[float]) -> list[float]:
        """The column with the sum of its children for each group, and for the root."""
        summed = list(column)
        for group in self.blocks[ROOT].below:
            block = self.blocks[group]
            summed[group] = sum(summed[block.start : block.end])
        return summed


def _children(tenants: Sequence[Tenant]) -> dict[str | None, list[int]]:
    """The indices of the children of each group, by its name; those without a parent under None."""
    index = {tenant.name: i for i, tenant in enumerate(tenants)}
    if len(index) < len(tenants):
        twice = next(tenant.name for i, tenant in enumerate(tenants) if index[tenant.name] != i)
        raise SharingError(f"tenant {twice} is there twice; give each tenant a name of its own")
    children: dict[str | None, list[int]] = {}
    for i, tenant in enumerate(tenants):
        if tenant.parent is not None and tenant.parent not in index:
            raise SharingError(
                f"tenant {tenant.name}: parent {tenant.parent} is no tenant; add its quota, or leave parent out"
            )
        children.setdefault(tenant.parent, []).append(i)
    return children


def _placed(
    tenants: Sequence[Tenant], children: Mapping[str | None, Sequence[int]]
) -> tuple[list[tuple[int, bool]], dict[int, int], dict[int, tuple[int, int, int, int]]]:
    """By node its tenant and whether it is the own leaf of a group; the own leaf and the span of each group's children.

    Groups are placed parents first.
    """
    placed: list[tuple[int, bool]] = [(-1, False)]
    own_of: dict[int, int] = {}
    spans: dict[int, tuple[int, int, int, int]] = {}
    groups: list[int] = [ROOT]
    for group in groups:
        index = placed[group][0]
        name = None if group == ROOT else tenants[index].name
        kinds: dict[TenantClass | None, list[tuple[int, bool]]] = {
            TenantClass.INTERACTIVE: [],
            None: [],
            TenantClass.BATCH: [],
        }
        for child in children.get(name, ()):
            is_group = tenants[child].name in children
            kinds[None if is_group else tenants[child].tenant_class].append((child, False))
        if name is not None:
            kinds[tenants[index].tenant_class].append((index, True))
        start = len(placed)
        interactive, middle = len(kinds[TenantClass.INTERACTIVE]), len(kinds[None])
        for nodes in kinds.values():
            placed += nodes
        spans[group] = (start, start + interactive, start + interactive + middle, len(placed))
        groups += range(start + interactive, start + interactive + middle)
        if name is not None:
            own_of[group] = next(node for node in range(start, len(placed)) if placed[node] == (index, True))
    _refuse_cycles(tenants, {index for index, _ in placed})
    return placed, own_of, spans


def _refuse_cycles(tenants: Sequence[Tenant], reached: set[int]) -> None:
    """Raises SharingError when a tenant cannot be reached from those without a parent."""
    parents = {tenant.name: tenant.parent for tenant in tenants}
    for i, tenant in enumerate(tenants):
        if i in reached:
            continue
        way = [tenant.name]
        while (parent := parents[way[-1]]) not in way:
            way.append(str(parent))
        cycle = " → ".join([*way[way.index(str(parent)) :], str(parent)])
        raise SharingError(f"tenant {parent}: parent leads back to itself ({cycle}); leave one of these parents out")
