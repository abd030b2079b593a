"""Simulated vLLM servers for tests, in the test's own event loop or as a separate process."""

import asyncio
import json
import os
import sys
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp.test_utils import TestClient, TestServer

from e2e.harness.addresses import free_ports
from forebay.simulation.vllm_server.engine_sim import build_server, read_settings
from forebay.simulation.vllm_server.vllm_arguments import parse_serve

SOURCE_ROOT = Path(__file__).parents[3] / "operator"
FAST = '{"a": 0.002, "b": 1e-6, "c": 1e-6, "d": 1e-9, "kv_tokens": 4096, "overhead": 0}'
SLOW = '{"a": 0.05, "b": 1e-4, "c": 1e-4, "d": 1e-6, "kv_tokens": 20000}'


@asynccontextmanager
async def a_server(*flags: str, **environment: str):
    """A client of a server in this event loop; keyword arguments are environment variables."""
    serve = parse_serve(["tiny", *flags])
    settings = read_settings({"ENGINE_SIM_PROFILE": FAST} | environment)
    server = build_server(serve, settings, serve.limits(settings.profile))
    async with TestClient(TestServer(server.application(), handler_cancellation=True)) as client:
        yield client
    server.pacer.stop()


@dataclass
class Stream:
    """What a client received of one stream."""

    status: int = 0
    sent_at: float = 0.0
    token_times: list[float] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    usage: dict[str, int] | None = None
    done: bool = False
    broken: bool = False

    @property
    def tokens(self) -> int:
        return len(self.texts)

    @property
    def whole(self) -> bool:
        return self.done and not self.broken and self.finish_reason is not None


async def read_stream(answer: aiohttp.ClientResponse, stream: Stream) -> Stream:
    """Read server-sent events to the end of the connection."""
    stream.status = answer.status
    try:
        async for line in answer.content:
            if line.strip() == b"data: [DONE]":
                stream.done = True
            elif line.startswith(b"data: "):
                _take(json.loads(line[6:]), stream)
    except aiohttp.ClientError:
        stream.broken = True
    return stream


def _take(event: dict[str, Any], stream: Stream) -> None:
    stream.usage = event.get("usage") or stream.usage
    for choice in event["choices"]:
        text = choice["text"] if "text" in choice else choice["delta"].get("content")
        if text:
            stream.token_times.append(time.monotonic())
            stream.texts.append(text)
        stream.finish_reason = choice["finish_reason"] or stream.finish_reason


async def stream_completion(session: aiohttp.ClientSession, url: str, prompt: int, output: int) -> Stream:
    """Ask for an exact number of tokens and read them one by one."""
    stream = Stream(sent_at=time.monotonic())
    body = {"prompt": [1] * prompt, "max_tokens": output, "stream": True, "stream_options": {"include_usage": True}}
    try:
        async with session.post(f"{url}/v1/completions", json=body) as answer:
            return await read_stream(answer, stream)
    except aiohttp.ClientError:
        stream.broken = True
        return stream


class Process:
    """`vllm serve` as a process that listens on loopback."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    async def started(self, session: aiohttp.ClientSession) -> None:
        """Wait until `/health` answers; fail if the process ends before."""
        while True:
            if self.process.returncode is not None:
                raise AssertionError(f"engine-sim ended with {self.process.returncode}")
            with suppress(aiohttp.ClientConnectionError):
                async with session.get(f"{self.url}/health") as answer:
                    assert answer.status == 200
                    return
            await asyncio.sleep(0.02)

    async def logged(self, words: str) -> None:
        """Wait until the process has logged a line with these words."""
        assert self.process.stderr is not None
        while words.encode() not in (line := await self.process.stderr.readline()):
            assert line, f"engine-sim ended without saying {words!r}"

    async def ended(self) -> int:
        """Wait for the end of the process; return its exit status."""
        return await asyncio.wait_for(self.process.wait(), 30)


@asynccontextmanager
async def a_process(*flags: str, **environment: str):
    """A server as a separate process, and a client session."""
    (port,) = free_ports(1)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "forebay.simulation.vllm_server.engine_sim", "serve", "tiny", f"--port={port}"),
        *("--host=127.0.0.1", *flags),
        env={**os.environ, "PYTHONPATH": str(SOURCE_ROOT), "ENGINE_SIM_PROFILE": FAST} | environment,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            yield Process(process, port), session
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
