"""Runs of `forebay plan` from the command line, and the manifests that they plan."""

import json
from typing import Any

import yaml
from typer.testing import CliRunner, Result

from forebay.cli.main import app
from tests.capacity.specs import LLAMA_8B, a_spec, traffic


def a_manifest(name: str = "chat", *arguments: Any, namespace: str | None = "team-a", **blocks: Any) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    spec = a_spec(*arguments, **blocks).wire()
    return {"apiVersion": "forebay.dev/v1alpha1", "kind": "InferenceService", "metadata": metadata, "spec": spec}


CHAT = a_manifest("chat", traffic=traffic(6_000_000, 4, 600, 260, 1.5), scaling={"maxReplicas": 4})
AGENTS = a_manifest("agents", traffic=traffic(1_000_000, 5, 3000, 1000, 1.5), scaling={"maxReplicas": 4})
SLOW = a_manifest("slow", LLAMA_8B, "NVIDIA-L4", model={"maxModelLen": 8192})
NEW = a_manifest("new", "hf://someone/new")


def plan(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, ["plan", *arguments], input=text)


def planned(*manifests: Any, flags: tuple[str, ...] = (), exit_code: int = 0) -> dict[str, Any]:
    """The JSON plan of manifests on standard input."""
    result = plan("-f", "-", "-o", "json", *flags, text=yaml.safe_dump_all(manifests))
    assert result.exit_code == exit_code, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def only(*manifests: Any, **options: Any) -> dict[str, Any]:
    """The JSON of the only service."""
    service: dict[str, Any]
    [service] = planned(*manifests, **options)["services"]
    return service
