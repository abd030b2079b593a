"""InferenceServices and TenantQuotas that are refused, by the invalid part of the spec."""

from e2e.apiserver.crd_cases.capacity import CAPACITY
from e2e.apiserver.crd_cases.case import Case, QuotaCase, a_manifest, a_quota
from e2e.apiserver.crd_cases.engine import ENGINE, GPU
from e2e.apiserver.crd_cases.identity import IDENTITY
from e2e.apiserver.crd_cases.model import MODEL
from e2e.apiserver.crd_cases.pod import POD
from e2e.apiserver.crd_cases.scaling import SCALING, SLO
from e2e.apiserver.crd_cases.schedule import SCHEDULES
from e2e.apiserver.crd_cases.tenant_quota import TENANT_QUOTAS

CASES = (*IDENTITY, *MODEL, *ENGINE, *GPU, *SLO, *SCALING, *SCHEDULES, *CAPACITY, *POD)

__all__ = ["CASES", "TENANT_QUOTAS", "Case", "QuotaCase", "a_manifest", "a_quota"]
