"""The simulator's `/metrics` against samples of real vLLM 0.32: every family, type, label and bucket bound."""

import asyncio
import re
from pathlib import Path

import pytest

from forebay.simulation.vllm_server.exposition import PageTemplate, sample_value
from forebay.telemetry.engine_sample import sample_of
from forebay.telemetry.metric_catalogue import catalogue_for
from tests.simulation.vllm_server.servers import SLOW, Stream, a_server, read_stream

SAMPLES = Path(__file__).parents[2] / "samples"
FLAGS = (
    *("--max-model-len=2048", "--max-num-seqs=4", "--max-num-batched-tokens=2048", "--block-size=32"),
    *("--num-gpu-blocks-override=128", "--kv-cache-memory-bytes=67108864"),
)
SERIES = re.compile(r"^([a-zA-Z_:]+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


def sample(name: str) -> str:
    return (SAMPLES / f"vllm-metrics-{name}.txt").read_text()


def types(text: str) -> dict[str, str]:
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))


def series(text: str) -> set[str]:
    """Every series with its labels, without the Python version."""
    names = {f"{name}{{{labels}}}" for name, labels, _ in SERIES.findall(text)}
    return {re.sub(r'(major|minor|patchlevel|version)="[^"]*"', r"\1", name) for name in names}


async def scrape(client) -> str:
    answer = await client.get("/metrics")
    assert answer.status == 200
    text: str = await answer.text()
    return text


async def test_an_idle_server():
    async with a_server(*FLAGS) as client:
        text = await scrape(client)
    assert types(text) == types(sample("idle"))
    assert series(text) == series(sample("idle"))


async def test_a_server_that_has_answered():
    async with a_server(*FLAGS) as client:
        await client.get("/nowhere")
        await client.get("/v1/models")
        await client.post("/v1/completions", json={"prompt": "a b c", "max_tokens": 2})
        await client.post("/v1/chat/completions", json={"messages": [{"content": "hi"}], "max_tokens": 2})
        text = await scrape(client)
    assert types(text) == types(sample("load"))
    assert series(text) == series(sample("load"))


async def test_two_ranks_under_load():
    """Two engines: no process and no `_created` series; the gauges of both ranks once each has a request."""
    async with a_server(*FLAGS, "--data-parallel-size=2", ENGINE_SIM_PROFILE=SLOW) as client:
        idle = await scrape(client)
        body = {"prompt": "a b", "max_tokens": 50, "stream": True}
        answers = [await client.post("/v1/completions", json=body) for _ in range(4)]
        for answer in answers:
            assert await answer.content.readline()
        text = await scrape(client)
        for answer in answers:
            answer.close()
    assert types(text) == types(sample("dp2-load"))
    assert series(text) == series(sample("dp2-load"))
    assert series(text) - series(idle) == {
        name for name in series(text) if re.match("vllm:(num_requests_(running|waiting)|kv_cache_usage)", name)
    }
    assert value(text, "vllm:num_requests_running", 'engine="0"') == 2
    assert value(text, "vllm:num_requests_running", 'engine="1"') == 2


def value(text: str, name: str, *having: str) -> float:
    """The sum of all series of that name with those labels."""
    series = [(labels, float(number)) for family, labels, number in SERIES.findall(text) if family == name]
    matching = [number for labels, number in series if all(label in labels for label in having)]
    assert series, f"{name} is missing"
    return sum(matching)


async def test_counters_equal_what_clients_received():
    """Streams, whole answers and one refusal: prompts and tokens add up exactly."""
    lengths = [(5, 3), (40, 20), (1, 1), (17, 33)]
    received = prompts = 0
    async with a_server(*FLAGS) as client:

        async def ask(prompt: int, output: int, stream: bool):
            body = {"prompt": [7] * prompt, "max_tokens": output, "stream": stream}
            return await client.post("/v1/completions", json=body)

        answers = await asyncio.gather(*(ask(*size, stream=index % 2 == 0) for index, size in enumerate(lengths)))
        for index, answer in enumerate(answers):
            if index % 2 == 0:
                received += (await read_stream(answer, Stream())).tokens
            else:
                received += (await answer.json())["usage"]["completion_tokens"]
        prompts = sum(prompt for prompt, _ in lengths)
        assert (await ask(2000, 2000, stream=True)).status == 400
        text = await scrape(client)
    assert received == sum(output for _, output in lengths)
    assert value(text, "vllm:generation_tokens_total") == received
    assert value(text, "vllm:prompt_tokens_total") == prompts
    assert value(text, "vllm:prompt_tokens_by_source_total", 'source="local_compute"') == prompts
    assert value(text, "vllm:request_success_total", 'finished_reason="length"') == len(lengths)
    assert value(text, "vllm:time_to_first_token_seconds_count") == len(lengths)
    assert value(text, "vllm:inter_token_latency_seconds_count") == received - len(lengths)
    assert value(text, "vllm:request_generation_tokens_sum") == received
    assert value(text, "vllm:num_requests_running") == 0
    assert value(text, "http_requests_total", 'status="2xx"') == len(lengths)
    assert value(text, "http_requests_total", 'status="4xx"') == 1


async def test_the_operators_own_telemetry_reads_it():
    """Steps of a second: no request grows into a 14th block while the others arrive, on a busy machine either."""
    profile = '{"a": 1.0, "b": 1e-4, "c": 1e-4, "d": 1e-6, "kv_tokens": 20000}'
    async with a_server(*FLAGS, ENGINE_SIM_PROFILE=profile) as client:
        body = {"prompt": "a " * 400, "max_tokens": 100, "stream": True}
        answers = [await client.post("/v1/completions", json=body) for _ in range(7)]
        assert await answers[0].content.readline()
        for _ in range(100):
            answer = await client.get("/metrics")
            read = sample_of(await answer.read(), catalogue_for("0.32.0"), taken_at=0.0)
            # An answer begins a moment before its request is in the queue.
            if read.in_flight == len(answers):
                break
            await asyncio.sleep(0.02)
        for stream in answers:
            stream.close()
    assert read.running_requests == 4
    assert read.waiting_requests == 3
    assert read.kv_fraction == pytest.approx(4 * 13 / 127)


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (0, "0.0"),
        (1624, "1624.0"),
        (999_999.5, "999999.5"),
        (1_000_000, "1e+06"),
        (2_124_726_272, "2.124726272e+09"),
        (1795963197.69329, "1.79596319769329e+09"),
        (0.00015676399993935775, "0.00015676399993935775"),
        (1.5e-07, "1.5e-07"),
    ],
)
def test_numbers_look_as_prometheus_client_writes_them(given, written):
    assert sample_value(given) == written


def test_label_values_are_escaped():
    page = PageTemplate()
    page.sample("series", {"name": 'a"b\\c\n100%'}, "1.0")
    assert page.template() % () == 'series{name="a\\"b\\\\c\\n100%"} 1.0\n'
