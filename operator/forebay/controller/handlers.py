"""kopf handlers: the login, and a watch on InferenceServices that wakes the loop. kopf writes nothing.

Only handlers that leave no mark on the resource are used: `on.create`, `on.update`, timers and daemons add finalizers
and annotations, which block deletions and show up as drift in GitOps. `on.startup` only configures kopf; it does not
start the loop. kopf's operator ends for good on errors that the loop survives (a 5xx on its LIST, an ERROR in its
stream), so it runs on its own thread, where `service_watch` restarts it.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import kopf
from kubernetes.aio.client import Configuration

from forebay.api.schema.base_model import GROUP, VERSION
from forebay.cluster.client.access import Access
from forebay.cluster.client.kube_api import INFERENCE_SERVICES

log = logging.getLogger(__name__)

Intent = tuple[Any, ...]
"""What a user can ask for through the metadata: uid, generation, deletion time stamp and annotations of ours."""

KOPF_LOG_LEVELS: Mapping[str, int] = {
    "kopf": logging.WARNING,
    "kopf.objects": logging.WARNING,
    "kopf._core.reactor.running": logging.ERROR,
    "kopf._cogs.clients": logging.CRITICAL,
}
"""kopf logs every handler of every event at INFO, which would bury the decisions. It warns that it receives no signals,
because this process handles them. It logs every failed attempt during an outage as an ERROR; the loop logs it once."""

_DELETED = "DELETED"


class IntentTracker:
    """Remembers the intent of each service, so that a status write, which changes no intent, does not wake the loop."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], Intent] = {}

    def changed(self, event: str | None, metadata: Mapping[str, Any]) -> bool:
        """Whether the event has a new generation, a deletion, or a changed annotation of ours."""
        key = (str(metadata.get("namespace", "")), str(metadata["name"]))
        if event == _DELETED:
            self._last.pop(key, None)
            return True
        intent = _intent(metadata)
        last = self._last.get(key)
        self._last[key] = intent
        return intent != last


def _intent(metadata: Mapping[str, Any]) -> Intent:
    annotations = metadata.get("annotations") or {}
    ours = tuple(sorted((name, value) for name, value in annotations.items() if name.startswith(f"{GROUP}/")))
    return metadata.get("uid"), metadata.get("generation"), metadata.get("deletionTimestamp"), ours


def configure(settings: kopf.OperatorSettings) -> None:
    """Make kopf only watch: no peering, no Events, no cluster scan, and no request that can hang for minutes."""
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
    """The address and credentials of the Kubernetes client, as kopf expects them."""
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
    """All handlers; `wake` is called on kopf's thread."""
    registry = kopf.OperatorRegistry()
    intents = IntentTracker()

    @kopf.on.startup(registry=registry, id="configure")
    async def startup(settings: kopf.OperatorSettings, **_: Any) -> None:
        configure(settings)

    @kopf.on.login(registry=registry, id="login")
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return await connection_info(await access.configuration())

    @kopf.on.event(GROUP, VERSION, INFERENCE_SERVICES.plural, registry=registry, id="wake")
    async def service_changed(event: Mapping[str, Any], **_: Any) -> None:
        if intents.changed(event["type"], event["object"]["metadata"]):
            wake("service")

    @kopf.on.cleanup(registry=registry, id="say-so")
    async def cleanup(**_: Any) -> None:
        log.debug("the watch on %s ended", INFERENCE_SERVICES.plural)

    return registry
