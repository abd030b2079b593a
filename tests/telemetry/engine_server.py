"""A local HTTP server that answers as working and broken engines do; the path is `/<namespace>/<pod>`."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

ANSWER = (Path(__file__).parents[1] / "samples" / "vllm-metrics-load.txt").read_text()


class EngineServer:
    """The pod's name selects the answer: pods called `slow…` answer after `release`. `asked` counts requests by pod."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.answers: dict[str, str] = {}
        """Answers of single pods, whatever their names."""
        self.asked: Counter[str] = Counter()
        self.was_asked: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.at_once = 0
        self.most_at_once = 0
        self.headers: dict[str, str] = {}
        self.port = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        pod = request.match_info["pod"]
        self.headers = dict(request.headers)
        self.asked[pod] += 1
        self.was_asked[pod].set()
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await self._response(pod, request)
        finally:
            self.at_once -= 1

    async def _response(self, pod: str, request: web.Request) -> web.StreamResponse:
        if pod in self.answers:
            return web.Response(text=self.answers[pod])
        kind = pod.partition("-")[0]
        if kind == "slow":
            await self.release.wait()
        if kind == "broken":
            return web.Response(status=500, text="engine died")
        if kind == "moved":
            raise web.HTTPFound(f"/default/engine-{pod}")
        if kind == "half":
            return await _half(request)
        if kind == "drip":
            return await self._drip(request)
        return web.Response(text=ANSWER)

    async def _drip(self, request: web.Request) -> web.StreamResponse:
        """Start an answer and then hang."""
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"vllm:num_requests_running 1\n")
        await self.release.wait()
        return response


async def _half(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": str(len(ANSWER))})
    await response.prepare(request)
    await response.write(ANSWER[: len(ANSWER) // 2].encode())
    assert request.transport is not None
    request.transport.close()
    return response


@asynccontextmanager
async def an_engine_server() -> AsyncIterator[EngineServer]:
    server = EngineServer()
    application = web.Application()
    application.router.add_get("/{namespace}/{pod}", server.answer)
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        server.release.set()
        await runner.cleanup()
