"""Tenants for tests of sharing, and random quotas with asks and a capacity."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from forebay.api.tenant_quota import TenantClass
from forebay.sharing.shares import Shares, share_amounts, share_units
from forebay.sharing.tenant import Tenant
from forebay.sharing.tenant_tree import TenantTree

INTERACTIVE, BATCH = TenantClass.INTERACTIVE, TenantClass.BATCH
WEIGHTS = (0.5, 1, 1, 2, 3)


def a_tenant(
    name: str,
    *,
    guaranteed: float | None = None,
    limit: float | None = None,
    weight: float = 1,
    batch: bool = False,
    parent: str | None = None,
) -> Tenant:
    return Tenant(name, guaranteed, limit, weight, BATCH if batch else INTERACTIVE, parent)


@dataclass(frozen=True)
class Case:
    """Quotas, asks and a capacity; whole numbers, so that both divisions take them."""

    tenants: tuple[Tenant, ...]
    asks: Mapping[str, int]
    capacity: int

    @property
    def leaves(self) -> tuple[Tenant, ...]:
        parents = {tenant.parent for tenant in self.tenants}
        return tuple(tenant for tenant in self.tenants if tenant.name not in parents)

    def amounts(self) -> Shares:
        return share_amounts(TenantTree.of(self.tenants), self.asks, self.capacity)

    def units(self) -> Shares:
        return share_units(TenantTree.of(self.tenants), self.asks, self.capacity)

    def both(self) -> tuple[Shares, Shares]:
        return self.amounts(), self.units()

    def asking(self, name: str, ask: int) -> "Case":
        return replace(self, asks={**self.asks, name: ask})

    def without(self, name: str) -> "Case":
        """The case after this tenant's quota was deleted; it has no children."""
        return replace(
            self,
            tenants=tuple(tenant for tenant in self.tenants if tenant.name != name),
            asks={other: ask for other, ask in self.asks.items() if other != name},
        )

    def children_within_groups(self) -> bool:
        """Whether no children are together guaranteed more than their group."""
        tree = TenantTree.of(self.tenants)
        promised = dict(zip((tenant.name for tenant in tree.tenants), tree.by_name(tree.guarantees), strict=True))
        return all(
            promised[group.name] >= sum(promised[child.name] for child in self.tenants if child.parent == group.name)
            for group in self.tenants
            if any(child.parent == group.name for child in self.tenants)
        )

    def above(self, tenant: Tenant) -> tuple[Tenant, ...]:
        """The groups that a tenant belongs to, from its parent on."""
        named = {each.name: each for each in self.tenants}
        way: list[Tenant] = []
        while tenant.parent is not None:
            tenant = named[tenant.parent]
            way.append(tenant)
        return tuple(way)


def granted(shares: Shares) -> dict[str, float]:
    return {tenant.name: tenant.granted for tenant in shares.tenants}


def a_case(tenants: Iterable[Tenant], capacity: int, **asks: int) -> Case:
    return Case(tuple(tenants), asks, capacity)


@st.composite
def cases(draw: st.DrawFn, *, groups: int = 0, weights: tuple[float, ...] = WEIGHTS, most: int = 6) -> Case:
    """Tenants with small amounts, so that bounds meet and ties occur; `groups` of them may have children, and groups
    among these."""
    amounts = st.integers(0, 12)

    def drawn(name: str, parent: str | None, *, group: bool) -> Tenant:
        return Tenant(
            name,
            draw(st.none() | amounts),
            draw(st.none() | (st.integers(0, 30) if group else amounts)),
            draw(st.sampled_from(weights)),
            draw(st.sampled_from(TenantClass)),
            parent,
        )

    named = [f"org-{index}" for index in range(draw(st.integers(0, groups)))]
    tenants = [
        drawn(name, draw(st.sampled_from([None, *named[:index]])), group=True) for index, name in enumerate(named)
    ]
    tenants += [
        drawn(f"team-{index}", draw(st.sampled_from([None, *named])), group=False)
        for index in range(draw(st.integers(1, most)))
    ]
    asks = {tenant.name: draw(st.integers(0, 20)) for tenant in tenants if draw(st.integers(0, 9))}
    return Case(tuple(tenants), asks, draw(st.integers(0, 50)))


FLAT = cases()
NESTED = cases(groups=4)
