"""vLLM's HTTP server: completions, models, health, load, metrics, and the drain.

During a drain, requests in flight and in the queue finish while `/health` and `/metrics` still answer 200. New
streaming requests get 200, no token and `[DONE]`; other new requests get 500. vLLM behaves like this, which is why
traffic must be moved away before SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from aiohttp import web

from forebay.simulation.vllm_server.http_counts import UNKNOWN_HANDLER, HttpCounts
from forebay.simulation.vllm_server.openai_protocol import (
    DONE,
    CompletionAnswer,
    CompletionRequest,
    RefusedError,
    RequestRules,
    read_request,
)
from forebay.simulation.vllm_server.pacer import PacedRequest, Pacer
from forebay.simulation.vllm_server.process_metrics import own_usage, process_text
from forebay.simulation.vllm_server.vllm_arguments import ServeArguments
from forebay.simulation.vllm_server.vllm_metrics import CONTENT_TYPE, MetricsPage, cache_config

VERSION: Final = "0.32.0"
"""The vLLM version whose behaviour and metrics are imitated."""
LARGEST_BODY_BYTES: Final = 64 * 2**20

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class OpenAIServer:
    """The HTTP handlers of one set of engines."""

    def __init__(self, arguments: ServeArguments, rules: RequestRules, pacer: Pacer, api_keys: tuple[str, ...]) -> None:
        self.arguments = arguments
        self.rules = rules
        self.pacer = pacer
        self.api_keys = api_keys
        self.draining = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._generating: dict[int, web.Request] = {}
        self._started = time.time()
        self._http = HttpCounts(self._started)
        config = [cache_config(arguments, engine, rank) for rank, engine in enumerate(pacer.engines)]
        self._metrics = MetricsPage(rules.models[0], pacer.engines, config, self._started)

    def application(self) -> web.Application:
        """All routes."""
        application = web.Application(client_max_size=LARGEST_BODY_BYTES, middlewares=[self._count, self._authorize])
        application.add_routes(
            [
                web.post("/v1/completions", self._completions),
                web.post("/v1/chat/completions", self._chat),
                web.get("/v1/models", self._models),
                web.get("/health", self._health),
                web.get("/ping", self._health),
                web.post("/ping", self._health),
                web.get("/version", self._version),
                web.get("/load", self._load),
                web.get("/metrics", self._read_metrics),
            ]
        )
        return application

    # Drain

    async def drain(self, seconds: float) -> int:
        """Let open requests finish for up to `seconds`, then cut the rest; return how many were cut."""
        self.draining = True
        if self._generating and seconds > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), seconds)
        return self._cut()

    def _cut(self) -> int:
        """Close the connections of all open requests, without an end mark; return their number."""
        requests = list(self._generating.values())
        for request in requests:
            if request.transport is not None:
                request.transport.abort()
        return len(requests)

    # Middlewares

    @web.middleware
    async def _count(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        path = UNKNOWN_HANDLER if resource is None else resource.canonical
        began, status, sent = time.monotonic(), 500, 0
        try:
            response = await handler(request)
            status, sent = response.status, response.content_length or 0
            return response
        except web.HTTPException as refusal:
            status = refusal.status
            raise
        except asyncio.CancelledError:
            status = 200  # the client left a stream whose headers had been sent
            raise
        finally:
            self._http.finished(
                path,
                request.method,
                status,
                seconds=time.monotonic() - began,
                received=request.content_length or 0,
                sent=sent,
                now=time.time(),
            )

    @web.middleware
    async def _authorize(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        keys = self.api_keys
        if keys and request.path.startswith("/v1"):
            key = request.headers.get("Authorization", "").removeprefix("Bearer ")
            if key not in keys:
                return web.json_response({"error": "Unauthorized"}, status=401)
        return await handler(request)

    # Completions

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, chat=False)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, chat=True)

    async def _generate(self, request: web.Request, *, chat: bool) -> web.StreamResponse:
        self._generating[id(request)] = request
        self._idle.clear()
        try:
            params = read_request(await _json(request), self.rules, chat=chat)
            if self.draining:
                return await self._refuse_while_draining(request, params)
            self._refuse_when_full()
            return await (self._stream(request, params) if params.stream else self._whole(params))
        except RefusedError as refusal:
            return web.json_response(refusal.body, status=refusal.status)
        finally:
            del self._generating[id(request)]
            if not self._generating:
                self._idle.set()

    def _refuse_when_full(self) -> None:
        arguments, rejections = self.arguments, self._metrics.rejections
        for name, limit, queued in (
            ("max_num_queued_reqs", arguments.max_queued_requests, self.pacer.queued_requests),
            ("max_num_queued_tokens", arguments.max_queued_tokens, self.pacer.queued_tokens),
        ):
            if limit is not None and queued >= limit:
                rejections[name] += 1
                raise RefusedError(503, "ServiceUnavailableError", f"The queue is full: {queued} of {name} {limit}.")

    async def _refuse_while_draining(self, request: web.Request, params: CompletionRequest) -> web.StreamResponse:
        if not params.stream:
            raise RefusedError(500, "InternalServerError", "cannot schedule new futures after shutdown")
        response = await _open_stream(request)
        await response.write(DONE)
        await response.write_eof()
        return response

    def _submit(self, params: CompletionRequest, request_id: str) -> PacedRequest:
        return self.pacer.submit(
            request_id,
            params.prompt_tokens,
            params.output_tokens,
            params.reason,
            stream=params.stream,
        )

    async def _whole(self, params: CompletionRequest) -> web.Response:
        request_id = os.urandom(16).hex()
        answer = CompletionAnswer(params, request_id, int(time.time()))
        paced = self._submit(params, request_id)
        try:
            while paced.completion is None:
                await paced.progress()
        finally:
            self.pacer.abort(paced)
        return web.json_response(answer.whole(paced.tokens))

    async def _stream(self, request: web.Request, params: CompletionRequest) -> web.StreamResponse:
        request_id = os.urandom(16).hex()
        answer = CompletionAnswer(params, request_id, int(time.time()))
        response = await _open_stream(request)
        paced = self._submit(params, request_id)
        try:
            sent = 0
            while paced.completion is None or sent < paced.tokens:
                await paced.progress()
                events = [answer.opening()] if sent == 0 else []
                events += [
                    answer.token(index, params.reason if index == params.output_tokens else None)
                    for index in range(sent + 1, paced.tokens + 1)
                ]
                sent = paced.tokens
                await response.write(b"".join(events))
            await response.write(answer.closing(sent))
            await response.write_eof()
        except ConnectionError:
            pass  # the client left; the engine drops the request below
        finally:
            self.pacer.abort(paced)
        return response

    # Models, health, load and metrics

    async def _models(self, _: web.Request) -> web.Response:
        created = int(self._started)
        models = [
            {
                "id": name,
                "object": "model",
                "created": created,
                "owned_by": "vllm",
                "root": self.arguments.model,
                "parent": None,
                "max_model_len": self.rules.max_model_len,
            }
            for name in self.rules.models
        ]
        return web.json_response({"object": "list", "data": models})

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": VERSION})

    async def _load(self, _: web.Request) -> web.Response:
        return web.json_response({"server_load": len(self._generating) if self.arguments.track_load else 0})

    async def _read_metrics(self, _: web.Request) -> web.Response:
        self.pacer.catch_up()
        single = self._metrics.single_process
        parts = [process_text(self._started, own_usage())] if single else []
        parts += [self._metrics.text(), self._http.text(single_process=single)]
        return web.Response(body="".join(parts).encode(), headers={"Content-Type": CONTENT_TYPE})


async def _json(request: web.Request) -> object:
    try:
        body: object = json.loads(await request.read())
    except ValueError as fault:
        raise RefusedError(400, "BadRequestError", f"the body is not JSON: {fault}") from fault
    return body


async def _open_stream(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    if request.transport is not None:
        # The end of a stream then waits until the kernel has every byte. Otherwise a process that exits after its last
        # answer would cut the end of a slow client's stream.
        request.transport.set_write_buffer_limits(high=0)
    return response
