"""The requests that the client sends, and its result for each kind of answer."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from forebay.cluster.client import kubernetes_client
from forebay.cluster.client.kube_api import INFERENCE_SERVICES, NODES, PODS, ApiError
from forebay.cluster.client.kubernetes_client import lines
from forebay.cluster.client.server_clock import ServerClock
from tests.cluster.api_server import refuses, says, scripted, shows, streams, write_kubeconfig


def a_page(*names: str, rest: str = "", version: str = "7") -> dict[str, object]:
    return {
        "metadata": {"resourceVersion": version, "continue": rest},
        "items": [{"metadata": {"name": name}} for name in names],
    }


async def test_a_long_list_is_read_page_by_page(tmp_path):
    async with scripted(tmp_path, says(a_page("a", rest="t+1=")), says(a_page("b"))) as (server, api):
        pages = await api.list(PODS, namespace="team", label_selector="forebay.dev/service")
    assert [item["metadata"]["name"] for page in pages for item in json.loads(page)["items"]] == ["a", "b"]
    assert [(asked.path, asked.query) for asked in server.asked] == [
        ("/api/v1/namespaces/team/pods", {"labelSelector": "forebay.dev/service", "limit": "500"}),
        (
            "/api/v1/namespaces/team/pods",
            {"labelSelector": "forebay.dev/service", "limit": "500", "continue": "t+1="},
        ),
    ]


async def test_a_probe_lists_one_object(tmp_path):
    async with scripted(tmp_path, says(a_page("a", rest="t+1="))) as (server, api):
        await api.probe(INFERENCE_SERVICES, namespace="team")
    assert [(asked.path, asked.query) for asked in server.asked] == [
        ("/apis/forebay.dev/v1alpha1/namespaces/team/inferenceservices", {"limit": "1"})
    ]


async def test_a_list_compacted_between_pages_is_read_again_without_pages(tmp_path):
    expired = refuses(410, "Expired", "the provided continue parameter is too old")
    async with scripted(tmp_path, says(a_page("a", rest="t")), expired, says(a_page("a", "b"))) as (server, api):
        (page,) = await api.list(PODS)
    assert [item["metadata"]["name"] for item in json.loads(page)["items"]] == ["a", "b"]
    assert server.asked[2].query == {}


async def test_every_request_has_user_agent_and_token(tmp_path):
    async with scripted(tmp_path, says({"metadata": {}}), bearer="secret") as (server, api):
        await api.get(NODES, None, "n1")
    assert server.asked[0].path == "/api/v1/nodes/n1"
    assert server.asked[0].headers["Authorization"] == "Bearer secret"
    assert server.asked[0].headers["User-Agent"].startswith("forebay-operator/")


async def test_the_clock_learns_the_servers_time_from_a_successful_answer(tmp_path):
    clock = ServerClock()
    dated = says({"metadata": {}}, Date="Sun, 15 Jun 2025 15:06:40 GMT")
    async with scripted(tmp_path, dated, server_clock=clock) as (_, api):
        await api.get(NODES, None, "n1")
        assert clock.now() == pytest.approx(1_750_000_000.5, abs=30.0)
        assert clock.skew_seconds() is not None


async def test_the_clock_learns_nothing_from_a_failure_which_a_proxy_may_have_answered(tmp_path):
    clock = ServerClock()
    refused = refuses(502, "BadGateway", "no backend", Date="Sun, 15 Jun 2025 15:06:40 GMT")
    async with scripted(tmp_path, refused, server_clock=clock) as (_, api):
        with pytest.raises(ApiError):
            await api.get(NODES, None, "n1")
        assert clock.skew_seconds() is None


@pytest.mark.parametrize(
    ("call", "method", "path", "query", "content_type", "body"),
    [
        pytest.param(
            lambda api: api.create(PODS, "team", {"kind": "Pod"}),
            "POST",
            "/api/v1/namespaces/team/pods",
            {"fieldManager": "forebay"},
            "application/json",
            {"kind": "Pod"},
            id="create",
        ),
        pytest.param(
            lambda api: api.apply(PODS, "team", "a", {"kind": "Pod"}),
            "PATCH",
            "/api/v1/namespaces/team/pods/a",
            {"fieldManager": "forebay", "force": "true"},
            "application/apply-patch+yaml",
            {"kind": "Pod"},
            id="server-side apply, forced",
        ),
        pytest.param(
            lambda api: api.patch(INFERENCE_SERVICES, "team", "chat", {"status": {"url": None}}, subresource="status"),
            "PATCH",
            "/apis/forebay.dev/v1alpha1/namespaces/team/inferenceservices/chat/status",
            {"fieldManager": "forebay"},
            "application/merge-patch+json",
            {"status": {"url": None}},
            id="merge patch of a subresource; null stays null",
        ),
        pytest.param(
            lambda api: api.delete(PODS, "team", "a", uid="u", resource_version="9"),
            "DELETE",
            "/api/v1/namespaces/team/pods/a",
            {},
            "application/json",
            {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "u", "resourceVersion": "9"}},
            id="delete with both preconditions",
        ),
        pytest.param(
            lambda api: api.delete(PODS, "team", "a", uid="u"),
            "DELETE",
            "/api/v1/namespaces/team/pods/a",
            {},
            "application/json",
            {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "u"}},
            id="delete with the uid alone",
        ),
    ],
)
async def test_each_write_sends_the_right_request(tmp_path, call, method, path, query, content_type, body):
    async with scripted(tmp_path, says({"metadata": {"name": "a"}})) as (server, api):
        assert json.loads(await call(api)) == {"metadata": {"name": "a"}}
    (asked,) = server.asked
    assert (asked.method, asked.path, asked.query, asked.body) == (method, path, query, body)
    assert asked.headers["Content-Type"] == content_type


@pytest.mark.parametrize(
    ("answer", "status", "reason", "message"),
    [
        pytest.param(
            refuses(403, "Forbidden", "exceeded quota: gpus"), 403, "Forbidden", "exceeded quota: gpus", id="a Status"
        ),
        pytest.param(shows("<html>nobody home", 502), 502, "Bad Gateway", "<html>nobody home", id="a proxy's page"),
        pytest.param(says([], 500), 500, "Internal Server Error", "[]", id="JSON, but no Status"),
        pytest.param(
            refuses(429, "TooManyRequests", "slow down"), 429, "TooManyRequests", "slow down", id="429, no wait given"
        ),
        pytest.param(
            refuses(429, "TooManyRequests", "come back", Retry_After="31"),
            429,
            "TooManyRequests",
            "come back",
            id="429, a longer wait than any caller has",
        ),
    ],
)
async def test_a_refusal_has_the_servers_reason_and_message(tmp_path, answer, status, reason, message):
    async with scripted(tmp_path, answer) as (server, api):
        with pytest.raises(ApiError) as raised:
            await api.get(PODS, "team", "a")
    assert (raised.value.status, raised.value.reason, raised.value.message) == (status, reason, message)
    assert [(call.verb, call.resource, call.status) for call in server.calls] == [("get", "pods", status)]


@pytest.mark.parametrize("status", [429, 503])
async def test_a_throttled_request_is_retried_after_retry_after(tmp_path, status):
    busy = refuses(status, "Busy", "later", Retry_After="0")
    async with scripted(tmp_path, busy, busy, says({"metadata": {"name": "a"}})) as (server, api):
        await api.create(PODS, "team", {"kind": "Pod"})
    assert [call.status for call in server.calls] == [status, status, 200]


async def test_an_expired_token_is_read_again_once(tmp_path, monkeypatch):
    monkeypatch.setattr(kubernetes_client, "REFRESH_SECONDS", 0.0)
    expired = refuses(401, "Unauthorized", "Unauthorized")
    async with scripted(tmp_path, expired, says({"metadata": {}})) as (server, api):
        write_kubeconfig(tmp_path, api.host, "second")
        await api.get(PODS, "team", "a")
    assert [asked.headers["Authorization"] for asked in server.asked] == ["Bearer first", "Bearer second"]


async def test_a_token_that_stays_invalid_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(kubernetes_client, "REFRESH_SECONDS", 0.0)
    async with scripted(tmp_path, refuses(401, "Unauthorized", "who are you")) as (server, api):
        with pytest.raises(ApiError, match="who are you"):
            await api.get(PODS, "team", "a")
    assert len(server.asked) == 2


async def test_credentials_are_not_read_again_and_again(tmp_path):
    async with scripted(tmp_path, refuses(401, "Unauthorized", "who are you")) as (server, api):
        with pytest.raises(ApiError, match="who are you"):
            await api.get(PODS, "team", "a")
    assert len(server.asked) == 1


async def test_no_answer_has_no_status(tmp_path):
    async with scripted(tmp_path, says({})) as (server, api):
        pass
    async with api:
        with pytest.raises(ApiError) as raised:
            await api.get(PODS, "team", "a")
    assert raised.value.status == 0
    assert [call.status for call in server.calls] == [0]


async def test_a_timeout_has_no_status(tmp_path, monkeypatch):
    monkeypatch.setattr(kubernetes_client, "REQUEST_SECONDS", 0.05)
    async with scripted(tmp_path, never) as (_, api):
        with pytest.raises(ApiError) as raised:
            await api.get(PODS, "team", "a")
    assert (raised.value.status, raised.value.reason) == (0, "Timeout")


async def test_a_watch_yields_complete_lines(tmp_path):
    answer = streams(b'{"type":"ADD', b'ED"}\n{"type":"MODIFIED"}\n', b'\n{"type":"DELE')
    async with scripted(tmp_path, answer) as (server, api):
        events = [event async for event in api.watch(PODS, resource_version="5", label_selector="a=b")]
    assert events == [b'{"type":"ADDED"}', b'{"type":"MODIFIED"}']
    assert server.asked[0].query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "5",
        "timeoutSeconds": "300",
        "labelSelector": "a=b",
    }


async def test_a_truncated_watch_raises_an_error(tmp_path):
    async with scripted(tmp_path, streams(b'{"type":"ADDED"}\n', cut=True)) as (_, api):
        watch = api.watch(PODS, resource_version="5")
        events = [await anext(watch)]
        with pytest.raises(ApiError) as raised:
            await anext(watch)
    assert events == [b'{"type":"ADDED"}']
    assert raised.value.status == 0


async def test_a_watch_from_an_expired_version_is_gone(tmp_path):
    async with scripted(tmp_path, refuses(410, "Expired", "too old resource version")) as (_, api):
        with pytest.raises(ApiError) as raised:
            await anext(api.watch(PODS, resource_version="1"))
    assert raised.value.status == 410


async def test_a_line_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(kubernetes_client, "LONGEST_EVENT", 10)

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"12345678"

    with pytest.raises(ApiError, match="more than 10 bytes"):
        await anext(lines(endless()))


async def never(request):
    await asyncio.Event().wait()
