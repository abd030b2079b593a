"""Shares: who gets how much of a capacity, and who lends to whom. The public part of this package.

`share_amounts` divides tokens per minute, `share_units` whole GPUs or replicas. Both return `Shares`, with columns for
thousands of tenants and rows for people.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forebay.api.tenant_quota import TenantClass
from forebay.sharing.division import Division, ScaledGuarantees
from forebay.sharing.tenant import SharingError
from forebay.sharing.tenant_tree import ROOT, TenantTree
from forebay.sharing.water_filling import Fill, fill_amounts, fill_units


@dataclass(frozen=True, slots=True)
class TenantShare:
    """One tenant's part. For a group every amount is the total of the group and its children."""

    name: str
    asked: float
    guaranteed: float
    limit: float | None
    weight: float
    tenant_class: TenantClass
    fair_share: float
    """The capacity divided by weight alone: level by level, with no regard to asks, guarantees, limits or classes."""
    granted: float
    borrowed: float
    """Granted beyond what it has when everybody asks for all it may."""
    lent: float
    """What it has when everybody asks for all they may, and leaves to others because it asks for less. Granted and lent
    are that amount and borrowed."""
    short: float
    """What it asks for within its limit and does not get; for a group also what the limits of its children refuse."""


@dataclass(frozen=True, slots=True)
class Shares:
    """The result, by tenant in the order of names; `Shares.tenants` has the rows."""

    capacity: float
    tree: TenantTree
    asked: Sequence[float]
    fair: Sequence[float]
    entitled: Sequence[float]
    """What each has when everybody asks for all they may: what lending and borrowing start from."""
    granted: Sequence[float]
    scaled: tuple[ScaledGuarantees, ...]
    """Guarantees that were asked for together exceed what there is; empty when each is kept."""
    asking_groups: frozenset[int] = frozenset()
    """Groups that ask for something themselves, by node."""

    @property
    def borrowed(self) -> Sequence[float]:
        return _beyond(self.granted, self.entitled)

    @property
    def lent(self) -> Sequence[float]:
        return _beyond(self.entitled, self.granted)

    @property
    def short(self) -> Sequence[float]:
        limits = self.tree.by_name(self.tree.limits)
        wanted = [ask if ask < limit else limit for ask, limit in zip(self.asked, limits, strict=True)]
        return _beyond(wanted, self.granted)

    @property
    def tenants(self) -> tuple[TenantShare, ...]:
        columns = zip(
            self.tree.tenants,
            self.asked,
            self.tree.by_name(self.tree.guarantees),
            self.fair,
            self.granted,
            self.borrowed,
            self.lent,
            self.short,
            strict=True,
        )
        return tuple(
            TenantShare(
                tenant.name,
                asked,
                guaranteed,
                tenant.limit,
                tenant.weight,
                tenant.tenant_class,
                fair,
                granted,
                borrowed,
                lent,
                short,
            )
            for tenant, asked, guaranteed, fair, granted, borrowed, lent, short in columns
        )


def _beyond(amounts: Sequence[float], bounds: Sequence[float]) -> Sequence[float]:
    """What each amount is above its bound."""
    return [amount - bound if amount > bound else 0.0 for amount, bound in zip(amounts, bounds, strict=True)]


def share_amounts(tree: TenantTree, asks: Mapping[str, float], capacity: float, before: Shares | None = None) -> Shares:
    """Real amounts, such as tokens per minute. Tenants that are not in `asks` ask for nothing.

    `before` are earlier shares of the same kind: what depends on tree and capacity alone is taken from there while both
    are the same. Sums agree with the capacity within 1e-9 of it. Raises SharingError as `TenantTree.asks_of` does, and
    for a capacity that is negative or not finite.
    """
    return _share(tree, asks, capacity, fill_amounts, before)


def share_units(tree: TenantTree, asks: Mapping[str, int], capacity: int, before: Shares | None = None) -> Shares:
    """Whole units, such as GPUs; guarantees, limits, asks and the capacity have to be whole numbers.

    Raises SharingError as `share_amounts` does, and for amounts that are not whole.
    """
    amounts: list[float] = [capacity, *asks.values()]
    for tenant in tree.tenants:
        amounts += [amount for amount in (tenant.guaranteed, tenant.limit) if amount is not None]
    for amount in amounts:
        if amount % 1 != 0:
            raise SharingError(f"{amount} is no whole number; units are divided, such as GPUs, so give whole ones")
    return _share(tree, asks, capacity, fill_units, before)


def _share(tree: TenantTree, asks: Mapping[str, float], capacity: float, fill: Fill, before: Shares | None) -> Shares:
    if not 0 <= capacity < float("inf"):
        raise SharingError(f"capacity {capacity} must be a finite number of at least 0")
    asked = tree.asks_of(asks)
    division = Division(tree, asked, capacity, fill)
    asking = frozenset(group for group, leaf in tree.own.items() if asked[leaf])
    if before and before.tree is tree and before.capacity == capacity and before.asking_groups == asking:
        fair, entitled = before.fair, before.entitled
    else:
        fair = tree.by_name(fair_shares(tree, asked, capacity))
        everything = Division(tree, _everything(tree, asked, capacity), capacity, fill)
        entitled = tree.by_name(everything.granted)
    return Shares(
        capacity,
        tree,
        tree.by_name(tree.summed(asked)),
        fair,
        entitled,
        tree.by_name(division.granted),
        tuple(division.scaled),
        asking,
    )


def _everything(tree: TenantTree, asked: Sequence[float], capacity: float) -> Sequence[float]:
    """Asks for all there is, by everybody; by a group for itself only if it ever asks."""
    everything: list[float] = [capacity] * len(asked)
    for leaf in tree.own.values():
        everything[leaf] = capacity if asked[leaf] else 0
    return everything


def fair_shares(tree: TenantTree, asked: Sequence[float], capacity: float) -> Sequence[float]:
    """The capacity divided by weight alone, level by level, by node; a group counts itself only if it asks."""
    fair = [float(capacity)] * len(tree.weights)
    weights = list(tree.weights)
    for leaf in tree.own.values():
        weights[leaf] = weights[leaf] if asked[leaf] else 0.0
    for group in reversed(tree.blocks[ROOT].below):
        block = tree.blocks[group]
        own = weights[block.start : block.end]
        per_weight = fair[group] / (sum(own) or 1.0)
        fair[block.start : block.end] = [weight * per_weight for weight in own]
    return fair
