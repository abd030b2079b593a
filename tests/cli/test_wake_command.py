import asyncio
from typing import Any

import pytest

from forebay.api.labels import WAKE_REQUESTED_AT
from forebay.cli.wake_command import wake_service
from forebay.cluster.client.kube_api import INFERENCE_SERVICES, ApiError
from tests.builders.world import NOW
from tests.cluster.cluster_in_memory import a_stored_service
from tests.cluster.fake_api import FakeApi

SPEC = {"model": {"source": "hf://org/name"}, "scaling": {"minReplicas": 0, "scaleToZeroAfter": "15m"}}


def an_api(spec: dict[str, Any], **fields: Any) -> FakeApi:
    api = FakeApi()
    api.put(INFERENCE_SERVICES, {**a_stored_service(spec=spec, annotations={"team": "a"}), **fields})
    return api


def test_a_wake_request_is_one_annotation_beside_the_others():
    api = an_api(SPEC)
    sentence = asyncio.run(wake_service(api, "team", "chat", lambda: NOW))
    stored = api.find(INFERENCE_SERVICES, "team", "chat")
    assert stored is not None
    assert stored["metadata"]["annotations"] == {"team": "a", WAKE_REQUESTED_AT: "2025-06-15T15:06:40Z"}
    for part in ("team/chat", "(2025-06-15T15:06:40Z)", "for 15m", "`forebay explain chat -n team`"):
        assert part in sentence
    assert [call.verb for call in api.calls] == ["get", "patch"]


def test_a_serving_service_keeps_its_replica():
    api = an_api(SPEC, status={"replicas": {"ready": 1, "desired": 1}})
    sentence = asyncio.run(wake_service(api, "team", "chat", lambda: NOW))
    assert "already serves" in sentence
    assert "15m from now (2025-06-15T15:06:40Z)" in sentence


def test_a_service_that_never_goes_to_zero_is_left_alone():
    api = an_api({"model": {"source": "hf://org/name"}, "scaling": {"minReplicas": 1}})
    sentence = asyncio.run(wake_service(api, "team", "chat", lambda: NOW))
    assert sentence == "team/chat never goes to zero (minReplicas is 1), so there is nothing to wake."
    assert [call.verb for call in api.calls] == ["get"]


def test_a_missing_service_is_an_error():
    with pytest.raises(ApiError):
        asyncio.run(wake_service(FakeApi(), "team", "chat", lambda: NOW))
