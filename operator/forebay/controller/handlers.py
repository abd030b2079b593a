"""kopf handlers: authentication, and a watch on our own kind that wakes the loop. Nothing is written through kopf.

Only the handlers that leave no mark on the resource are used: `on.create`, `on.update`, timers and daemons would add
finalizers and annotations, which block deletions and show as drift. `on.startup` sets kopf up, it does not start the
loop: kopf's operator ends for good on errors that the loop outlives (a 5xx on its LIST, an ERROR in its stream), so it
runs on a thread of its own and is started again there (`service_watch`).
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import kopf
from kubernetes.aio.client import Configuration

from forebay.api.schema.model import GROUP, VERSION
from forebay.cluster.client.access import Access
from forebay.cluster.client.kube_api import INFERENCE_SERVICES

log = logging.getLogger(__name__)

Fingerprint = tuple[Any, ...]

_DELETED = "DELETED"


class Sightings:
    """What was last seen of each service, so that a status write, which changes no intent, wakes nobody."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], Fingerprint] = {}

    def changed(self, event: str | None, metadata: Mapping[str, Any]) -> bool:
        """Whether this event tells of a new intent: a generation, a deletion, an annotation of ours, or an end."""
        key = (str(metadata.get("namespace", "")), str(metadata["name"]))
        if event == _DELETED:
            self._seen.pop(key, None)
            return True
        fingerprint = _fingerprint(metadata)
        known = self._seen.get(key)
        self._seen[key] = fingerprint
        return fingerprint != known


def _fingerprint(metadata: Mapping[str, Any]) -> Fingerprint:
    annotations = metadata.get("annotations") or {}
    ours = tuple(sorted((name, value) for name, value in annotations.items() if name.startswith(f"{GROUP}/")))
    return metadata.get("uid"), metadata.get("generation"), metadata.get("deletionTimestamp"), ours


def configure(settings: kopf.OperatorSettings) -> None:
    """kopf as a watcher only: no peers, no Events, no cluster scan, no request that can hang for minutes."""
    settings.peering.standalone = True  # a foreign ClusterKopfPeering named `default` would pause us
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 310
    settings.watching.connect_timeout = 30
    settings.networking.request_timeout = 30
    settings.networking.enforce_retry_after = True
    settings.process.ultimate_exiting_timeout = None  # it would SIGKILL the process; the process ends itself


async def connection_info(configuration: Configuration) -> kopf.ConnectionInfo:
    """What the Kubernetes client would send, in kopf's words."""
    header = await configuration.get_api_key_with_prefix("BearerToken")
    scheme, _, token = (header or "").rpartition(" ")
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        username=configuration.username or None,
        password=configuration.password or None,
        scheme=scheme or None,
        token=token or None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
        proxy_url=configuration.proxy,
    )


def build_registry(access: Access, wake: Callable[[str], None]) -> kopf.OperatorRegistry:
    """All of our handlers; `wake` may be called from kopf's thread."""
    registry = kopf.OperatorRegistry()
    sightings = Sightings()

    @kopf.on.startup(registry=registry, id="configure")
    async def startup(settings: kopf.OperatorSettings, **_: Any) -> None:
        configure(settings)

    @kopf.on.login(registry=registry, id="login")
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return await connection_info(await access.configuration())

    @kopf.on.event(GROUP, VERSION, INFERENCE_SERVICES.plural, registry=registry, id="wake")
    async def service_changed(event: Mapping[str, Any], **_: Any) -> None:
        if sightings.changed(event["type"], event["object"]["metadata"]):
            wake("service")

    @kopf.on.cleanup(registry=registry, id="say-so")
    async def cleanup(**_: Any) -> None:
        log.debug("the watch on %s ended", INFERENCE_SERVICES.plural)

    return registry
