"""Labels and annotations that Forebay puts on its children, and the few it reads from a service.

Children get exactly these labels, never a copy of the parent's: a copied `app.kubernetes.io/instance` makes Argo CD
own and prune the child.
"""

from forebay.api.schema.base_model import GROUP

SERVICE = f"{GROUP}/service"
"""Name of the InferenceService a child belongs to."""
SERVICE_UID = f"{GROUP}/service-uid"
REVISION = f"{GROUP}/revision"
ORDINAL = f"{GROUP}/ordinal"
VARIANT = f"{GROUP}/variant"
"""Name of the variant that a pod is of; absent on those of the service's own shape."""
RANK = f"{GROUP}/rank"
SERVING = f"{GROUP}/serving"
"""`"true"` while the pod may get requests; dropped when its drain starts, which takes it out of every endpoint list."""
ROLE = f"{GROUP}/role"
"""What a pod is for, where it serves nobody: `placeholder`."""
PLACEHOLDER = "placeholder"
PLACE = f"{GROUP}/place"
"""On a placeholder: hash of the place it holds, so that one of another shape is told apart."""
WARM_POOL = f"{GROUP}/warm-pool"
"""Name of the WarmPool that a placeholder belongs to."""
GROUP_GATE = f"{GROUP}/group"
"""A scheduling gate: on a pod of a replica of several until all of them exist."""
MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "forebay"

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
POD_ANNOTATIONS = (DEFAULT_CONTAINER, DO_NOT_DISRUPT, SAFE_TO_EVICT)
"""What Forebay sets on pods in other people's domains, and a user's own annotations may not."""

DRAIN_STARTED = f"{GROUP}/drain-started"
"""RFC 3339 time; on the pod, so that a drain survives a restart of the operator."""
DRAIN_REASON = f"{GROUP}/drain-reason"
SPEC_HASH = f"{GROUP}/spec-hash"
"""On a ControllerRevision: hash of the pod-affecting fields as the user wrote them."""
RESTARTED_AT = f"{GROUP}/restarted-at"
"""On an InferenceService: any new value asks for a rollout of what the operator would build today."""
WAKE_REQUESTED_AT = f"{GROUP}/wake-requested-at"
"""On an InferenceService: RFC 3339 time at which somebody asked for a replica of a service that is at zero."""
