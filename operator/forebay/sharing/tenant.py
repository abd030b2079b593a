"""Tenants: what a quota says about one model or one GPU product, before anybody asks for anything.

A tenant is a team, or a group of teams such as an organisation. A group is a tenant that others name as their parent;
its guarantee and its limit hold for all of them together.
"""

from dataclasses import dataclass
from math import isfinite

from forebay.api.tenant_quota import TenantClass


class SharingError(ValueError):
    """Input that no division can follow; the message names the tenant, the field, the value and what would work."""


CLASSES = tuple(TenantClass)
"""First class first."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """One tenant of one capacity. Amounts have the unit of the capacity: tokens per minute, or GPUs.

    Raises SharingError for a weight that is not positive and for amounts that are negative or not finite. A guarantee
    above the limit counts up to the limit.
    """

    name: str
    guaranteed: float | None = None
    """None is nothing for a tenant without children, and the sum of the children's guarantees for a group."""
    limit: float | None = None
    """None is no limit."""
    weight: float = 1.0
    """Against tenants with the same parent."""
    tenant_class: TenantClass = TenantClass.INTERACTIVE
    parent: str | None = None

    def __post_init__(self) -> None:
        if not (isfinite(self.weight) and self.weight > 0):
            raise SharingError(f"tenant {self.name}: weight {self.weight} must be a finite number above 0, such as 1")
        for field, amount in (("guaranteed", self.guaranteed), ("limit", self.limit)):
            if amount is not None and not (isfinite(amount) and amount >= 0):
                raise SharingError(f"tenant {self.name}: {field} {amount} must be a finite number of at least 0")
