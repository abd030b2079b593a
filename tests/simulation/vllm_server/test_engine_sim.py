"""engine-sim as a process: loading, pacing, the drain on SIGTERM and the cut without one."""

import asyncio
import signal
import socket
from statistics import fmean

import aiohttp
import pytest

from forebay.simulation.engine.replica_engine import EngineLimits, ReplicaEngine
from forebay.simulation.engine.simulated_profile import parse_profile
from forebay.simulation.vllm_server.engine_sim import engine_sim, read_settings
from tests.simulation.load import a_request, run
from tests.simulation.vllm_server.servers import SLOW, Process, Stream, a_process, stream_completion

DRAINING = "--shutdown-timeout=20"


async def test_the_port_refuses_connections_until_the_model_is_loaded():
    async with a_process(ENGINE_SIM_LOAD_SECONDS="1.5") as (server, session):
        await server.logged("Starting to load")
        with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", server.port), timeout=5):
            pass
        await server.started(session)


async def test_sigterm_while_loading_ends_it_at_once():
    async with a_process(ENGINE_SIM_LOAD_SECONDS="1000") as (server, _):
        await server.logged("Starting to load")
        server.process.terminate()
        assert await server.ended() == 0


async def begin(session: aiohttp.ClientSession, server: Process, count: int, output: int) -> list[asyncio.Task[Stream]]:
    """Open streams; the first of them has received its first token."""
    tasks = [asyncio.create_task(stream_completion(session, server.url, 5, output)) for _ in range(count)]
    text = ""
    while f'num_requests_waiting{{engine="0",model_name="tiny"}} {count - 2}.0' not in text:
        await asyncio.sleep(0.02)
        async with session.get(f"{server.url}/metrics") as answer:
            text = await answer.text()
    return tasks


async def test_a_drain_finishes_what_runs_and_what_waits():
    """Two run and two wait at SIGTERM; all get every token, while the rest of vLLM's drain is as measured."""
    async with a_process("--max-num-seqs=2", DRAINING, ENGINE_SIM_PROFILE=SLOW) as (server, session):
        await server.started(session)
        tasks = await begin(session, server, 4, output=30)
        server.process.terminate()
        await server.logged("draining for up to 20 s")
        late = await stream_completion(session, server.url, 5, 1)
        async with session.get(f"{server.url}/health") as health, session.get(f"{server.url}/metrics") as metrics:
            assert (health.status, metrics.status) == (200, 200)
        async with session.post(f"{server.url}/v1/completions", json={"prompt": "a", "max_tokens": 1}) as whole:
            assert whole.status == 500
            assert "after shutdown" in (await whole.json())["error"]["message"]
        streams = await asyncio.gather(*tasks)
        assert await server.ended() == 0
    assert (late.status, late.done, late.finish_reason) == (200, True, None)
    assert [stream.tokens for stream in streams] == [30] * 4
    assert all(stream.whole for stream in streams)


@pytest.mark.parametrize(
    ("flags", "number"),
    [
        pytest.param((), signal.SIGTERM, id="no drain"),
        pytest.param(("--shutdown-timeout=1",), signal.SIGTERM, id="a drain that is too short"),
        pytest.param((DRAINING,), signal.SIGKILL, id="SIGKILL"),
    ],
)
async def test_streams_are_cut(flags, number):
    async with a_process("--max-num-seqs=2", *flags, ENGINE_SIM_PROFILE=SLOW) as (server, session):
        await server.started(session)
        tasks = await begin(session, server, 3, output=1000)
        server.process.send_signal(number)
        streams = await asyncio.gather(*tasks)
        await server.ended()
    assert not any(stream.done for stream in streams)
    assert all(stream.broken and stream.finish_reason is None for stream in streams)
    assert any(0 < stream.tokens < 1000 for stream in streams)


@pytest.mark.alone
async def test_http_runs_agree_with_virtual_clock_runs():
    """TTFT, ITL and throughput within 10 % of the engine on a virtual clock, with the arrivals that really happened.

    Steps of 60 ms and more keep Python's share small on a busy machine; four of ten requests have to wait.
    """
    profile = '{"a": 0.06, "b": 2e-4, "c": 1e-3, "d": 2e-6, "kv_tokens": 20000}'
    sizes = [(40 + 37 * index % 160, 12 + 5 * index % 17) for index in range(20)]
    async with a_process("--max-num-seqs=6", ENGINE_SIM_PROFILE=profile) as (server, session):
        await server.started(session)
        await stream_completion(session, server.url, 1, 1)

        async def later(index: int) -> Stream:
            await asyncio.sleep(0.12 * index)
            return await stream_completion(session, server.url, *sizes[index])

        streams = await asyncio.gather(*(later(index) for index in range(len(sizes))))
    assert [stream.tokens for stream in streams] == [output for _, output in sizes]

    start = min(stream.sent_at for stream in streams)
    engine = ReplicaEngine(parse_profile(profile), EngineLimits(max_num_seqs=6))
    virtual = run(
        engine,
        [
            a_request(f"r{index}", *sizes[index], at=streams[index].sent_at - start)
            for index in sorted(range(len(streams)), key=lambda index: streams[index].sent_at)
        ],
    )
    assert engine.stats.queue_seconds.total > 1
    first = fmean(stream.token_times[0] - stream.sent_at for stream in streams)
    assert first == pytest.approx(fmean(completion.first_token_seconds or 0 for completion in virtual), rel=0.1)
    between = [
        (stream.token_times[-1] - stream.token_times[0]) / (stream.tokens - 1)
        for stream in streams
        if stream.tokens > 1
    ]
    assert fmean(between) == pytest.approx(fmean(completion.token_seconds or 0 for completion in virtual), rel=0.1)
    whole = max(stream.token_times[-1] for stream in streams) - start
    assert whole == pytest.approx(max(completion.finished for completion in virtual), rel=0.1)


async def test_a_headless_rank_serves_nothing_and_ends_on_sigterm():
    async with a_process("--headless") as (server, _):
        await server.logged("Headless")
        server.process.terminate()
        assert await server.ended() == 0


class TestStart:
    def test_only_serve_is_known(self, capsys):
        with pytest.raises(SystemExit) as ended:
            engine_sim(["bench"])
        assert ended.value.code == 2
        assert "first argument must be 'serve'" in capsys.readouterr().err

    def test_a_refused_setting_ends_with_vllms_status(self, capsys):
        with pytest.raises(SystemExit) as ended:
            engine_sim(["serve", "m", "--max-num-batched-tokens=4", "--max-num-seqs=8"])
        assert ended.value.code == 1
        assert "ValueError: max_num_batched_tokens (4)" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("ENGINE_SIM_LOAD_SECONDS", "soon", "ENGINE_SIM_LOAD_SECONDS: 'soon' is not a number"),
            ("ENGINE_SIM_LOAD_SECONDS", "-1", "ENGINE_SIM_LOAD_SECONDS: -1 is negative"),
            ("ENGINE_SIM_PROFILE", "h200", "profile: 'h200' is neither"),
        ],
    )
    def test_the_simulators_own_settings_are_checked(self, name, value, message):
        with pytest.raises(ValueError, match=message):
            read_settings({name: value})
