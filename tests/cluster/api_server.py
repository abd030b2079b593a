"""A scripted HTTP server on loopback that records requests; it knows nothing of Kubernetes."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from forebay.cluster.client.access import Access
from forebay.cluster.client.kubernetes_client import Call, KubernetesClient, connect
from forebay.cluster.client.server_clock import ServerClock

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Asked:
    """One request as received."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class ScriptedServer:
    """Sends its answers in order, and then repeats the last one."""

    answers: list[Answer]
    asked: list[Asked] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        self.asked.append(
            Asked(
                request.method,
                request.path,
                dict(request.query),
                dict(request.headers),
                json.loads(text) if text else None,
            )
        )
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return await answer(request)


def says(body: Any, status: int = 200, **headers: str) -> Answer:
    """A JSON answer; `_` in header names stands for `-`."""

    async def answer(request: web.Request) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.json_response(body, status=status, headers=named)

    return answer


def refuses(status: int, reason: str, message: str, **headers: str) -> Answer:
    body = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": status}
    return says(body, status, **headers)


def shows(text: str, status: int) -> Answer:
    """The answer of a proxy in between, which is not JSON."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(text=text, status=status)

    return answer


def streams(*chunks: bytes, cut: bool = False) -> Answer:
    """Sends these chunks, each flushed; `cut` breaks the connection instead of ending the answer."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if cut and request.transport:
            request.transport.close()
        else:
            await response.write_eof()
        return response

    return answer


@asynccontextmanager
async def scripted(
    folder: Path, *answers: Answer, bearer: str = "first", server_clock: ServerClock | None = None
) -> AsyncIterator[tuple[ScriptedServer, KubernetesClient]]:
    """A server with these answers, and a client for it, configured by a kubeconfig in `folder`."""
    script = ScriptedServer(list(answers))
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", script.handle)
    async with TestServer(application, host="127.0.0.1") as server:
        write_kubeconfig(folder, str(server.make_url("/")), bearer)
        access = Access(str(folder / "config"))
        async with await connect(access, on_call=script.calls.append, server_clock=server_clock) as api:
            yield script, api


def write_kubeconfig(folder: Path, server: str, token: str) -> Path:
    path = folder / "config"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "test",
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "team-a"}}],
                "clusters": [{"name": "test", "cluster": {"server": server}}],
                "users": [{"name": "test", "user": {"token": token}}],
            }
        )
    )
    return path
