"""fleet-sim between an API server and a scraper: pods as they come and go, pages and traffic over HTTP."""

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from forebay.api import labels
from forebay.cluster.client.kube_api import PODS
from forebay.cluster.read.watch_cache import WatchCache, Watched
from forebay.simulation.kwok_fleet.fleet import SimulatedFleet
from forebay.simulation.kwok_fleet.fleet_pods import EnginePod, pod_state
from forebay.simulation.kwok_fleet.fleet_sim import FleetServer, fleet_sim, read_traffic_file
from forebay.simulation.kwok_fleet.stated_traffic import Traffic
from tests.cluster.fake_api import FakeApi


def a_pod(name: str, *, ready: bool = True, serving: bool = True) -> dict[str, Any]:
    """A pod as KWOK leaves it."""
    marks = {labels.SERVICE: "chat"} | ({labels.SERVING: "true"} if serving else {})
    return {
        "metadata": {"namespace": "team", "name": name, "uid": f"uid-{name}", "labels": marks},
        "spec": {
            "containers": [
                {
                    "name": "engine",
                    "command": ["vllm", "serve"],
                    "args": ["org/m", "--served-model-name=team/chat", "--max-num-seqs=4"],
                    "env": [{"name": "ENGINE_SIM_PROFILE", "value": "8b-a100"}, {"name": "TOKEN", "valueFrom": {}}],
                }
            ]
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


@asynccontextmanager
async def a_fleet_server(*pods: dict[str, Any]):
    """An API server in memory, the fleet, and a client of its HTTP side."""
    api = FakeApi()
    for pod in pods:
        api.put(PODS, pod)
    fleet, changed = SimulatedFleet(Traffic(20.0, 100, 20)), asyncio.Event()
    cache = WatchCache(
        api,
        Watched(PODS, EnginePod, pod_state("8b-h100"), labels.SERVICE),
        wake=lambda _: changed.set(),
        jitter=lambda: 0.5,
    )
    server = FleetServer(fleet, cache, changed)
    watching = asyncio.create_task(cache.run())
    async with TestClient(TestServer(server.application())) as client:
        await asyncio.wait_for(changed.wait(), 5)
        server.tick(0.1)
        yield api, server, client, changed
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching


async def test_pods_have_pages_as_their_state_says():
    async with a_fleet_server(a_pod("a"), a_pod("b", ready=False)) as (api, server, client, changed):
        server.tick(10.0)
        answer = await client.get("/team/a/metrics")
        assert answer.status == 200
        assert 'vllm:generation_tokens_total{engine="0",model_name="team/chat"}' in await answer.text()
        assert (await client.get("/team/b/metrics")).status == 404
        assert (await client.get("/team/nobody/metrics")).status == 404
        changed.clear()
        api.put(PODS, a_pod("a", ready=False))
        await changed.wait()
        server.tick(10.1)
        assert (await client.get("/team/a/metrics")).status == 503
        assert (await client.get("/healthz")).status == 200


async def test_leaving_the_rotation_stops_new_requests():
    async with a_fleet_server(a_pod("a")) as (api, server, client, changed):
        server.tick(10.0)
        changed.clear()
        api.put(PODS, a_pod("a", serving=False))
        await changed.wait()
        server.tick(10.1)
        before = (await (await client.get("/traffic")).json())["team/chat"]
        server.tick(30.0)
        after = (await (await client.get("/traffic")).json())["team/chat"]
    assert before["rotation"] == 0
    assert after["completed"] == before["completed"] + before["outstanding"]
    assert after["unserved"] - before["unserved"] == after["offered"] - before["offered"] > 0
    assert after["cut"] == 0


async def test_traffic_changes_while_it_runs():
    async with a_fleet_server(a_pod("a")) as (_, server, client, _):
        assert (await client.put("/traffic/team/chat", json={"requestsPerSecond": 0})).status == 204
        server.tick(10.0)
        quiet = (await (await client.get("/traffic")).json())["team/chat"]
        assert (
            await client.put("/traffic/team/chat", json={"requestsPerSecond": 50, "promptTokens": 10})
        ).status == 204
        server.tick(20.0)
        busy = (await (await client.get("/traffic")).json())["team/chat"]
        refused = await client.put("/traffic/team/chat", json={"requestsPerSecond": "many"})
        error = (await refused.json())["error"]
        assert (await client.put("/traffic", data="{")).status == 400
    assert quiet["offered"] == pytest.approx(2, abs=6)
    assert busy["offered"] - quiet["offered"] == pytest.approx(500, rel=0.2)
    assert (refused.status, error) == (400, "team/chat.requestsPerSecond: 'many' is not a number")


class TestTrafficFile:
    def test_services_start_from_the_default(self):
        fleet = SimulatedFleet(Traffic())
        text = """
        default: {requestsPerSecond: 3}
        services:
          team/chat: {promptTokens: 40}
        """
        read_traffic_file(text, fleet, Traffic(1, 500, 77))
        assert fleet.traffic(("team", "chat")) == Traffic(3.0, 40, 77)
        assert fleet.traffic(("team", "other")) == Traffic(3.0, 500, 77)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("- a", "not an object with the keys default and services"),
            ("service: {}", "not an object with the keys default and services"),
            ("services: {chat: {}}", "'chat' is not namespace/name"),
            ("services: [a]", "services: not an object"),
            ("services: {a/b: {rps: 1}}", "services.a/b.rps: not known"),
        ],
    )
    def test_refusals(self, text, message):
        with pytest.raises(ValueError, match=message):
            read_traffic_file(text, SimulatedFleet(Traffic()), Traffic())

    def test_a_bad_file_ends_the_process(self, tmp_path, capsys):
        file = tmp_path / "traffic.yaml"
        file.write_text("services: {chat: {}}")
        with pytest.raises(SystemExit) as ended:
            fleet_sim([f"--traffic={file}"])
        assert ended.value.code == 2
        assert "'chat' is not namespace/name" in capsys.readouterr().err

    def test_a_cluster_that_is_not_there_is_named(self, tmp_path, capsys):
        with pytest.raises(SystemExit) as ended:
            fleet_sim([f"--kubeconfig={tmp_path / 'nowhere'}"])
        assert ended.value.code == 1
        assert "nowhere" in capsys.readouterr().err
