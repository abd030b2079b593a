"""A service as the API server has it, read for a command.

`explain`, `top`, `wake` and `plan --against LIVE` know a service from its object alone: they reach no pod, no engine
and no operator.
"""

from dataclasses import dataclass

from pydantic import ValidationError

from forebay.api.inference_service import InferenceServiceSpec, InferenceServiceStatus
from forebay.cluster.client.kube_api import INFERENCE_SERVICES, KubeApi
from forebay.cluster.read.projections import InferenceServiceObject, Reader

_READER = Reader(InferenceServiceObject)


@dataclass(frozen=True, slots=True)
class ServiceReading:
    """One InferenceService, parsed as far as it can be."""

    namespace: str
    name: str
    generation: int
    spec: InferenceServiceSpec | None
    """None when the spec does not parse; the conditions say why."""
    status: InferenceServiceStatus | None
    """None when no operator has written a status yet."""


async def read_service(api: KubeApi, namespace: str, name: str) -> ServiceReading:
    """One service by name. Raises ApiError."""
    return _reading(_READER.one(await api.get(INFERENCE_SERVICES, namespace, name)))


async def read_services(api: KubeApi, namespace: str | None) -> tuple[ServiceReading, ...]:
    """All services of a namespace, or of all namespaces for None, by namespace and name. Raises ApiError."""
    listed = _READER.listed(await api.list(INFERENCE_SERVICES, namespace=namespace))
    return tuple(
        sorted((_reading(item) for item in listed.items), key=lambda reading: (reading.namespace, reading.name))
    )


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
