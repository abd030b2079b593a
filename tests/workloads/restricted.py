"""The `restricted` Pod Security Standard, for the fields that our pods can have."""

from collections.abc import Mapping
from typing import Any

VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
}


def violations(pod: Mapping[str, Any]) -> list[str]:
    """What the admission controller would refuse in a namespace that enforces `restricted`."""
    spec = pod["spec"]
    faults = [field for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    faults += [
        f"volume {volume['name']} is a {kind}"
        for volume in spec.get("volumes", [])
        for kind in volume
        if kind != "name" and kind not in VOLUMES
    ]
    for container in [*spec["containers"], *spec.get("initContainers", [])]:
        faults += [f"{container['name']}: {fault}" for fault in _container_faults(container, spec)]
    return faults


def _container_faults(container: Mapping[str, Any], spec: Mapping[str, Any]) -> list[str]:
    own = container.get("securityContext", {})
    context = {**spec.get("securityContext", {}), **own}
    capabilities = own.get("capabilities", {})
    tests = {
        "privileged": not own.get("privileged"),
        "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is False,
        "capabilities.drop": "ALL" in capabilities.get("drop", []),
        "capabilities.add": set(capabilities.get("add", [])) <= {"NET_BIND_SERVICE"},
        "runAsNonRoot": context.get("runAsNonRoot") is True,
        "runAsUser": context.get("runAsUser") != 0,
        "seccompProfile": context.get("seccompProfile", {}).get("type") in ("RuntimeDefault", "Localhost"),
        "procMount": own.get("procMount", "Default") == "Default",
        "hostPort": not any(port.get("hostPort") for port in container.get("ports", [])),
    }
    return [name for name, passed in tests.items() if not passed]
