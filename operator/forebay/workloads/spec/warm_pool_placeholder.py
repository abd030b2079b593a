"""WarmPool placeholder: the resources that a WarmPool reserves, the same as a pod of a service of its shape needs."""

from forebay.api.warm_pool import PoolSpec
from forebay.workloads.canonical_json import present
from forebay.workloads.objects.placeholder import place_of
from forebay.workloads.objects.pod_template import (
    CONTAINER,
    CONTAINER_SECURITY,
    POD_SECURITY,
    PRODUCT_LABEL,
    resources_of,
    tolerations_of,
)
from forebay.workloads.spec.engine_versions import Defaults
from forebay.world.world import Place, ReplicaShape


def warm_pool_place(spec: PoolSpec, defaults: Defaults) -> Place:
    image = spec.engine.image or defaults.image.replace("{version}", spec.engine.version or defaults.engine_version)
    pod = present(
        {
            "imagePullSecrets": [{"name": name} for name in spec.image_pull_secrets],
            "runtimeClassName": spec.runtime_class_name,
            "nodeSelector": _selector(spec),
            "tolerations": tolerations_of(spec.tolerations, spec.gpu),
            "securityContext": dict(POD_SECURITY),
            "containers": [
                {
                    "name": CONTAINER,
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "resources": resources_of(spec.resources, spec.gpu, spec.gpus_per_pod),
                    "securityContext": dict(CONTAINER_SECURITY),
                }
            ],
        }
    )
    return place_of({"spec": pod}, spec.gpus_per_pod)


def warm_pool_shape(spec: PoolSpec) -> ReplicaShape:
    """Shape by which free GPUs are counted: a replica of one pod of this size."""
    return ReplicaShape(1, spec.gpus_per_pod, spec.gpu.resource_name, tuple(sorted(_selector(spec).items())))


def _selector(spec: PoolSpec) -> dict[str, str]:
    selector = dict(spec.gpu.node_selector or {})
    if spec.gpu.product is not None:
        selector[PRODUCT_LABEL] = spec.gpu.product
    return selector
