"""engine-sim: a process that takes the command line `vllm serve …` and behaves like one vLLM server, without a GPU.

Besides vLLM's own flags and variables it reads these environment variables:

- `ENGINE_SIM_PROFILE`: the speed of the engine: a built-in name (`8b-h100`, the default) or JSON, see `parse_profile`;
- `ENGINE_SIM_LOAD_SECONDS`: how long the model loads (default 0); until then the port refuses connections;
- `ENGINE_SIM_OUTPUT_TOKENS`: answer length of chat requests without `max_tokens` (default 256).

`--shutdown-timeout N` drains as vLLM does. After N seconds, or at once with N = 0, open requests are cut: their
connections close without `[DONE]`. (vLLM at that point aborts, hangs or errors at random; clients lose the stream each
time.)
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from forebay.simulation.engine.replica_engine import EngineLimits, ReplicaEngine
from forebay.simulation.engine.simulated_profile import EngineProfile, parse_profile
from forebay.simulation.vllm_server.openai_protocol import RequestRules
from forebay.simulation.vllm_server.openai_server import OpenAIServer
from forebay.simulation.vllm_server.pacer import Pacer
from forebay.simulation.vllm_server.vllm_arguments import ServeArguments, parse_serve

USAGE: Final = "usage: vllm serve [model_tag] [options]\nvllm: error: the first argument must be 'serve'"
DEFAULT_PROFILE: Final = "8b-h100"
BACKLOG: Final = 2048


@dataclass(frozen=True, slots=True)
class EngineSimSettings:
    """The simulator's own settings, and those that vLLM reads from the environment."""

    profile: EngineProfile
    load_seconds: float
    default_output_tokens: int
    any_model: bool
    api_keys: tuple[str, ...]


def read_settings(environment: Mapping[str, str]) -> EngineSimSettings:
    """Settings from environment variables. Raises a `ValueError` that names the variable."""

    def amount(name: str, default: float) -> float:
        text = environment.get(name, str(default))
        try:
            value = float(text)
        except ValueError as fault:
            raise ValueError(f"{name}: {text!r} is not a number") from fault
        if value < 0:
            raise ValueError(f"{name}: {text} is negative")
        return value

    key = environment.get("VLLM_API_KEY")
    return EngineSimSettings(
        profile=parse_profile(environment.get("ENGINE_SIM_PROFILE", DEFAULT_PROFILE)),
        load_seconds=amount("ENGINE_SIM_LOAD_SECONDS", 0),
        default_output_tokens=max(1, int(amount("ENGINE_SIM_OUTPUT_TOKENS", 256))),
        any_model=environment.get("VLLM_SKIP_MODEL_NAME_VALIDATION", "0").lower() in ("1", "true"),
        api_keys=(key,) if key else (),
    )


def engine_sim(arguments: list[str]) -> None:
    """Run until SIGTERM. `arguments` are those of the command `vllm`, so the first must be `serve`."""
    if arguments[:1] != ["serve"]:
        print(USAGE, file=sys.stderr)
        raise SystemExit(2)
    serve = parse_serve(arguments[1:])
    try:
        settings = read_settings(os.environ)
        limits = serve.limits(settings.profile)
    except ValueError as fault:
        print(f"ValueError: {fault}", file=sys.stderr)
        raise SystemExit(1) from fault
    asyncio.run(_serve(serve, settings, limits))


def build_server(arguments: ServeArguments, settings: EngineSimSettings, limits: EngineLimits) -> OpenAIServer:
    """The server with its engines, paced by the running event loop."""
    rules = RequestRules(
        models=arguments.served_model_names,
        any_model=settings.any_model,
        max_model_len=limits.max_model_len,
        default_output_tokens=settings.default_output_tokens,
        force_usage=arguments.force_usage,
    )
    engines = [ReplicaEngine(settings.profile, limits) for _ in range(arguments.data_parallel_size)]
    pacer = Pacer(engines, asyncio.get_running_loop())
    return OpenAIServer(arguments, rules, pacer, api_keys=(*arguments.api_keys, *settings.api_keys))


async def _serve(arguments: ServeArguments, settings: EngineSimSettings, limits: EngineLimits) -> None:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        # The kernel ignores signals without a handler for process 1 of a container.
        loop.add_signal_handler(number, stopping.set)
    if arguments.headless:
        print("INFO Headless: this rank serves no API", file=sys.stderr, flush=True)
        await stopping.wait()
        return
    listener = _bound(arguments.host, arguments.port)
    if await _stopped_while_loading(stopping, settings.load_seconds):
        listener.close()
        return
    server = build_server(arguments, settings, limits)
    runner = web.AppRunner(server.application(), access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    await web.SockSite(runner, listener, backlog=BACKLOG).start()
    print("INFO Application startup complete.", file=sys.stderr, flush=True)
    await stopping.wait()
    server.draining = True
    print(f"INFO Shutting down, draining for up to {arguments.shutdown_timeout:g} s", file=sys.stderr, flush=True)
    cut = await server.drain(arguments.shutdown_timeout)
    if cut:
        print(f"WARNING {cut} requests cut, --shutdown-timeout {arguments.shutdown_timeout:g}", file=sys.stderr)
    server.pacer.stop()
    await runner.cleanup()


def _bound(host: str, port: int) -> socket.socket:
    """A socket that is bound but does not listen, so connections are refused, as they are while vLLM loads."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setblocking(False)
    listener.bind((host, port))
    return listener


async def _stopped_while_loading(stopping: asyncio.Event, seconds: float) -> bool:
    print(f"INFO Starting to load the model; it takes {seconds:g} s", file=sys.stderr, flush=True)
    try:
        await asyncio.wait_for(stopping.wait(), seconds)
    except TimeoutError:
        return False
    return True


if __name__ == "__main__":
    engine_sim(sys.argv[1:])
