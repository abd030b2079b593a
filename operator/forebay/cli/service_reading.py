"""What `explain` and `top` know of a service: its object as the API server has it, and nothing else."""

from dataclasses import dataclass

from pydantic import ValidationError

from forebay.api.inference_service import InferenceServiceSpec, InferenceServiceStatus
from forebay.cluster.client.kube_api import INFERENCE_SERVICES, KubeApi
from forebay.cluster.read.projections import InferenceServiceObject, Reader

_READER = Reader(InferenceServiceObject)


@dataclass(frozen=True, slots=True)
class ServiceReading:
    namespace: str
    name: str
    generation: int
    spec: InferenceServiceSpec | None
    """None when it does not parse; the conditions say why."""
    status: InferenceServiceStatus | None
    """None when no operator has written one."""


async def read_service(api: KubeApi, namespace: str, name: str) -> ServiceReading:
    """Raises ApiError."""
    return _reading(_READER.one(await api.get(INFERENCE_SERVICES, namespace, name)))


async def read_services(api: KubeApi, namespace: str | None) -> tuple[ServiceReading, ...]:
    """In order of namespace and name; None for all namespaces. Raises ApiError."""
    listed = _READER.listed(await api.list(INFERENCE_SERVICES, namespace=namespace))
    return tuple(sorted((_reading(item) for item in listed.items), key=lambda each: (each.namespace, each.name)))


def _reading(item: InferenceServiceObject) -> ServiceReading:
    try:
        spec = InferenceServiceSpec.model_validate(item.spec)
    except ValidationError:
        spec = None
    try:
        status = InferenceServiceStatus.model_validate(item.status) if item.status else None
    except ValidationError:
        status = None
    return ServiceReading(item.metadata.namespace, item.metadata.name, item.metadata.generation, spec, status)
