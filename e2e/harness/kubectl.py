"""kubectl, typed: objects go in and come out as dictionaries, failures carry what kubectl said."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from e2e.harness.waiting import eventually

Object = dict[str, Any]
"""A Kubernetes object as its JSON form."""

CALL_SECONDS = 60.0


def is_ready(found: Object | None) -> bool:
    """Whether a pod or a node has the condition Ready; an object that does not exist is not ready."""
    conditions = (found or {}).get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


class KubectlError(Exception):
    """A refused or failed call; `said` is kubectl's own message."""

    def __init__(self, arguments: tuple[str, ...], code: int, said: str) -> None:
        super().__init__(f"kubectl {' '.join(arguments)} ended with {code}: {said}")
        self.code = code
        self.said = said


class Kubectl:
    """Calls one kubectl binary against one kubeconfig."""

    def __init__(self, binary: Path, kubeconfig: Path) -> None:
        self.binary = binary
        self.kubeconfig = kubeconfig

    @property
    def environment(self) -> dict[str, str]:
        """For child processes that find their cluster by `KUBECONFIG`."""
        return os.environ | {"KUBECONFIG": str(self.kubeconfig)}

    def command(self, *arguments: str) -> list[str]:
        """The command line of a call, for callers that run it themselves (streams, watches, port-forwards)."""
        return [str(self.binary), f"--kubeconfig={self.kubeconfig}", *arguments]

    def __call__(self, *arguments: str, stdin: str | None = None, timeout: float = CALL_SECONDS) -> str:
        done = self.attempt(*arguments, stdin=stdin, timeout=timeout)
        if done.returncode != 0:
            raise KubectlError(arguments, done.returncode, (done.stderr or done.stdout).strip())
        return done.stdout

    def attempt(
        self, *arguments: str, stdin: str | None = None, timeout: float = CALL_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """A call whose failure is a result, for tests of refusals."""
        return subprocess.run(self.command(*arguments), input=stdin, capture_output=True, text=True, timeout=timeout)

    def json(self, *arguments: str) -> Object:
        found: Object = json.loads(self(*arguments, "-o", "json"))
        return found

    def get(self, kind: str, name: str, namespace: str = "default") -> Object | None:
        """The object, or None when there is none of this name."""
        said = self("get", kind, name, "-n", namespace, "-o", "json", "--ignore-not-found")
        found: Object | None = json.loads(said) if said.strip() else None
        return found

    def list(self, kind: str, namespace: str | None = "default", selector: str = "") -> list[Object]:
        """All objects of a kind; `namespace=None` looks in all of them."""
        place = ("-A",) if namespace is None else ("-n", namespace)
        chosen = ("-l", selector) if selector else ()
        items: list[Object] = self.json("get", kind, *place, *chosen)["items"]
        return items

    def apply(self, *objects: Mapping[str, Any] | str | Path, server_side: bool = False) -> str:
        """Applies dictionaries, YAML text or files together."""
        way = ("--server-side",) if server_side else ()
        return self("apply", *way, "-f", "-", stdin=_documents(objects))

    def create(self, *objects: Mapping[str, Any] | str | Path) -> str:
        return self("create", "-f", "-", stdin=_documents(objects))

    def eventually(
        self,
        kind: str,
        name: str,
        accept: Callable[[Object | None], object],
        *,
        within: float,
        what: str,
        namespace: str = "default",
    ) -> Object | None:
        """Waits until the object is as `accept` wants it; None stands for one that does not exist."""
        return eventually(lambda: self.get(kind, name, namespace), accept, within=within, what=what)

    def as_service_account(self, name: str, namespace: str, hours: int = 1) -> Kubectl:
        """The same cluster with the token of a service account, for tests of RBAC."""
        token = self("create", "token", name, "-n", namespace, f"--duration={hours}h").strip()
        config = yaml.safe_load(self.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token}
        path = self.kubeconfig.with_name(f"{namespace}-{name}.kubeconfig")
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config))
        return Kubectl(self.binary, path)


def _documents(objects: Iterable[Mapping[str, Any] | str | Path]) -> str:
    parts = [
        part.read_text() if isinstance(part, Path) else part if isinstance(part, str) else json.dumps(part)
        for part in objects
    ]
    return "\n---\n".join(parts)


def write_kubeconfig(path: Path, server: str, authority: Path, certificate: Path, key: Path) -> None:
    """A kubeconfig with the certificates inside, so that the file works from anywhere."""

    def inline(file: Path) -> str:
        return base64.b64encode(file.read_bytes()).decode()

    name = "forebay-test"
    user = {"client-certificate-data": inline(certificate), "client-key-data": inline(key)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": {"server": server, "certificate-authority-data": inline(authority)}},
        ],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
