"""Where a pod's metrics are read: a URL with `{namespace}`, `{pod}`, `{ip}` and `{port}` in it.

A real engine answers on its own address; pods that have no network (KWOK's) are answered for by one server that tells
them apart by path. The template is checked once at start, so that a typing error is no fleet-wide loss of signals.
"""

import ipaddress
import string
from dataclasses import dataclass
from urllib.parse import urlsplit

DEFAULT = "http://{ip}:{port}/metrics"
FIELDS = frozenset({"namespace", "pod", "ip", "port"})


@dataclass(frozen=True, slots=True)
class ScrapeTarget:
    """One engine server to ask: rank 0 of a replica."""

    uid: str
    namespace: str
    pod: str
    ip: str
    port: int
    engine_version: str | None = None
    """vLLM's version as the pod's revision says; None reads by the newest names."""
    created_at: float = 0.0
    """Unix seconds. Older words under this name are another pod's."""


class UrlTemplate:
    """A checked template. Raises ValueError that says what is wrong with it and what would work."""

    def __init__(self, template: str = DEFAULT) -> None:
        self._template = template
        problem = _problem_of(template)
        if problem:
            raise ValueError(f'metrics URL "{template}" {problem}; the default is {DEFAULT}')

    def __str__(self) -> str:
        return self._template

    def url(self, target: ScrapeTarget) -> str:
        """Raises ValueError for a target whose address is none."""
        if not 0 < target.port < 65536:
            raise ValueError(f"{target.port} is no port")
        ip = ipaddress.ip_address(target.ip) if "{ip}" in self._template else None
        return self._template.format(
            namespace=target.namespace,
            pod=target.pod,
            ip=f"[{ip}]" if ip is not None and ip.version == 6 else ip,
            port=target.port,
        )


def _problem_of(template: str) -> str:
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        return f"cannot be read: {error}"
    fields = {field for _, field, _, _ in parts if field is not None}
    if unknown := sorted(fields - FIELDS):
        return f"has the unknown field {{{unknown[0]}}}; known are {', '.join(sorted(FIELDS))}"
    if any(specification or conversion for _, _, specification, conversion in parts):
        return "formats a field; write the bare name, as in {ip}"
    if "ip" not in fields and not {"namespace", "pod"} <= fields:
        return "is the same for different pods; use {ip}, or {namespace} and {pod}"
    try:
        url = urlsplit(template.format(namespace="n", pod="p", ip="192.0.2.1", port=8000))
        has_host = bool(url.hostname) and url.port != 0
    except ValueError as error:
        return f"is no URL: {error}"
    if url.scheme != "http":
        return "does not start with http://; engines serve metrics in the clear inside the cluster"
    if not has_host or any(character.isspace() for character in template):
        return "names no host"
    if url.username is not None or url.fragment:
        return "may hold neither a user nor a fragment"
    return ""
