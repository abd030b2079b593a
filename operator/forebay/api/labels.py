"""Labels and annotations that Forebay sets on its child objects, and the few that it reads from a service.

Children get exactly these labels and no copy of the parent's: with a copied `app.kubernetes.io/instance`, Argo CD would
own the child and prune it.
"""

from forebay.api.schema.base_model import GROUP

SERVICE = f"{GROUP}/service"
"""Name of the InferenceService that a child belongs to."""
SERVICE_UID = f"{GROUP}/service-uid"
REVISION = f"{GROUP}/revision"
ORDINAL = f"{GROUP}/ordinal"
VARIANT = f"{GROUP}/variant"
"""Name of a pod's variant; absent on pods of the service's own shape."""
RANK = f"{GROUP}/rank"
SERVING = f"{GROUP}/serving"
"""`"true"` while the pod may get requests. Removing it when the drain starts takes the pod out of every endpoint
list."""
ROLE = f"{GROUP}/role"
"""The role of a pod that serves no requests: `placeholder`."""
PLACEHOLDER = "placeholder"
PLACEHOLDER_SHAPE = f"{GROUP}/place"
"""On a placeholder: hash of the GPUs and nodes that it holds, so that a placeholder of another shape is recognised."""
WARM_POOL = f"{GROUP}/warm-pool"
"""Name of the WarmPool that a placeholder belongs to."""
SHARE_PLAN = f"{GROUP}/share-plan"
"""On a ConfigMap in the operator's namespace: it holds the shares of one model for admission."""
GROUP_GATE = f"{GROUP}/group"
"""Scheduling gate on each pod of a multi-pod replica, until all of its pods exist."""
MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "forebay"

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
POD_ANNOTATIONS = (DEFAULT_CONTAINER, DO_NOT_DISRUPT, SAFE_TO_EVICT)
"""Annotations of other projects that Forebay sets on pods; users may not set them."""

DRAIN_STARTED = f"{GROUP}/drain-started"
"""On a pod: RFC 3339 time at which its drain started, so that the drain survives a restart of the operator."""
DRAIN_REASON = f"{GROUP}/drain-reason"
SPEC_HASH = f"{GROUP}/spec-hash"
"""On a ControllerRevision: hash of the pod-affecting fields as the user wrote them."""
RESTARTED_AT = f"{GROUP}/restarted-at"
"""On an InferenceService: a new value starts a rollout to the pods that this operator would build now."""
WAKE_REQUESTED_AT = f"{GROUP}/wake-requested-at"
"""On an InferenceService: RFC 3339 time at which somebody asked for a replica of a service that is at zero."""
