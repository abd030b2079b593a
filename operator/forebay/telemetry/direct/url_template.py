"""UrlTemplate: the URL of a pod's metrics, with the fields `{namespace}`, `{pod}`, `{ip}` and `{port}`.

An engine serves its metrics on its own address. Pods without a network (those of KWOK) are served by one server that
tells them apart by path. The template is checked once at the start, so a typing error cannot cost the signals of the
whole fleet.
"""

import ipaddress
import string
from urllib.parse import urlsplit

from forebay.telemetry.signal_source import ScrapeTarget

DEFAULT = "http://{ip}:{port}/metrics"
FIELDS = frozenset({"namespace", "pod", "ip", "port"})


class UrlTemplate:
    """A checked template. Raises ValueError that says what is wrong with the template and what would work."""

    def __init__(self, template: str = DEFAULT) -> None:
        self._template = template
        problem = _problem_of(template)
        if problem:
            raise ValueError(f'metrics URL "{template}" {problem}; the default is {DEFAULT}')

    def __str__(self) -> str:
        return self._template

    def url(self, target: ScrapeTarget) -> str:
        """The URL of one pod. Raises ValueError when the pod's IP address or port is invalid."""
        if not 0 < target.port < 65536:
            raise ValueError(f"{target.port} is not a port")
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
        return f"cannot be parsed: {error}"
    fields = {field for _, field, _, _ in parts if field is not None}
    if unknown := sorted(fields - FIELDS):
        return f"has the unknown field {{{unknown[0]}}}; use {', '.join(sorted(FIELDS))}"
    if any(specification or conversion for _, _, specification, conversion in parts):
        return "formats a field; write only its name, as in {ip}"
    if "ip" not in fields and not {"namespace", "pod"} <= fields:
        return "is the same for different pods; use {ip}, or {namespace} and {pod}"
    try:
        url = urlsplit(template.format(namespace="n", pod="p", ip="192.0.2.1", port=8000))
        has_host = bool(url.hostname) and url.port != 0
    except ValueError as error:
        return f"is not a URL: {error}"
    if url.scheme != "http":
        return "does not start with http://; engines serve metrics over plain HTTP"
    if not has_host or any(character.isspace() for character in template):
        return "does not name a host"
    if url.username is not None or url.fragment:
        return "must not contain a user or a fragment"
    return ""
