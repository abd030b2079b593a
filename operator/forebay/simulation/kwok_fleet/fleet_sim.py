"""fleet-sim: metrics and traffic for pods that have no network, such as KWOK's.

It watches the API server for pods with the label `forebay.dev/service`, runs a simulated engine for each Ready pod,
sends configured traffic to the pods in rotation, and serves their metrics:

- `GET /{namespace}/{pod}/metrics`: the pod's page; 404 if there is no such pod, 503 while its engine does not answer;
- `PUT /traffic/{namespace}/{service}` with `{"requestsPerSecond": 12, …}`: set a service's traffic from now on;
- `PUT /traffic`: set the traffic of services without their own;
- `GET /traffic`: what became of all requests, by service;
- `GET /healthz`: 200 once all pods have been listed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import yaml
from aiohttp import web

from forebay import __version__
from forebay.api import labels
from forebay.cluster.client.access import Access, AccessError
from forebay.cluster.client.kube_api import PODS
from forebay.cluster.client.kubernetes_client import KubernetesClient
from forebay.cluster.read.watch_cache import WatchCache, Watched
from forebay.simulation.engine.simulated_profile import parse_profile
from forebay.simulation.kwok_fleet.fleet import PodState, ServiceName, SimulatedFleet
from forebay.simulation.kwok_fleet.fleet_pods import EnginePod, pod_state
from forebay.simulation.kwok_fleet.stated_traffic import Traffic, parse_traffic
from forebay.simulation.vllm_server.engine_sim import DEFAULT_PROFILE
from forebay.simulation.vllm_server.process_metrics import Usage, own_usage
from forebay.simulation.vllm_server.vllm_metrics import CONTENT_TYPE

ENGINES: Final = f"{labels.SERVICE},!{labels.ROLE}"
"""Label selector of pods that have an engine; placeholders have none."""
TICK_SECONDS: Final = 0.5
USAGE_SECONDS: Final = 5.0
"""How long the simulator's own memory and CPU figures are reused: reading them takes longer than writing a page."""


class FleetServer:
    """The HTTP side of a fleet, and its clock."""

    def __init__(self, fleet: SimulatedFleet, pods: WatchCache[EnginePod, PodState], changed: asyncio.Event) -> None:
        """`changed` is set whenever `pods` has changed; the next tick takes the change over."""
        self._fleet = fleet
        self._pods = pods
        self._changed = changed
        self._usage: tuple[float, Usage] = (0.0, own_usage())

    def application(self) -> web.Application:
        """All routes."""
        application = web.Application()
        application.add_routes(
            [
                web.get("/healthz", self._health),
                web.get("/traffic", self._summary),
                web.put("/traffic", self._set_default),
                web.put("/traffic/{namespace}/{service}", self._set_traffic),
                web.get("/{namespace}/{pod}/metrics", self._metrics),
            ]
        )
        return application

    async def run(self, tick_seconds: float) -> None:
        """Advance the fleet in real time. A late tick covers a longer time, so no time is lost."""
        loop = asyncio.get_running_loop()
        start, ticks = loop.time() - self._fleet.now, 0
        while True:
            self.tick(loop.time() - start)
            ticks = max(ticks + 1, int((loop.time() - start) / tick_seconds) + 1)
            await asyncio.sleep(max(0.0, start + ticks * tick_seconds - loop.time()))

    def tick(self, now: float) -> None:
        """Advance the fleet to `now`, then take over changes of the pods."""
        self._fleet.advance(now)
        if self._changed.is_set() and self._pods.synced:
            self._changed.clear()
            self._fleet.observe(self._pods.views.values(), time.time())

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(status=200 if self._pods.synced else 503)

    async def _summary(self, _: web.Request) -> web.Response:
        return web.json_response(self._fleet.summary())

    async def _set_default(self, request: web.Request) -> web.Response:
        return await self._put(request, self._fleet.default, "traffic", self._fleet.set_default)

    async def _set_traffic(self, request: web.Request) -> web.Response:
        name: ServiceName = (request.match_info["namespace"], request.match_info["service"])
        return await self._put(
            request, self._fleet.traffic(name), "/".join(name), lambda traffic: self._fleet.set_traffic(name, traffic)
        )

    async def _put(
        self, request: web.Request, base: Traffic, where: str, setter: Callable[[Traffic], None]
    ) -> web.Response:
        try:
            traffic = parse_traffic(json.loads(await request.read()), base, where)
        except ValueError as fault:
            return web.json_response({"error": str(fault)}, status=400)
        setter(traffic)
        return web.Response(status=204)

    async def _metrics(self, request: web.Request) -> web.Response:
        pod = self._fleet.pod(request.match_info["namespace"], request.match_info["pod"])
        if pod is None:
            return web.Response(status=404, text="no such pod, or it has never been Ready\n")
        if not pod.ready or not pod.engines:
            return web.Response(status=503, text=f"{pod.fault or 'not Ready'}\n")
        now = time.monotonic()
        if now - self._usage[0] > USAGE_SECONDS:
            self._usage = (now, own_usage())
        return web.Response(body=pod.text(self._usage[1]).encode(), headers={"Content-Type": CONTENT_TYPE})


def read_traffic_file(text: str, fleet: SimulatedFleet, base: Traffic) -> None:
    """Set the traffic of a fleet from YAML: `{"default": {…}, "services": {"namespace/name": {…}}}`."""
    document: Any = yaml.safe_load(text) or {}
    if not isinstance(document, dict) or not set(document) <= {"default", "services"}:
        raise ValueError("traffic: not an object with the keys default and services")
    default = parse_traffic(document.get("default") or {}, base, "default")
    fleet.set_default(default)
    services = document.get("services") or {}
    if not isinstance(services, dict):
        raise ValueError("services: not an object of namespace/name and traffic")
    for full_name, traffic in services.items():
        namespace, slash, name = str(full_name).partition("/")
        if not slash or not namespace or not name:
            raise ValueError(f"services: {full_name!r} is not namespace/name")
        fleet.set_traffic((namespace, name), parse_traffic(traffic, default, f"services.{full_name}"))


def fleet_sim(arguments: list[str]) -> None:
    """Run until SIGTERM."""
    options = _parser().parse_args(arguments)
    fleet = SimulatedFleet(Traffic(), seed=options.seed)
    flags = Traffic(options.requests_per_second, options.prompt_tokens, options.output_tokens)
    try:
        parse_profile(options.profile)
        read_traffic_file(options.traffic.read_text(encoding="utf-8") if options.traffic else "", fleet, flags)
    except (OSError, ValueError, yaml.YAMLError) as fault:
        print(f"fleet-sim: {fault}", file=sys.stderr)
        raise SystemExit(2) from fault
    try:
        asyncio.run(_serve(options, fleet))
    except AccessError as fault:
        print(f"fleet-sim: {fault}", file=sys.stderr)
        raise SystemExit(1) from fault


async def _serve(options: argparse.Namespace, fleet: SimulatedFleet) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    access = Access(options.kubeconfig, options.context)
    watched = Watched(PODS, EnginePod, pod_state(options.profile), ENGINES, options.namespace)
    changed = asyncio.Event()
    async with KubernetesClient(
        access, await access.configuration(), user_agent=f"forebay-fleet-sim/{__version__}"
    ) as api:
        cache = WatchCache(api, watched, wake=lambda _: changed.set(), jitter=random.random)
        server = FleetServer(fleet, cache, changed)
        runner = web.AppRunner(server.application(), access_log=None)
        await runner.setup()
        await web.TCPSite(runner, options.bind_address, options.port).start()
        print(
            f"fleet-sim serves http://{options.bind_address}:{options.port}/{{namespace}}/{{pod}}/metrics", flush=True
        )
        await _until(stopping, cache.run(), server.run(options.tick_seconds))
        await runner.cleanup()


async def _until(stopping: asyncio.Event, *work: Awaitable[None]) -> None:
    """Run until `stopping` is set; work that fails ends the process with its error."""
    tasks = [asyncio.ensure_future(awaitable) for awaitable in work]
    end = asyncio.ensure_future(stopping.wait())
    await asyncio.wait([*tasks, end], return_when=asyncio.FIRST_COMPLETED)
    for task in (*tasks, end):
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="forebay fleet-sim", description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    flag = parser.add_argument
    flag("--kubeconfig", help="as for kubectl")
    flag("--context", help="of the kubeconfig")
    flag("--namespace", help="only pods of this namespace")
    flag("--bind-address", default="127.0.0.1", help="default: %(default)s")
    flag("--port", type=int, default=9999, help="default: %(default)s")
    flag("--traffic", type=Path, help="YAML: default and services by namespace/name")
    flag("--requests-per-second", type=float, default=0.0, help="of every service, unless the file says otherwise")
    flag("--prompt-tokens", type=int, default=500, help="default: %(default)s")
    flag("--output-tokens", type=int, default=200, help="default: %(default)s")
    flag("--profile", default=DEFAULT_PROFILE, help="of pods without ENGINE_SIM_PROFILE; default: %(default)s")
    flag("--tick-seconds", type=float, default=TICK_SECONDS, help="default: %(default)s")
    flag("--seed", type=int, default=0, help="of the arrivals; default: %(default)s")
    return parser


if __name__ == "__main__":
    fleet_sim(sys.argv[1:])
