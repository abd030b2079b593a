"""What the operator suites on KWOK share: its rights from the chart, and what a service owns and says."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from e2e.harness import ControlPlane, eventually
from e2e.harness.binaries import binary
from e2e.harness.kubectl import Object
from e2e.harness.recipes import HELM
from e2e.manifests import ServiceManifest
from e2e.operator_process import OperatorProcess

ROOT = Path(__file__).parents[1]
CHART = ROOT / "charts" / "forebay"
CRDS = ROOT / "crds"
RELEASE = "forebay"
OPERATOR_NAMESPACE = "operator-suite"
USER = f"system:serviceaccount:{OPERATOR_NAMESPACE}:{RELEASE}"
LEADS_WITHIN_SECONDS = 20.0
"""From the death of a leader: a term of 15 s, and the start of a process on a busy machine."""
WRITES = {"create", "update", "patch", "delete"}
KINDS = ("pods", "services", "poddisruptionbudgets", "controllerrevisions")
"""What a service owns."""
NOBODY = "http://127.0.0.1:9/{namespace}/{pod}/metrics"
"""KWOK's pods have addresses of nobody's; asking them would be traffic to a foreign network."""
QUICK: dict[str, str | float | bool] = {"tick-seconds": 0.5, "debounce-seconds": 0.1}
"""A tick is a tick; shortened, more of them fit into a test."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A control plane with our CRDs and GPU nodes, and an account that may do what the chart grants."""

    plane: ControlPlane
    operator_kubeconfig: Path

    def operator(self, directory: Path, **flags: str | float | bool) -> OperatorProcess:
        """Not started yet; underscores in `flags` stand for dashes."""
        given = {name.replace("_", "-"): value for name, value in flags.items()}
        lease = {"lease-namespace": OPERATOR_NAMESPACE, "lease-name": RELEASE}
        return OperatorProcess(self.operator_kubeconfig, directory, {**QUICK, **lease, "metrics-url": NOBODY, **given})

    def apply(self, *manifests: ServiceManifest) -> None:
        self.plane.kubectl.apply(*(manifest.object for manifest in manifests))

    def stored(self, namespace: str, name: str) -> Object:
        found = self.plane.kubectl.get("infs", name, namespace)
        assert found is not None, f"there is no InferenceService {namespace}/{name}"
        return found

    def owned(self, namespace: str, kind: str) -> list[Object]:
        """Objects of the kind that a service of the namespace controls, by name."""
        found = [item for item in self.plane.kubectl.list(kind, namespace) if item["metadata"].get("ownerReferences")]
        return sorted(found, key=lambda item: str(item["metadata"]["name"]))

    def writes(self, since: float) -> list[Request]:
        """What the operator has written since then (unix seconds), its lease apart."""
        made = requests_of(self.plane, USER)
        return [one for one in made if one.verb in WRITES and one.resource != "leases" and one.at >= since]

    def identities(self, namespace: str) -> dict[str, set[str]]:
        """Uids of everything the namespace's services own, by kind."""
        return {kind: {item["metadata"]["uid"] for item in self.owned(namespace, kind)} for kind in KINDS}

    def serves(self, manifest: ServiceManifest, ready: int, within: float = 60.0) -> Object:
        """Wait until the service says that so many replicas are ready and none is on its way, and return it."""
        metadata = manifest.object["metadata"]

        def accept(found: Object) -> bool:
            replicas = found.get("status", {}).get("replicas", {})
            return [replicas.get(state, 0) for state in ("ready", "loading", "draining")] == [ready, 0, 0]

        return eventually(
            lambda: self.stored(metadata["namespace"], metadata["name"]),
            accept,
            within=within,
            what=f"{metadata['name']} has {ready} ready replicas",
        )


def suite_on(plane: ControlPlane) -> Suite:
    """Install our CRDs and the operator's rights; the caller adds nodes."""
    kubectl = plane.kubectl
    install_crds(plane)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR_NAMESPACE}}
    kubectl.apply(namespace, *rights_of_the_chart())
    for right in (["list", "nodes"], ["list", "inferenceservices.forebay.dev", "-A"]):
        answer = partial(kubectl.attempt, "auth", "can-i", *right, f"--as={USER}")
        eventually(answer, lambda said: said.returncode == 0, within=30, what="the API server has taken the rights in")
    return Suite(plane, kubectl.as_service_account(RELEASE, OPERATOR_NAMESPACE).kubeconfig)


def install_crds(plane: ControlPlane) -> None:
    plane.kubectl.apply(*sorted(CRDS.glob("*.yaml")), server_side=True)
    plane.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=30s")


def nothing() -> dict[str, set[str]]:
    """What a deleted service leaves behind."""
    return {kind: set() for kind in KINDS}


def condition(service: Object, kind: str) -> Object:
    """The condition of this type, `{}` while there is none."""
    conditions: list[Object] = service.get("status", {}).get("conditions", [])
    return next((item for item in conditions if item["type"] == kind), {})


def reason(service: Object, kind: str) -> str | None:
    return condition(service, kind).get("reason")


def rights_of_the_chart(release: str = RELEASE, **values: Any) -> list[Object]:
    """The account, roles and bindings, and the class of placeholders, that helm would install for the operator."""
    command = [str(binary(HELM)), "template", release, str(CHART), "--namespace", OPERATOR_NAMESPACE, "--values", "-"]
    given = json.dumps({"crds": {"enabled": False}, **values})
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    objects = [document for document in yaml.safe_load_all(done.stdout) if document]
    wanted = {"ServiceAccount", "PriorityClass"}
    return [found for found in objects if found["kind"] in wanted or found["apiVersion"].startswith("rbac.")]


def granted(rules: list[Object]) -> set[tuple[str, str, str]]:
    """(group, resource, verb) of RBAC rules."""
    return {
        triple for rule in rules for triple in itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"])
    }


@dataclass(frozen=True, slots=True)
class Request:
    """One call of the operator, as the API server's audit log has it."""

    group: str
    resource: str
    """With its subresource: `inferenceservices/status`."""
    verb: str
    code: int
    at: float
    """Unix seconds."""

    @property
    def right(self) -> tuple[str, str, str]:
        return self.group, self.resource, self.verb


def requests_of(plane: ControlPlane, user: str) -> Iterator[Request]:
    """Every request of a user, oldest first."""
    for line in plane.audit_log.read_text().splitlines():
        entry = json.loads(line)
        target = entry.get("objectRef")
        # A request that was aborted before authentication has no user.
        if entry["user"].get("username") != user or target is None or "resource" not in target:
            continue
        resource = "/".join(part for part in (target["resource"], target.get("subresource")) if part)
        code = entry.get("responseStatus", {}).get("code", 0)
        at = datetime.fromisoformat(entry["requestReceivedTimestamp"]).timestamp()
        yield Request(target.get("apiGroup", ""), resource, entry["verb"], code, at)
