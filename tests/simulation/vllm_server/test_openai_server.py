"""The OpenAI API as vLLM implements it: lengths, streams, the format of errors, queue bounds, clients that leave."""

import asyncio
import json

import pytest

from tests.simulation.vllm_server.servers import SLOW, Stream, a_server, read_stream


async def post(client, path: str, **body):
    return await client.post(f"/v1/{path}", json=body)


async def streamed(client, path: str, **body) -> Stream:
    return await read_stream(await post(client, path, stream=True, **body), Stream())


CHAT = [{"role": "system", "content": "be brief"}, {"role": "user", "content": [{"type": "text", "text": "one two"}]}]


class TestAnswers:
    async def test_a_completion(self):
        async with a_server("--served-model-name=team/chat") as client:
            answer = await post(client, "completions", model="team/chat", prompt="a b  c\nd", max_tokens=3)
            body = await answer.json()
        assert answer.status == 200
        assert body["object"] == "text_completion"
        assert body["model"] == "team/chat"
        assert body["choices"] == [
            {"index": 0, "text": " 1 2 3", "logprobs": None, "finish_reason": "length", "stop_reason": None}
        ]
        assert body["usage"] == {"prompt_tokens": 4, "total_tokens": 7, "completion_tokens": 3}

    async def test_a_chat_counts_the_words_of_all_messages(self):
        async with a_server() as client:
            body = await (await post(client, "chat/completions", messages=CHAT, max_completion_tokens=2)).json()
        assert body["object"] == "chat.completion"
        assert body["choices"][0]["message"] == {"role": "assistant", "content": " 1 2"}
        assert body["usage"]["prompt_tokens"] == 4

    @pytest.mark.parametrize(
        ("prompt", "tokens"),
        [
            pytest.param([5, 6, 7], 3, id="token ids"),
            pytest.param([[5, 6, 7]], 3, id="one list of token ids"),
            pytest.param(["a b"], 2, id="one text in a list"),
        ],
    )
    async def test_prompts_count_exactly(self, prompt, tokens):
        async with a_server() as client:
            body = await (await post(client, "completions", prompt=prompt)).json()
        assert body["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens + 16, "completion_tokens": 16}

    async def test_a_chat_without_a_bound_stops_by_itself(self):
        async with a_server(ENGINE_SIM_OUTPUT_TOKENS="9") as client:
            body = await (await post(client, "chat/completions", messages=CHAT)).json()
        assert body["choices"][0]["finish_reason"] == "stop"
        assert body["usage"]["completion_tokens"] == 9


class TestStreams:
    @pytest.mark.parametrize("path", ["completions", "chat/completions"])
    async def test_one_event_per_token_then_usage_then_the_end(self, path):
        body = {"messages": CHAT} if path.startswith("chat") else {"prompt": "a b c d"}
        async with a_server() as client:
            answer = await post(
                client, path, max_tokens=4, stream=True, stream_options={"include_usage": True}, ignore_eos=True, **body
            )
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            stream = await read_stream(answer, Stream())
        assert stream.texts == [" 1", " 2", " 3", " 4"]
        assert stream.finish_reason == "length"
        assert stream.usage == {"prompt_tokens": 4, "total_tokens": 8, "completion_tokens": 4}
        assert stream.whole

    async def test_the_order_of_events(self):
        async with a_server() as client:
            answer = await post(
                client,
                "chat/completions",
                messages=CHAT,
                max_tokens=2,
                stream=True,
                stream_options={"include_usage": True},
            )
            lines = [line for line in (await answer.text()).split("\n\n") if line]
        events = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
        assert [event["choices"][0]["delta"] if event["choices"] else "usage" for event in events] == [
            {"role": "assistant", "content": ""},
            {"content": " 1"},
            {"content": " 2"},
            "usage",
        ]
        assert lines[-1] == "data: [DONE]"

    async def test_no_usage_unless_asked_for(self):
        async with a_server() as client:
            stream = await streamed(client, "completions", prompt="a", max_tokens=2)
        assert (stream.usage, stream.whole) == (None, True)

    async def test_usage_may_be_forced_by_the_server(self):
        async with a_server("--enable-force-include-usage") as client:
            stream = await streamed(client, "completions", prompt="a", max_tokens=2)
        assert stream.usage == {"prompt_tokens": 1, "total_tokens": 3, "completion_tokens": 2}

    async def test_usage_with_every_token(self):
        options = {"include_usage": True, "continuous_usage_stats": True}
        async with a_server() as client:
            answer = await post(client, "completions", prompt="a", max_tokens=2, stream=True, stream_options=options)
            events = [json.loads(part[6:]) for part in (await answer.text()).split("\n\n")[:-2]]
        assert [event["usage"]["completion_tokens"] for event in events] == [1, 2, 2]


class TestRefusals:
    @pytest.mark.parametrize(
        ("path", "body", "status", "kind", "message"),
        [
            pytest.param(
                "completions",
                {"model": "x", "prompt": "a"},
                *(404, "NotFoundError", "The model `x` does not exist."),
                id="unknown model",
            ),
            pytest.param(
                "completions",
                {"prompt": "a b c", "max_tokens": 98},
                *(400, "BadRequestError", "maximum context length is 100 tokens and your request has 3 input tokens"),
                id="prompt and answer too long",
            ),
            pytest.param(
                "chat/completions",
                {"messages": [{"content": "a " * 100}]},
                *(400, "BadRequestError", "your request has 100 input tokens"),
                id="prompt too long",
            ),
            pytest.param("completions", {"prompt": ""}, 400, "BadRequestError", "cannot be empty", id="empty prompt"),
            pytest.param("completions", {}, 400, "BadRequestError", "prompt: neither text", id="no prompt"),
            pytest.param("completions", {"prompt": ["a", "b"]}, 400, "BadRequestError", "one prompt", id="two prompts"),
            pytest.param("chat/completions", {}, 400, "BadRequestError", "messages: not a list", id="no messages"),
            pytest.param(
                "completions",
                {"prompt": "a", "max_tokens": 0},
                400,
                "BadRequestError",
                "at least 1, got 0",
                id="no answer",
            ),
            pytest.param("completions", {"prompt": "a", "n": 2}, 400, "BadRequestError", "n: 2", id="two answers"),
            pytest.param("completions", [1], 400, "BadRequestError", "not a JSON object", id="a list"),
        ],
    )
    async def test_errors_have_openais_shape(self, path, body, status, kind, message):
        async with a_server("--max-model-len=100") as client:
            answer = await client.post(f"/v1/{path}", json=body)
            error = (await answer.json())["error"]
        assert answer.status == error["code"] == status
        assert error["type"] == kind
        assert message in error["message"]

    async def test_what_is_not_json(self):
        async with a_server() as client:
            answer = await client.post("/v1/completions", data="{")
            assert answer.status == 400
            assert "not JSON" in (await answer.json())["error"]["message"]

    async def test_any_model_name_when_validation_is_off(self):
        async with a_server(VLLM_SKIP_MODEL_NAME_VALIDATION="1") as client:
            body = await (await post(client, "completions", model="route", prompt="a", max_tokens=1)).json()
        assert body["model"] == "route"

    async def test_an_api_key_guards_v1_alone(self):
        async with a_server("--api-key", "secret") as client:
            assert (await client.get("/v1/models")).status == 401
            assert (await client.get("/v1/models", headers={"Authorization": "Bearer secret"})).status == 200
            assert (await client.get("/health")).status == 200
            assert (await client.get("/metrics")).status == 200

    @pytest.mark.parametrize(
        ("flag", "reason"),
        [
            ("--max-num-queued-reqs=3", "max_num_queued_reqs"),
            ("--max-num-queued-tokens=6", "max_num_queued_tokens"),
        ],
    )
    async def test_a_full_queue_answers_503_and_counts_it(self, flag, reason):
        """One request runs, three of two tokens wait: the fifth is refused."""
        async with a_server("--max-num-seqs=1", flag, ENGINE_SIM_PROFILE=SLOW) as client:
            body = {"prompt": "a b", "max_tokens": 100, "stream": True}
            streams = [await client.post("/v1/completions", json=body)]
            assert await streams[0].content.readline()
            streams += [await client.post("/v1/completions", json=body) for _ in range(3)]
            refused = await client.post("/v1/completions", json=body)
            text = await (await client.get("/metrics")).text()
            healthy = (await client.get("/health")).status
            for stream in streams:
                stream.close()
        assert [stream.status for stream in streams] == [200] * 4
        assert (refused.status, healthy) == (503, 200)
        assert f'vllm:admission_rejections_total{{model_name="tiny",reason="{reason}"}} 1.0' in text
        assert 'http_requests_total{handler="/v1/completions",method="POST",status="5xx"} 1.0' in text


class TestOtherPaths:
    async def test_models_state_the_longest_request(self):
        async with a_server("--max-model-len=100", "--served-model-name", "a", "b") as client:
            data = (await (await client.get("/v1/models")).json())["data"]
        assert [(model["id"], model["max_model_len"], model["owned_by"]) for model in data] == [
            ("a", 100, "vllm"),
            ("b", 100, "vllm"),
        ]

    async def test_health_ping_and_version(self):
        async with a_server() as client:
            assert (await client.get("/health")).status == 200
            assert (await client.get("/ping")).status == 200
            assert (await client.post("/ping")).status == 200
            assert await (await client.get("/version")).json() == {"version": "0.32.0"}
            for missing in ("/livez", "/readyz", "/ready"):
                assert (await client.get(missing)).status == 404

    @pytest.mark.parametrize(("flags", "load"), [((), 0), (("--enable-server-load-tracking",), 2)])
    async def test_load_counts_open_requests_only_when_tracked(self, flags, load):
        async with a_server(*flags, ENGINE_SIM_PROFILE=SLOW) as client:
            body = {"prompt": "a", "max_tokens": 100, "stream": True}
            streams = [await client.post("/v1/completions", json=body) for _ in range(2)]
            assert await (await client.get("/load")).json() == {"server_load": load}
            for stream in streams:
                stream.close()


async def test_a_client_that_leaves_frees_the_engine():
    async with a_server(ENGINE_SIM_PROFILE=SLOW) as client:
        answer = await post(client, "completions", prompt="a", max_tokens=1000, stream=True)
        assert await answer.content.readline()
        answer.close()
        text = ""
        while 'finished_reason="abort",model_name="tiny"} 1.0' not in text:
            await asyncio.sleep(0.01)
            text = await (await client.get("/metrics")).text()
    assert 'vllm:num_requests_running{engine="0",model_name="tiny"} 0.0' in text
    assert 'vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.0' in text
