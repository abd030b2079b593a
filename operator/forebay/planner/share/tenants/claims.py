"""Claims: which tenant has which namespace, key and parent, of all TenantQuotas together.

The oldest claim wins, by creation time and then by uid, so that a new quota takes nothing from anybody. A parent that
does not exist, or that would close a cycle, counts as no parent; again the youngest of a cycle loses.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from forebay.api.tenant_quota import GpuQuota, ModelShare, QuotaMode, QuotaSpec
from forebay.world.tenants import TenantQuotaView


@dataclass(frozen=True, slots=True)
class Overrun:
    """A guarantee that, with those of older siblings, is more than what the parent is guaranteed."""

    field: str
    """`shares[chat/llama-8b]` or `gpus[NVIDIA-L40S]`."""
    parent: str
    guaranteed: int
    """Together with the older siblings."""
    of_parent: int


@dataclass(frozen=True, slots=True)
class Claims:
    quotas: tuple[TenantQuotaView, ...]
    """Those that are not being deleted, the oldest first."""
    names: frozenset[str]
    specs: Mapping[str, QuotaSpec]
    """Readable specs by tenant."""
    shares: Mapping[str, Mapping[str, ModelShare]]
    """By tenant and model."""
    parents: Mapping[str, str]
    """By tenant; without parents that do not exist or would close a cycle."""
    namespaces: Mapping[str, str]
    """The tenant of each claimed namespace."""
    keys: Mapping[str, str]
    """The tenant of each hash."""
    overruns: Mapping[str, tuple[Overrun, ...]]
    """By tenant."""
    default_tenant: str

    def tenant_of(self, namespace: str) -> str:
        return self.namespaces.get(namespace, self.default_tenant)

    def mode(self, tenant: str) -> QuotaMode:
        spec = self.specs.get(tenant)
        return QuotaMode.ENFORCE if spec is None else spec.mode

    def with_ancestors(self, tenants: Iterable[str]) -> set[str]:
        """The tenants and all groups above them."""
        found: set[str] = set()
        for tenant in tenants:
            name: str | None = tenant
            while name is not None and name not in found:
                found.add(name)
                name = self.parents.get(name)
        return found


def claims_of(quotas: Iterable[TenantQuotaView], default_tenant: str) -> Claims:
    ordered = tuple(sorted((q for q in quotas if not q.deleting), key=lambda quota: quota.age_order))
    specs = {quota.name: quota.spec for quota in ordered if quota.spec is not None}
    names = frozenset(quota.name for quota in ordered)
    shares = {name: {share.model: share for share in spec.shares} for name, spec in specs.items()}
    parents = _parents(specs, names)
    namespaces: dict[str, str] = {}
    keys: dict[str, str] = {}
    for name, spec in specs.items():
        for namespace in spec.namespaces:
            namespaces.setdefault(namespace, name)
        for key in spec.api_keys:
            keys.setdefault(key.sha256, name)
    overruns = _overruns(specs, shares, parents)
    return Claims(ordered, names, specs, shares, parents, namespaces, keys, overruns, default_tenant)


def gpu_quota_of(spec: QuotaSpec, product: str | None) -> GpuQuota | None:
    """The entry that holds for the product: its own, else the one for every product."""
    entries = {entry.product: entry for entry in spec.gpus}
    return entries.get(product) or entries.get(None)


def _parents(specs: Mapping[str, QuotaSpec], names: frozenset[str]) -> dict[str, str]:
    """The oldest quota links first, so the link that would close a cycle belongs to the youngest in it."""
    parents: dict[str, str] = {}
    for name, spec in specs.items():
        if spec.parent in names and not _leads_to(name, spec.parent, parents):
            parents[name] = spec.parent
    return parents


def _leads_to(name: str, start: str, parents: Mapping[str, str]) -> bool:
    """Whether the way up from `start` arrives at `name`. `parents` has no cycle."""
    reached: str | None = start
    while reached is not None:
        if reached == name:
            return True
        reached = parents.get(reached)
    return False


def _overruns(
    specs: Mapping[str, QuotaSpec], shares: Mapping[str, Mapping[str, ModelShare]], parents: Mapping[str, str]
) -> dict[str, tuple[Overrun, ...]]:
    """One pass, the oldest first: each adds its guarantees to those of its older siblings. A shadow quota takes
    nothing from its siblings."""
    total: dict[tuple[str, str], int] = {}
    found: dict[str, tuple[Overrun, ...]] = {}
    for name, spec in specs.items():
        parent = parents.get(name)
        above = specs.get(parent) if parent is not None else None
        if parent is None or above is None:
            continue
        overruns = []
        for field, guaranteed, of_parent in _guarantees_below(spec, above, shares[parent]):
            before = total.get((parent, field), 0)
            if of_parent is not None and before + guaranteed > of_parent:
                overruns.append(Overrun(field, parent, before + guaranteed, of_parent))
            elif spec.mode is QuotaMode.ENFORCE:
                total[parent, field] = before + guaranteed
        if overruns:
            found[name] = tuple(overruns)
    return found


def _guarantees_below(
    spec: QuotaSpec, above: QuotaSpec, shares_above: Mapping[str, ModelShare]
) -> list[tuple[str, int, int | None]]:
    """(field, guarantee, guarantee of the parent or None where it states none)."""
    rows: list[tuple[str, int, int | None]] = []
    for share in spec.shares:
        if share.guaranteed:
            parents_share = shares_above.get(share.model)
            of_parent = None if parents_share is None else parents_share.guaranteed
            rows.append((f"shares[{share.model}]", share.guaranteed, of_parent))
    for entry in spec.gpus:
        if entry.guaranteed:
            parents_entry = gpu_quota_of(above, entry.product)
            of_parent = None if parents_entry is None else parents_entry.guaranteed
            rows.append((f"gpus[{entry.product or 'every product'}]", entry.guaranteed, of_parent))
    return rows
