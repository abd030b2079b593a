"""TenantQuotas as facts."""

from dataclasses import dataclass

from forebay.api.tenant_quota import QuotaSpec, QuotaStatus


@dataclass(frozen=True, slots=True)
class TenantQuotaView:
    name: str
    """The name of the tenant."""
    uid: str
    generation: int
    resource_version: str
    created_at: float
    """Unix seconds; the oldest quota has what several claim."""
    deleting: bool
    spec: QuotaSpec | None
    """None when the stored spec does not parse; `problem` then says why."""
    status: QuotaStatus
    problem: str = ""

    @property
    def age_order(self) -> tuple[float, str]:
        """The oldest first; of two from the same second, the one with the smaller uid."""
        return self.created_at, self.uid
