"""Quota views: convert a ResourceQuota into what the planner reads, and say which changes matter. Pure."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from forebay.cluster.read.projections import QuotaObject
from forebay.workloads.spec.quantities import amount_of
from forebay.world.quota import QuotaScope, QuotaView

OF_PODS: Final = frozenset({"pods", "count/pods", "cpu", "memory", "ephemeral-storage"})
OF_PODS_BY_PREFIX: Final = ("requests.", "limits.", "hugepages-")


def quota_view(quota: QuotaObject) -> QuotaView:
    """The limits that admission enforces, which are those of the status: the quota controller copies `spec.hard` there
    together with the use."""
    expressions = (quota.spec.scope_selector and quota.spec.scope_selector.match_expressions) or ()
    return QuotaView(
        namespace=quota.metadata.namespace,
        name=quota.metadata.name,
        hard=_of_pods(quota.status.hard),
        used=_of_pods(quota.status.used),
        scopes=(
            *(QuotaScope(name) for name in quota.spec.scopes or ()),
            *(QuotaScope(e.scope_name, e.operator, e.values or ()) for e in expressions),
        ),
    )


def leaves_no_more(old: QuotaView, new: QuotaView) -> bool:
    """Whether no pod fits that did not fit before. A quota that fills up changes nothing for who waits."""
    return (
        (old.hard, old.scopes) == (new.hard, new.scopes)
        and old.used.keys() == new.used.keys()
        and all(new.used[resource] >= used for resource, used in old.used.items())
    )


def _of_pods(quantities: Mapping[str, str | int | float] | None) -> dict[str, Fraction]:
    """The amounts of the resources that pods use. Storage claims and the counts of other objects are left out."""
    return {
        name: amount_of(quantity)
        for name, quantity in (quantities or {}).items()
        if (name in OF_PODS or name.startswith(OF_PODS_BY_PREFIX)) and name != "requests.storage"
    }
