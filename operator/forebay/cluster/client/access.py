"""Access: finds the address of the API server and the credentials.

The order is that of kubectl, with one difference: inside a pod, the service account wins over a `~/.kube/config` that
happens to be in the image. An explicit choice (`--kubeconfig`, `--context`, `KUBECONFIG`) always wins.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes.aio import config as kubernetes_config
from kubernetes.aio.client import Configuration

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFAULT_KUBECONFIG = Path("~/.kube/config")
CONNECTIONS = 64
"""Connections of one client to the API server: for the watches and for the concurrent writes."""


class AccessError(Exception):
    """No cluster can be reached; the message is shown on the command line."""


@dataclass(frozen=True, slots=True)
class Access:
    """The cluster that the user chose. It is kept, so that expired credentials can be read again."""

    kubeconfig: str | None = None
    """One path, or several joined by `:`. None means `KUBECONFIG`, the service account or `~/.kube/config`."""
    context: str | None = None

    def source(self, environment: Mapping[str, str] = os.environ, service_account: Path = SERVICE_ACCOUNT) -> str:
        """The path of the kubeconfig to use, or an empty string for the pod's service account."""
        if explicit := self.kubeconfig or environment.get("KUBECONFIG"):
            return explicit
        if self.context is None and "KUBERNETES_SERVICE_HOST" in environment and (service_account / "token").exists():
            return ""
        return str(DEFAULT_KUBECONFIG.expanduser())

    async def configuration(self) -> Configuration:
        """Read the address and the credentials, running exec and OIDC providers. Raises AccessError."""
        configuration = Configuration()
        configuration.connection_pool_maxsize = CONNECTIONS
        source = self.source()
        try:
            if source:
                # persist_config would change the user's kubeconfig without asking.
                await kubernetes_config.load_kube_config(
                    config_file=source, context=self.context, client_configuration=configuration, persist_config=False
                )
            else:
                kubernetes_config.load_incluster_config(client_configuration=configuration)
        except Exception as error:
            raise AccessError(_explain(source, error)) from error
        return configuration

    async def namespace(self, service_account: Path = SERVICE_ACCOUNT) -> str:
        """The default namespace: that of the context or of the pod, else `default`. Raises AccessError."""
        source = self.source()
        if not source:
            try:
                return (service_account / "namespace").read_text().strip() or "default"
            except OSError as error:
                raise AccessError(_explain(source, error)) from error
        try:
            contexts, current = kubernetes_config.list_kube_config_contexts(source)
        except Exception as error:
            raise AccessError(_explain(source, error)) from error
        chosen = next(
            (known for known in contexts if known["name"] == self.context), current if not self.context else {}
        )
        settings: dict[str, Any] = chosen.get("context") or {}
        return str(settings.get("namespace") or "default")


def _explain(source: str, error: Exception) -> str:
    if not source:
        return f"The pod's service account gives no access to the API server: {error}"
    missing = [path for path in source.split(os.pathsep) if path and not Path(path).expanduser().exists()]
    if missing and len(missing) == len([path for path in source.split(os.pathsep) if path]):
        return (
            f"There is no kubeconfig at {source}, and this is not a pod with a service account; "
            "set --kubeconfig or KUBECONFIG."
        )
    return f"The kubeconfig {source} cannot be used: {error}"
