"""An applied manifest serves completions, and its status explains the decision."""

from __future__ import annotations

import json
import urllib.request
from contextlib import suppress
from typing import Any

from e2e.engines import has_condition, pods_of, wait_for_serving
from e2e.harness.waiting import eventually
from e2e.installation import Installation
from e2e.manifests import EngineProfile, an_inference_service


def test_an_applied_manifest_serves_a_completion_through_its_service(forebay: Installation) -> None:
    manifest = an_inference_service("chat", forebay.namespace).replicas(1, 2).profile(EngineProfile(a=0.01))
    forebay.kubectl.apply(manifest.object)
    service = eventually(lambda: forebay.get("chat"), has_condition("Ready", "True"), within=90, what="chat is Ready")
    assert service["status"]["url"] == f"http://chat.{forebay.namespace}.svc:80/v1"
    body = {"model": f"{forebay.namespace}/chat", "prompt": "Once upon a time", "max_tokens": 5}
    request = urllib.request.Request(
        f"{forebay.url('chat')}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )

    def ask() -> dict[str, Any] | None:
        """None while the node's rules do not know the pod yet: they follow its readiness a moment later."""
        with suppress(OSError), urllib.request.urlopen(request, timeout=30) as answer:
            return dict(json.load(answer))
        return None

    completion = eventually(ask, within=30, what="the Service answers")
    assert completion is not None
    assert completion["usage"]["completion_tokens"] == 5
    assert completion["choices"][0]["finish_reason"] == "length"


def test_the_columns_and_the_description_explain_the_decision(forebay: Installation) -> None:
    table = forebay.kubectl("get", "infs", "chat", "-n", forebay.namespace).splitlines()
    assert table[0].split() == ["NAME", "READY", "DESIRED", "MODEL", "QUEUE", "KV%", "REASON", "AGE"]
    description = forebay.kubectl("describe", "infs", "chat", "-n", forebay.namespace)
    decision = forebay.get("chat")["status"]["decision"]
    assert decision["because"] in description
    assert "ScaledUp" in description, "the events at the end tell how it came to be"


def test_deleting_a_service_leaves_nothing_behind(forebay: Installation) -> None:
    manifest = an_inference_service("brief", forebay.namespace).profile(EngineProfile(a=0.01))
    forebay.kubectl.apply(manifest.object)
    wait_for_serving(forebay.kubectl, "brief", 1, within=90, namespace=forebay.namespace)
    forebay.kubectl("delete", "infs", "brief", "-n", forebay.namespace)

    def left() -> list[str]:
        kinds = "pods,services,poddisruptionbudgets,controllerrevisions"
        said = forebay.kubectl("get", kinds, "-n", forebay.namespace, "-l", "forebay.dev/service=brief", "-o", "name")
        return said.split()

    eventually(left, lambda names: not names, within=120, what="children of brief are gone")
    assert pods_of(forebay.kubectl, "brief", forebay.namespace) == []
