"""WarmPoolViews: the WarmPools for the planner, listed at each tick, since they are few.

They never stop a tick. Without the CRD (an older installation) there are no WarmPools, and while the list fails, the
pools that were read last are used. A deleted pool needs no plan, since garbage collection removes its pods.
"""

import logging
import time
from collections.abc import Callable
from typing import Any, Final

from pydantic import ValidationError

from forebay.api.schema.validation_errors import validation_messages
from forebay.api.warm_pool import WARM_POOL_KIND, PoolSpec, PoolStatus
from forebay.cluster.client.kube_api import INFERENCE_SERVICES, NOT_FOUND, ApiError, KubeApi, Resource
from forebay.cluster.read.projections import KubernetesObject, Reader
from forebay.workloads.spec.engine_versions import Defaults
from forebay.workloads.spec.warm_pool_placeholder import warm_pool_place, warm_pool_shape
from forebay.world.world import ServiceKey, WarmPoolView

WARM_POOLS: Final = Resource(INFERENCE_SERVICES.path, "warmpools", WARM_POOL_KIND, namespaced=False)
NOT_INSTALLED_SECONDS: Final = 60.0
"""How long after a 404 the list is not tried again."""

log = logging.getLogger(__name__)


class WarmPoolObject(KubernetesObject):
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None


class WarmPools:
    def __init__(
        self,
        api: KubeApi,
        namespace: str,
        defaults: Defaults | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`namespace` is the operator's own namespace, which contains the pods of the pools."""
        self.namespace = namespace
        self._api = api
        self._defaults = defaults or Defaults()
        self._monotonic = monotonic
        self._reader = Reader(WarmPoolObject)
        self._known: tuple[WarmPoolView, ...] = ()
        self._missing_since: float | None = None

    async def read(self) -> tuple[WarmPoolView, ...]:
        """All WarmPools, ordered by name; never raises."""
        now = self._monotonic()
        if self._missing_since is not None and now - self._missing_since < NOT_INSTALLED_SECONDS:
            return ()
        try:
            listed = self._reader.listed(await self._api.list(WARM_POOLS))
        except ApiError as error:
            log.debug("no WarmPools: %s", error)
            if error.status == NOT_FOUND:
                self._missing_since, self._known = now, ()
            return self._known
        except ValueError as error:
            log.warning("the list of WarmPools: %s", error)
            return self._known
        self._missing_since = None
        self._known = tuple(
            sorted(
                (pool_view(stored, self.namespace, self._defaults) for stored in listed.items),
                key=lambda pool: pool.key,
            )
        )
        return self._known


def pool_view(stored: WarmPoolObject, namespace: str, defaults: Defaults) -> WarmPoolView:
    """The WarmPool for the planner. `namespace` is the operator's own."""
    metadata = stored.metadata
    spec, problem = _spec(stored)
    return WarmPoolView(
        key=ServiceKey(namespace, metadata.name),
        uid=metadata.uid,
        generation=metadata.generation,
        resource_version=metadata.resource_version,
        deleting=metadata.deletion_timestamp is not None,
        placeholders=0 if spec is None else spec.placeholders,
        place=None if spec is None else warm_pool_place(spec, defaults),
        status=_status(stored),
        problem=problem,
        shape=None if spec is None else warm_pool_shape(spec),
        schedules=() if spec is None else spec.schedules,
    )


def _spec(stored: WarmPoolObject) -> tuple[PoolSpec | None, str]:
    """The spec, or why it cannot be read.

    The API server accepted the spec, so an unreadable one was written for another version of the API.
    """
    try:
        return PoolSpec.model_validate(stored.spec or {}), ""
    except ValidationError as error:
        return None, " ".join(validation_messages(error, "spec"))


def _status(stored: WarmPoolObject) -> PoolStatus:
    try:
        return PoolStatus.model_validate(stored.status or {})
    except ValidationError:
        return PoolStatus()
