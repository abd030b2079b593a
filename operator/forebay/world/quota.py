"""ResourceQuotas as facts: what a namespace may use, and what it uses already, as the API server counts it."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class QuotaScope:
    """A property that pods must have for the quota to apply to them."""

    name: str
    """BestEffort, NotBestEffort, Terminating, NotTerminating, PriorityClass or CrossNamespacePodAffinity."""
    operator: str = "Exists"
    """In, NotIn, Exists or DoesNotExist. Only PriorityClass has values to compare."""
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QuotaView:
    namespace: str
    name: str
    hard: Mapping[str, Fraction]
    """Limits by resource, such as `pods` or `requests.nvidia.com/gpu`: those of the status, which admission enforces.
    Resources that no pod uses are left out."""
    used: Mapping[str, Fraction]
    """Use by resource. A resource that is not counted yet is absent, which does not mean that nothing is used."""
    scopes: tuple[QuotaScope, ...] = ()
    """All of them must match."""
