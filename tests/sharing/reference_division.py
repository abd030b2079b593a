"""A slow reference of the division: unit by unit down the tree, and real amounts by bisection on the level.

It knows nothing of columns, slices or sorted levels. A unit starts at the root and walks to the child with the lowest
(total + 1) ÷ weight that can still take one.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction

from forebay.api.tenant_quota import TenantClass
from forebay.sharing.tenant import Tenant
from tests.builders.tenants import Case

BISECTIONS = 200


class Node:
    """A tenant or group with what it has so far; `tenant` None is the root, or what a group asks for itself."""

    def __init__(self, tenant: Tenant | None, weight: float = 1) -> None:
        self.tenant = tenant
        self.weight = weight
        self.guarantee: float = 0
        self.limit = float("inf")
        self.ask: float = 0
        self.tenant_class = TenantClass.INTERACTIVE
        self.children: list[Node] = []
        self.has: float = 0

    @property
    def total(self) -> float:
        return sum(child.total for child in self.children) if self.children else self.has

    @property
    def reach(self) -> float:
        wanted = sum(child.reach for child in self.children) if self.children else self.ask
        return min(wanted, self.limit)

    def top(self, tenant_class: TenantClass) -> float:
        """The largest total when only leaves of one class grow."""
        if not self.children:
            return self.reach if self.tenant_class is tenant_class else self.has
        return min(self.limit, sum(child.top(tenant_class) for child in self.children))


def tree(case: Case) -> tuple[Node, dict[str, Node]]:
    """The root, and the node of each tenant; children as ties are decided: interactive, groups, batch, by name."""
    root, nodes = Node(None), {tenant.name: Node(tenant, tenant.weight) for tenant in case.tenants}
    for name in sorted(nodes):
        node = nodes[name]
        assert node.tenant is not None
        parent = root if node.tenant.parent is None else nodes[node.tenant.parent]
        parent.children.append(node)
    for name, node in nodes.items():
        assert node.tenant is not None
        node.limit = float("inf") if node.tenant.limit is None else node.tenant.limit
        node.tenant_class = node.tenant.tenant_class
        if node.children:
            own = Node(None)
            own.tenant_class, own.ask = node.tenant_class, case.asks.get(name, 0)
            node.children.append(own)
        else:
            node.ask = case.asks.get(name, 0)
    for node in (root, *nodes.values()):
        node.children.sort(key=lambda child: 1 if child.children else 2 * (child.tenant_class is TenantClass.BATCH))
    _settle_guarantees(root)
    return root, nodes


def _settle_guarantees(node: Node) -> None:
    for child in node.children:
        _settle_guarantees(child)
    stated = node.tenant.guaranteed if node.tenant else 0
    node.guarantee = sum(child.guarantee for child in node.children) if stated is None else stated


def by_units(case: Case) -> dict[str, float]:
    """Unit by unit."""
    root, nodes = tree(case)

    def lowest(among: Sequence[Node], has: Callable[[Node], float], share: Callable[[Node], float]) -> Node:
        return min(among, key=lambda node: Fraction(int(has(node)) + 1) / Fraction(share(node)))

    def give_one(node: Node, tenant_class: TenantClass) -> None:
        if not node.children:
            node.has += 1
            return
        able = [child for child in node.children if child.top(tenant_class) > child.total]
        give_one(lowest(able, lambda child: child.total, lambda child: child.weight), tenant_class)

    def divide(node: Node, units: float) -> None:
        promised = dict.fromkeys(node.children, 0)
        for _ in range(int(units)):
            unkept = [child for child in node.children if promised[child] < min(child.reach, child.guarantee)]
            if not unkept:
                break
            promised[lowest(unkept, lambda child: promised[child], lambda child: child.guarantee)] += 1
        for child, amount in promised.items():
            if child.children:
                divide(child, amount)
            else:
                child.has = amount
        for tenant_class in TenantClass:
            while node.total < min(units, node.top(tenant_class)):
                give_one(node, tenant_class)

    divide(root, min(case.capacity, root.reach))
    return {name: node.total for name, node in nodes.items()}


def by_level(case: Case) -> dict[str, float]:
    """Real amounts, each level found by bisection."""
    root, nodes = tree(case)

    def rise(node: Node, total: float, tenant_class: TenantClass) -> None:
        if not node.children:
            node.has = total
            return
        lows = [child.total for child in node.children]
        tops = [child.top(tenant_class) for child in node.children]
        weights = [child.weight for child in node.children]
        for child, amount in zip(node.children, at_level(lows, tops, weights, total), strict=True):
            rise(child, amount, tenant_class)

    def divide(node: Node, total: float) -> None:
        wanted = [min(child.reach, child.guarantee) for child in node.children]
        if sum(wanted) > total:
            wanted = at_level([0] * len(wanted), wanted, [child.guarantee for child in node.children], total)
        for child, amount in zip(node.children, wanted, strict=True):
            if child.children:
                divide(child, amount)
            else:
                child.has = amount
        for tenant_class in TenantClass:
            rise(node, min(total, node.top(tenant_class)), tenant_class)

    divide(root, min(case.capacity, root.reach))
    return {name: node.total for name, node in nodes.items()}


def at_level(lows: Sequence[float], highs: Sequence[float], weights: Sequence[float], total: float) -> list[float]:
    """min(max(weight × θ, low), high) for the θ at which they add up to the total."""

    def amounts(theta: float) -> list[float]:
        return [min(max(weight * theta, low), high) for low, high, weight in zip(lows, highs, weights, strict=True)]

    below, above = 0.0, 1e6
    for _ in range(BISECTIONS):
        middle = (below + above) / 2
        below, above = (middle, above) if sum(amounts(middle)) < total else (below, middle)
    return amounts(above)
