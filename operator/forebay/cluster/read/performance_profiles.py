"""PerformanceProfiles: read once a minute, since they affect plans but no running pod.

They are not watched, and they never stop a tick: when the CRD is not installed, or the list is forbidden or fails,
plans use the built-in table and the profiles that were read last.
"""

import logging
import time
from collections.abc import Callable
from typing import Any, Final

from pydantic import ValidationError

from forebay.api.performance_profile import PROFILE_KIND, PerformanceProfileSpec
from forebay.capacity.model.profile_choice import GivenProfile, given_profile
from forebay.cluster.client.kube_api import INFERENCE_SERVICES, ApiError, KubeApi, Resource
from forebay.cluster.read.projections import KubernetesObject, Reader

PERFORMANCE_PROFILES: Final = Resource(INFERENCE_SERVICES.path, "performanceprofiles", PROFILE_KIND, namespaced=False)
REFRESH_SECONDS: Final = 60.0

log = logging.getLogger(__name__)


class PerformanceProfileObject(KubernetesObject):
    spec: dict[str, Any] | None = None


class PerformanceProfiles:
    def __init__(self, api: KubeApi, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._monotonic = monotonic
        self._reader = Reader(PerformanceProfileObject)
        self._known: tuple[GivenProfile, ...] = ()
        self._read_at: float | None = None

    async def read(self) -> tuple[GivenProfile, ...]:
        """All usable profiles, ordered by name; never raises."""
        now = self._monotonic()
        if self._read_at is None or now - self._read_at >= REFRESH_SECONDS:
            self._read_at = now
            try:
                listed = self._reader.listed(await self._api.list(PERFORMANCE_PROFILES))
            except (ApiError, ValueError) as error:
                log.debug("no PerformanceProfiles: %s", error)
            else:
                profiles = (_given(stored) for stored in listed.items)
                self._known = tuple(
                    sorted((profile for profile in profiles if profile), key=lambda profile: profile.name)
                )
        return self._known


def _given(stored: PerformanceProfileObject) -> GivenProfile | None:
    """None for a profile that this version cannot read; it was written for another version of the API."""
    try:
        return given_profile(stored.metadata.name, PerformanceProfileSpec.model_validate(stored.spec or {}))
    except ValidationError as error:
        log.warning("PerformanceProfile %s is ignored: %s", stored.metadata.name, error)
        return None
