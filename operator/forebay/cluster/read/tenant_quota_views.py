"""TenantQuota views: convert a TenantQuota into what the planner reads, and say which changes matter. Pure."""

from typing import Any, Final

from pydantic import ValidationError

from forebay.api.schema.validation_errors import validation_messages
from forebay.api.tenant_quota import TENANT_QUOTA_KIND, QuotaSpec, QuotaStatus
from forebay.cluster.client.kube_api import INFERENCE_SERVICES, Resource
from forebay.cluster.read.projections import KubernetesObject, unix_seconds
from forebay.world.tenants import TenantQuotaView

TENANT_QUOTAS: Final = Resource(INFERENCE_SERVICES.path, "tenantquotas", TENANT_QUOTA_KIND, namespaced=False)
WITHOUT_TENANT_QUOTAS: Final = "without them, every namespace belongs to the default tenant"


class TenantQuotaObject(KubernetesObject):
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None


def tenant_quota_view(stored: TenantQuotaObject) -> TenantQuotaView:
    metadata = stored.metadata
    spec, problem = _spec(stored)
    return TenantQuotaView(
        name=metadata.name,
        uid=metadata.uid,
        generation=metadata.generation,
        resource_version=metadata.resource_version,
        created_at=unix_seconds(metadata.creation_timestamp) or 0.0,
        deleting=metadata.deletion_timestamp is not None,
        spec=spec,
        status=_status(stored),
        problem=problem,
    )


def same_claims(old: TenantQuotaView, new: TenantQuotaView) -> bool:
    """Whether a change leaves what the quota asks for, so that a status write does not wake the loop."""
    return (old.uid, old.generation, old.deleting) == (new.uid, new.generation, new.deleting)


def _spec(stored: TenantQuotaObject) -> tuple[QuotaSpec | None, str]:
    """The spec, or why it cannot be read.

    The API server accepted the spec, so an unreadable one was written for another version of the API.
    """
    try:
        return QuotaSpec.model_validate(stored.spec or {}), ""
    except ValidationError as error:
        return None, " ".join(validation_messages(error, "spec"))


def _status(stored: TenantQuotaObject) -> QuotaStatus:
    try:
        return QuotaStatus.model_validate(stored.status or {})
    except ValidationError:
        return QuotaStatus()
