"""Access: where the API server is and how to prove who we are.

The order is kubectl's, with one difference: inside a pod its service account wins over a `~/.kube/config` that happens
to lie in the image. What is named (`--kubeconfig`, `--context`, `KUBECONFIG`) always wins.
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
"""Of one client to the API server: the watches, and what `apply` does at once."""


class AccessError(Exception):
    """No way to reach a cluster; the message is for the person at the command line."""


@dataclass(frozen=True, slots=True)
class Access:
    """How a cluster was asked for, kept so that credentials can be read again when they have expired."""

    kubeconfig: str | None = None
    """Path, or several joined by `:`; None: `KUBECONFIG`, the service account, `~/.kube/config`."""
    context: str | None = None

    def source(self, environment: Mapping[str, str] = os.environ, service_account: Path = SERVICE_ACCOUNT) -> str:
        """Path of the kubeconfig that counts, or an empty string for the pod's service account."""
        if named := self.kubeconfig or environment.get("KUBECONFIG"):
            return named
        if self.context is None and "KUBERNETES_SERVICE_HOST" in environment and (service_account / "token").exists():
            return ""
        return str(DEFAULT_KUBECONFIG.expanduser())

    async def configuration(self) -> Configuration:
        """Read address and credentials afresh; exec and OIDC providers run. Raises AccessError."""
        configuration = Configuration()
        configuration.connection_pool_maxsize = CONNECTIONS
        source = self.source()
        try:
            if source:
                # persist_config would write a person's kubeconfig behind their back.
                await kubernetes_config.load_kube_config(
                    config_file=source, context=self.context, client_configuration=configuration, persist_config=False
                )
            else:
                kubernetes_config.load_incluster_config(client_configuration=configuration)
        except Exception as error:
            raise AccessError(_explain(source, error)) from error
        return configuration

    async def namespace(self, service_account: Path = SERVICE_ACCOUNT) -> str:
        """The namespace to use when none is named: of the context, of the pod, else `default`. Raises AccessError."""
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
        chosen = next((each for each in contexts if each["name"] == self.context), current if not self.context else {})
        inner: dict[str, Any] = chosen.get("context") or {}
        return str(inner.get("namespace") or "default")


def _explain(source: str, error: Exception) -> str:
    if not source:
        return f"The pod's service account gives no access to the API server: {error}"
    missing = [path for path in source.split(os.pathsep) if path and not Path(path).expanduser().exists()]
    if missing and len(missing) == len([path for path in source.split(os.pathsep) if path]):
        return (
            f"There is no kubeconfig at {source}, and this is not a pod with a service account; "
            "name one with --kubeconfig or KUBECONFIG."
        )
    return f"The kubeconfig {source} cannot be used: {error}"
