"""KubeApi: the calls that Forebay makes to an API server.

They return bytes, so that readers can parse only the fields they need. `kubernetes_client` implements the protocol for
real API servers; tests implement it in memory.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Resource:
    """A REST resource. `path` is `api/v1` or `apis/<group>/<version>`; `plural` is the name in URLs."""

    path: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects: `v1`, `apps/v1`."""
        return self.path.split("/", 1)[1]


INFERENCE_SERVICES = Resource("apis/forebay.dev/v1alpha1", "inferenceservices", "InferenceService")
PODS = Resource("api/v1", "pods", "Pod")
NODES = Resource("api/v1", "nodes", "Node", namespaced=False)
SERVICES = Resource("api/v1", "services", "Service")
EVENTS = Resource("apis/events.k8s.io/v1", "events", "Event")
DISRUPTION_BUDGETS = Resource("apis/policy/v1", "poddisruptionbudgets", "PodDisruptionBudget")
CONTROLLER_REVISIONS = Resource("apis/apps/v1", "controllerrevisions", "ControllerRevision")
LEASES = Resource("apis/coordination.k8s.io/v1", "leases", "Lease")
RESOURCE_QUOTAS = Resource("api/v1", "resourcequotas", "ResourceQuota")
CONFIG_MAPS = Resource("api/v1", "configmaps", "ConfigMap")
POD_TEMPLATES = Resource("api/v1", "podtemplates", "PodTemplate")

NO_ANSWER = 0
"""`ApiError.status` when the server did not answer, so it is unknown whether a write was carried out."""
CONFLICT = 409
GONE = 410
NOT_FOUND = 404
FORBIDDEN = 403


class ApiError(Exception):
    """The API server refused a request or did not answer it. `status` is the HTTP code, or 0 without an answer.

    `reason` and `message` come from the Status object in the answer: `AlreadyExists`, `pods "a" already exists`.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class KubeApi(Protocol):
    """All methods raise ApiError."""

    async def list(
        self, resource: Resource, *, namespace: str | None = None, label_selector: str = ""
    ) -> tuple[bytes, ...]:
        """The complete list in pages, each a JSON list. All pages show one state, which is not older than the call."""
        ...

    async def probe(self, resource: Resource, *, namespace: str | None = None) -> None:
        """A LIST of one object, to learn whether the API server answers and still lets us read the resource."""
        ...

    def watch(
        self, resource: Resource, *, resource_version: str, namespace: str | None = None, label_selector: str = ""
    ) -> AsyncGenerator[bytes, None]:
        """Watch events, including bookmarks, each as JSON, until the API server or the reader ends the watch."""
        ...

    async def get(self, resource: Resource, namespace: str | None, name: str) -> bytes: ...

    async def create(self, resource: Resource, namespace: str | None, body: Mapping[str, Any]) -> bytes: ...

    async def apply(self, resource: Resource, namespace: str | None, name: str, body: Mapping[str, Any]) -> bytes:
        """Forced server-side apply with the field manager `forebay`."""
        ...

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str = "",
    ) -> bytes:
        """JSON merge patch; with `metadata.resourceVersion` in the body, a stale version answers 409."""
        ...

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
    ) -> bytes:
        """Delete the object only if its uid (and its resourceVersion, if given) still match; otherwise it answers 409.

        `grace_seconds` replaces the object's own grace period.
        """
        ...
