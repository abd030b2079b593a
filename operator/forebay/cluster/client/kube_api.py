"""KubeApi: the few calls Forebay makes to an API server, as bytes, so that readers can project straight from JSON.

The protocol is what the rest of the code and the fakes of the tests agree on; `kubernetes_api` implements it.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Resource:
    """A REST resource: `path` is `api/v1` or `apis/<group>/<version>`, `plural` as in URLs."""

    path: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As objects carry it: `v1`, `apps/v1`."""
        return self.path.split("/", 1)[1]


INFERENCE_SERVICES = Resource("apis/forebay.dev/v1alpha1", "inferenceservices", "InferenceService")
PODS = Resource("api/v1", "pods", "Pod")
NODES = Resource("api/v1", "nodes", "Node", namespaced=False)
SERVICES = Resource("api/v1", "services", "Service")
EVENTS = Resource("apis/events.k8s.io/v1", "events", "Event")
DISRUPTION_BUDGETS = Resource("apis/policy/v1", "poddisruptionbudgets", "PodDisruptionBudget")
CONTROLLER_REVISIONS = Resource("apis/apps/v1", "controllerrevisions", "ControllerRevision")
LEASES = Resource("apis/coordination.k8s.io/v1", "leases", "Lease")
POD_TEMPLATES = Resource("api/v1", "podtemplates", "PodTemplate")

NO_ANSWER = 0
"""`ApiError.status` when the server gave no answer: nobody knows whether a write was carried out."""
CONFLICT = 409
GONE = 410
NOT_FOUND = 404
FORBIDDEN = 403


class ApiError(Exception):
    """The API server refused or did not answer. `status` is the HTTP code, 0 when there was no answer.

    `reason` and `message` are those of the Status object in the answer: `AlreadyExists`, `pods "a" already exists`.
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
        """The whole list in pages, each a JSON list document; all pages show one state, at least as new as the call."""
        ...

    def watch(
        self, resource: Resource, *, resource_version: str, namespace: str | None = None, label_selector: str = ""
    ) -> AsyncGenerator[bytes, None]:
        """Watch events, one JSON document each, bookmarks included; ends when the server ends it, or when closed."""
        ...

    async def get(self, resource: Resource, namespace: str | None, name: str) -> bytes: ...

    async def create(self, resource: Resource, namespace: str | None, body: Mapping[str, Any]) -> bytes: ...

    async def apply(self, resource: Resource, namespace: str | None, name: str, body: Mapping[str, Any]) -> bytes:
        """Server-side apply as field manager `forebay`, forced."""
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
        """JSON merge patch; `metadata.resourceVersion` in the body makes it conditional."""
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
        """Delete only if uid (and resourceVersion, when given) still match; 409 otherwise.

        `grace_seconds` takes the place of the object's own grace period.
        """
        ...
