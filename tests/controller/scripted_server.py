"""As much of an API server as kopf needs; it plays the script of a test and records every request."""

import asyncio
import json
from typing import Any

from aiohttp import web
from kubernetes.aio.client import Configuration

from forebay.runtime.http_endpoints import Server, listen

_COLLECTION = "/apis/forebay.dev/v1alpha1/inferenceservices"
_VERBS = ["get", "list", "watch", "patch"]


def a_service(generation: int = 1, *, version: str = "1", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "forebay.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {
            "name": "chat",
            "namespace": "team-a",
            "uid": "uid-chat",
            "resourceVersion": version,
            "generation": generation,
            **metadata,
        },
        "spec": {},
        "status": {"observedGeneration": generation},
    }


class ScriptedServer:
    """`stream` sends one watch event; `services` is what a LIST answers."""

    def __init__(self) -> None:
        self.services: list[dict[str, Any]] = []
        self.requests: list[tuple[str, str]] = []
        self.lists = 0
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def __aenter__(self) -> "ScriptedServer":
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._server: Server = await listen(app, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.close()

    def stream(self, kind: str, content: dict[str, Any]) -> None:
        self._events.put_nowait({"type": kind, "object": content})

    async def configuration(self) -> Configuration:
        """Replaces `Access.configuration`."""
        return Configuration(host=f"http://127.0.0.1:{self._server.port}")

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path))
        match request.path:
            case "/apis":
                version = {"groupVersion": "forebay.dev/v1alpha1", "version": "v1alpha1"}
                group = {"name": "forebay.dev", "versions": [version], "preferredVersion": version}
                return web.json_response({"groups": [group]})
            case "/apis/forebay.dev/v1alpha1":
                kind = {"name": "inferenceservices", "singularName": "inferenceservice", "kind": "InferenceService"}
                return web.json_response({"resources": [{**kind, "namespaced": True, "verbs": _VERBS}]})
            case "/api":
                return web.json_response({"versions": ["v1"]})
            case "/api/v1":
                kind = {"name": "namespaces", "singularName": "namespace", "kind": "Namespace"}
                return web.json_response({"resources": [{**kind, "namespaced": False, "verbs": _VERBS}]})
            case path if path == _COLLECTION and request.query.get("watch") == "true":
                return await self._watch(request)
            case path if path == _COLLECTION:
                self.lists += 1
                return web.json_response({"metadata": {"resourceVersion": "1"}, "items": self.services})
        return web.json_response({"kind": "Status", "status": "Failure", "code": 404}, status=404)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            event = await self._events.get()
            await response.write(json.dumps(event).encode() + b"\n")
            if event["type"] == "ERROR":
                return response
